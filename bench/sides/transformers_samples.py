"""transformers' side of sampling: `generate` on the folder, ids drawn from the whole distribution."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch
from side import Measured, measure, serve
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, PreTrainedModel


def main() -> None:
    torch.set_num_threads(int(sys.argv[2]))

    @cache
    def load(dtype: str) -> PreTrainedModel:
        model = AutoModelForCausalLM.from_pretrained(f"{sys.argv[1]}/folder", dtype=getattr(torch, dtype))
        model.eval().generation_config.eos_token_id = None
        return model

    def work(task: dict[str, Any]) -> Measured:
        """Of its settings: `rows` at once; `share`: a prompt is computed once for all its samples; `dtype`."""
        model, prompts, samples = load(task["dtype"]), torch.tensor(task["prompts"]), task["samples"]
        setting = GenerationConfig(
            do_sample=True, top_k=0, max_new_tokens=task["new"], eos_token_id=None, pad_token_id=2
        )

        def run() -> int:
            made = 0
            for ids in prompts.split(max(1, task["rows"] // samples)):
                cache = DynamicCache(config=model.config)
                if task["share"]:
                    model(ids[:, :-1], past_key_values=cache, logits_to_keep=1)
                    cache.batch_repeat_interleave(samples)
                rows = ids.repeat_interleave(samples, 0)
                out = model.generate(rows, past_key_values=cache, generation_config=setting)
                made += out[:, ids.shape[1] :].numel()
            return made

        with torch.no_grad():
            return measure(run)

    serve(work)


if __name__ == "__main__":
    main()
