"""A LoRA trained on SmolLM2, exported merged and as GGUF: how far each is from it, and llama.cpp's log-probabilities.

`tinsmith base fetch smollm2` first. llama.cpp is asked where `--llama-cpp PYTHON` names an interpreter that has
llama-cpp-python; it computes in fp32 on one thread.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tinsmith.engine.checkpoints import save
from tinsmith.engine.export import export
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.merge import all_logprobs
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName

NAME = "tinsmith/smollm2"
STEPS = 3
TOKENS = 64
ASK = """
import sys
import numpy as np
from llama_cpp import Llama
model = Llama(model_path=sys.argv[1], n_ctx=256, n_threads=1, logits_all=True, verbose=False)
tokens = np.load(sys.argv[2]).tolist()
model.eval(tokens)
np.save(sys.argv[3], model.scores[: len(tokens)])
print(model.tokenize(sys.argv[4].encode(), add_bos=False, special=True))
"""
SAYING = "a  12 tins, <|im_start|>user it's 3:45 - naïve ☃"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama-cpp", metavar="PYTHON")
    asked = parser.parse_args()
    tokenizer, base = tokenizer_of(NAME), open_base(NAME)
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    ids = np.array(tokenizer.encode(text)[: TOKENS + 1], dtype=np.int32)
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=16)))
    inputs = {"target_tokens": ids[1:], "weights": np.ones(TOKENS, np.float32)}
    for _ in range(STEPS):
        session.forward_backward([Datum(tokens=ids[:-1], inputs=inputs)], LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=2e-4))
    adapter = session.adapter
    before = all_logprobs(decoder, {}, [ids])
    ours = all_logprobs(decoder, adapter.low, [ids])
    print(f"{STEPS} steps moved log-probabilities by up to {float((ours - before).abs().max()):.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        save(session, place / "a", base=base.identity, with_optimizer=False)
        for to, out in (("merged", place / "merged"), ("gguf", place / "mine.gguf")):
            done = export(str(place / "a"), to=to, out=out, state=place)
            verdict = "reached" if done.within_limit else "NOT reached"
            print(f"{to}: {done.difference:.2e} nats (goal <= {done.limit:.2e}: {verdict})")
        if asked.llama_cpp is None:
            return
        np.save(place / "ids.npy", ids)
        files = [str(place / name) for name in ("mine.gguf", "ids.npy", "theirs.npy")]
        command = [asked.llama_cpp, "-c", ASK, *files, SAYING]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        logits = np.load(files[2]).astype(np.float64)
    theirs = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
    theirs -= logits.max(1, keepdims=True)
    print(f"llama.cpp: largest difference {float(np.abs(ours.numpy() - theirs).max()):.2e} nats")
    same = told.strip().splitlines()[-1] == str(tokenizer.encode(SAYING))
    print(f"llama.cpp splits text the same: {same}")


if __name__ == "__main__":
    main()
