"""Drafted tokens in one conversation: a sampler that drafts against one that does not, in CPU-seconds.

    python bench/drafts.py [MODEL] [ROUNDS]

MODEL is `tinsmith/smollm2` (after `tinsmith base fetch smollm2`) or a GGUF file with a chat template. Four prompts,
greedily and at temperature 1, each by both in turn; every answer must have the same bits from both. Drafted tokens,
and those that were drawn, stand beside the ratio.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Final

import numpy as np
import torch

from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.sampling import SampleRequest, SamplingParams

NEW: Final = 200
_CODE = "\n".join(
    f"def area_{name}(side: float) -> float:\n    return {value} * side**2\n"
    for name, value in (("square", 1.0), ("circle", 3.14159), ("triangle", 0.433), ("hexagon", 2.598))
)
TEXTS: Final = {
    "free": "Write a short story about a lighthouse keeper who finds a letter.",
    "code": f"```python\n{_CODE}```\nRepeat this code exactly, without any change.",
    "json": "Turn each line into a JSON object with the keys name, year and city, as a JSON list.\n"
    "Ada, 1815, London\nAlan, 1912, London\nGrace, 1906, New York\nEdsger, 1930, Rotterdam\nBarbara, 1939, Los Angeles",
    "quote": "Paper: We study the disruption index of 4,512 papers in high-energy physics, and find that consolidating "
    "papers cite more recent references than disruptive papers do.\nQuote the sentence, then name its field.",
}


def main() -> int:
    model = sys.argv[1] if len(sys.argv) > 1 else "tinsmith/smollm2"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    configure(threads=2)
    torch.set_num_threads(1)
    base, tokenizer = open_base(model), tokenizer_of(model)
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    samplers = [Sampler(decoder.config, decoder.kernels, limits=SamplerLimits(drafted=most)) for most in (0, 7)]
    equal = True
    for temperature in (0.0, 1.0):
        for name, text in TEXTS.items():
            chat = [{"role": "user", "content": text}]
            prompt = str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))
            ids = tokenizer.encode(prompt, add_special_tokens=False)
            params = SamplingParams(seed=5, max_tokens=NEW, temperature=temperature)
            request = SampleRequest(prompt=np.array(ids, np.int32), params=params)
            spent: list[list[float]] = [[], []]
            shown: set[bytes] = set()
            before, new = (samplers[1].num_drafted, samplers[1].num_confirmed), 0
            for _ in range(rounds):
                for sampler, took in zip(samplers, spent, strict=True):
                    begun = time.process_time()
                    (result,) = sampler.sample([request], [Policy(decoder, {})])
                    took.append(time.process_time() - begun)
                    (answer,) = result.sequences
                    shown.add(answer.tokens.tobytes() + answer.logprobs.tobytes())
                    new = len(answer.tokens)
            equal = equal and len(shown) == 1
            drafted = (samplers[1].num_drafted - before[0]) // rounds
            confirmed = (samplers[1].num_confirmed - before[1]) // rounds
            ratio = statistics.median(b / a for a, b in zip(*spent, strict=True))
            print(
                f"{name} at {temperature:g}, {new} new: {ratio:.2f}x; {drafted} drafted, {confirmed} drawn", flush=True
            )
    print("every answer has the same bits" if equal else "BITS DIFFER")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
