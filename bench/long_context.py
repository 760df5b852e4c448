"""One datum of 8,192 tokens of prompt and 2,048 of answer on SmolLM2's shape: LoRA, forward and backward, and memory.

The peer: transformers with peft, attention by sdpa, layers recomputed (else it needs more than 24 GB), logits of
the answer alone. Each side is a process of its own. Limit: products 2 x 2 x 106M parameters x 10,240 tokens, forward
twice and backward, 6.5 TFLOP; attention 4 x 30 layers x 10,240^2 / 2 x 576, forward twice and 2.5 times backward,
16 TFLOP.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from peers import idle_threads_sleep, report
from scale import SMOLLM2
from sides.side import Measured, measure
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.datum import Datum, LossName

RANK = 16


def ours(tokens: np.ndarray, prompt: int) -> Measured:
    """Forward and backward of a session."""
    config = replace(SMOLLM2, max_positions=len(tokens))
    session = TrainingSession(
        create_adapter(build_decoder(config, initial_weights(config, 0), NativeKernels()), AdapterSpec(rank=RANK))
    )
    weights = np.zeros(len(tokens) - 1, np.float32)
    weights[prompt - 1 :] = 1.0
    inputs = {"target_tokens": tokens[1:], "weights": weights}
    datum = Datum(tokens=tokens[:-1], inputs=inputs)

    def work() -> int:
        session.forward_backward([datum], LossName.CROSS_ENTROPY)
        return len(tokens)

    return measure(work)


def theirs(tokens: np.ndarray, prompt: int) -> Measured:
    """The same by torch."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = replace(SMOLLM2, max_positions=len(tokens))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), config, initial_weights(config, 0))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    model.config.use_cache = False
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=RANK, target_modules="all-linear")).train()
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    answer = len(tokens) - prompt

    def work() -> int:
        logits = model(ids[:, :-1], logits_to_keep=answer).logits[0]
        torch.nn.functional.cross_entropy(logits, ids[0, -answer:], reduction="sum").backward()
        return len(tokens)

    return measure(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=8192)
    parser.add_argument("--answer", type=int, default=2048)
    parser.add_argument("--side", choices=["ours", "theirs"], help="one side alone, as JSON")
    options = parser.parse_args()
    if options.side:
        configure(threads=2)
        torch.set_num_threads(1 if options.side == "ours" else 2)
        tokens = np.random.default_rng(0).integers(0, 49_152, options.prompt + options.answer).astype(np.int32)
        done = (ours if options.side == "ours" else theirs)(tokens, options.prompt)
        print(json.dumps([done.wall, done.cpu, done.peak]))
        return
    found: list[tuple[float, float, float]] = []
    for side in ("ours", "theirs"):
        command = [
            sys.executable,
            __file__,
            "--side",
            side,
            "--prompt",
            str(options.prompt),
            "--answer",
            str(options.answer),
        ]
        found.append(tuple(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)))
    (wall, cpu, peak), (wall_theirs, cpu_theirs, peak_theirs) = found
    title = f"{options.prompt:,} + {options.answer:,} tokens, forward and backward"
    report(f"{title}, wall", wall, wall_theirs, 0.8, "s")
    report(f"{title}, CPU", cpu, cpu_theirs, 0.8, "s")
    report(f"{title}, memory", peak, peak_theirs, 0.5, "MB")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
