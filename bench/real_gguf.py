"""SmolLM2 out of its GGUF file: what reading it takes, and its log-probabilities beside those of transformers.

`tinsmith base fetch smollm2` first. Text is this repository's README, cut at 512 positions; every token's
log-probability at every position is compared.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from tinsmith.models.base import tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.model import read_model
from tinsmith.models.merge import all_logprobs
from tinsmith.models.published.sources import find_model
from tinsmith.ops.native import NativeKernels

NAME = "tinsmith/smollm2"
POSITIONS = 512
LARGEST = 5e-5
READ_SECONDS = 1.5


def main() -> None:
    path = find_model(NAME).path
    assert path is not None
    start = time.process_time()
    config, weights = read_model(read_gguf(path))
    took = time.process_time() - start
    verdict = "reached" if took <= READ_SECONDS else "NOT reached"
    print(f"reading {path.name}: {took:.2f} CPU-s (goal <= {READ_SECONDS}: {verdict})")

    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    ids = tokenizer_of(NAME).encode(text)[:POSITIONS]
    tokens = torch.tensor(ids)
    assert len(ids) == POSITIONS
    decoder = build_decoder(config, weights, NativeKernels())
    ours = all_logprobs(decoder, {}, [tokens.int().numpy()])
    del decoder, weights

    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    taken = torch.arange(POSITIONS - 1)

    def differ(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
        """The largest difference over the text's own tokens, and over all tokens."""
        apart = (one - other).abs()
        return float(apart[:-1][taken, tokens[1:]].max()), float(apart.max())

    theirs = asked(model, tokens)
    own, every = differ(ours, theirs)
    verdict = "reached" if own <= LARGEST else "NOT reached"
    print(
        f"log-probabilities of {POSITIONS} positions against transformers in fp32: {own:.2e} nats "
        f"(goal <= {LARGEST:.0e}: {verdict}); over all {config.vocab_size} tokens {every:.2e}"
    )
    exact = asked(model.double(), tokens)
    for who, found in (("tinsmith", ours), ("transformers in fp32", theirs)):
        own, every = differ(found, exact)
        print(f"{who} against transformers in fp64: {own:.2e} nats; over all tokens {every:.2e}")


def asked(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of every token at every position, fp64."""
    with torch.no_grad():
        return torch.log_softmax(model(tokens[None]).logits[0].double(), dim=-1)


if __name__ == "__main__":
    main()
