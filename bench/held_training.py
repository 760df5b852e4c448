"""A GGUF file held as published, served and trained on: seconds until ready, one answer, one LoRA step, memory of each.

With --make the file is written first: a random Llama of 1.1 billion parameters in Q4_K with the tokenizer of DONOR,
another GGUF file. With --hold both a server of each kind takes its turn, and the ratio of their memory is printed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gguf
import numpy as np
import tinker

from peers import idle_threads_sleep
from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings

HIDDEN, LAYERS, HEADS, KV_HEADS, INNER = 2048, 22, 32, 4, 5632
PROMPT, NEW = 40, 32
DATUMS, POSITIONS, RANK = 4, 256, 16
BLOCK, BYTES = 256, 144
"""Values and bytes of a block of Q4_K."""


def random_q4_k(draw: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Blocks of random nibbles and scales whose values are about normal, of standard deviation about 0.02."""
    blocks = rows * columns // BLOCK
    found = draw.integers(0, 256, (blocks, BYTES), dtype=np.uint8)
    found[:, 0:2] = np.full(blocks, 1.4e-4, np.float16).view(np.uint8).reshape(blocks, 2)
    found[:, 2:4] = np.full(blocks, 1.05e-3, np.float16).view(np.uint8).reshape(blocks, 2)
    return found.reshape(rows, columns // BLOCK * BYTES)


def make(path: Path, donor: Path) -> None:
    """Write the random model."""
    read = gguf.GGUFReader(donor)
    writer = gguf.GGUFWriter(path, "llama")
    for key, one in read.fields.items():
        if key.startswith("tokenizer."):
            kind, *inner = one.types
            writer.add_key_value(key, one.contents(), kind, inner[-1] if inner else None)
    vocabulary = len(read.fields["tokenizer.ggml.tokens"].contents())
    writer.add_context_length(2048)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(vocabulary)
    draw = np.random.default_rng(0)
    narrow = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (narrow, HIDDEN),
        "attn_v": (narrow, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
    }
    matrices = {"token_embd": (vocabulary, HIDDEN)}
    matrices |= {f"blk.{i}.{name}": shape for i in range(LAYERS) for name, shape in shapes.items()}
    for name, shape in matrices.items():
        writer.add_tensor(f"{name}.weight", random_q4_k(draw, *shape), raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    for name in ("output_norm", *(f"blk.{i}.{part}_norm" for i in range(LAYERS) for part in ("attn", "ffn"))):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(
        f"{path}: {sum(a * b for a, b in matrices.values()) / 1e9:.2f}e9 parameters, {path.stat().st_size / 1e6:.0f} MB"
    )


def memory(server: EmbeddedServer) -> tuple[float, float]:
    """MB that it has now, and the most it had so far."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    now, most = (int(status[key].split()[0]) / 1e3 for key in ("VmRSS", "VmHWM"))
    return now, most


def measure(file: Path, hold: str) -> dict[str, float]:
    """Serve the file, sample and train once, and print seconds and memory of each."""
    begin = time.perf_counter()
    server = EmbeddedServer(EmbeddedSettings(models={"it": str(file)}, hold=hold))
    found = {"ready": memory(server)[0]}
    print(f"{hold}: ready in {time.perf_counter() - begin:.1f} s, {found['ready']:.0f} MB")
    client = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
    draw = np.random.default_rng(1)
    ids = [[int(token) for token in row] for row in draw.integers(100, 30_000, (DATUMS, POSITIONS + 1))]
    begin = time.perf_counter()
    sampler = client.create_sampling_client(base_model="it").result()
    params = tinker.SamplingParams(max_tokens=NEW, seed=1, stop=[])
    answer = sampler.sample(tinker.ModelInput.from_ints(ids[0][:PROMPT]), 1, params).result().sequences[0].tokens
    found["sampled"] = memory(server)[1]
    print(f"  {len(answer)} tokens after {PROMPT} in {time.perf_counter() - begin:.1f} s, {found['sampled']:.0f} MB")
    training = client.create_lora_training_client(base_model="it", rank=RANK).result()
    datums = [
        tinker.Datum(
            model_input=tinker.ModelInput.from_ints(row[:-1]),
            loss_fn_inputs={"target_tokens": row[1:], "weights": [1.0] * POSITIONS},
        )
        for row in ids
    ]
    for number in (1, 2):
        begin = time.perf_counter()
        training.forward_backward(datums, "cross_entropy").result()
        training.optim_step(tinker.AdamParams(learning_rate=1e-4)).result()
        found["trained"] = memory(server)[1]
        print(
            f"  step {number} of {DATUMS} x {POSITIONS}: {time.perf_counter() - begin:.1f} s, {found['trained']:.0f} MB"
        )
    server.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--make", metavar="DONOR", type=Path, help="write FILE first, with this file's tokenizer")
    parser.add_argument("--hold", choices=["published", "fp32", "both"], default="published")
    options = parser.parse_args()
    if options.make:
        make(options.file, options.make)
    holds = ["published", "fp32"] if options.hold == "both" else [options.hold]
    found = {hold: measure(options.file, hold) for hold in holds}
    for when in ("ready", "trained") if len(found) > 1 else ():
        print(f"{when}: {found['published'][when] / found['fp32'][when]:.2f}x of fp32")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
