"""transformers as it comes: padded batches forward, and `generate` over its own cache, with the routers listened to.

Texts that are not to be drawn but followed are forced upon `generate` by a logits processor, so that whatever it does
to the cache and to padding is its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tinsmith.studies.moe.values import Dtype, Experts, Floats, Seen, Text
from tinsmith.types.datum import IntArray

_DTYPES: Final = {Dtype.FP32: torch.float32, Dtype.BF16: torch.bfloat16}
_PAD: Final = 0


class Theirs:
    """A folder's model in transformers."""

    def __init__(self, folder: Path, dtype: Dtype) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=_DTYPES[dtype], local_files_only=True
        ).eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = _PAD
        self._routers = [module for module in self.model.modules() if type(module).__name__.endswith("TopKRouter")]

    def logprobs(self, texts: Sequence[Text]) -> list[Tensor]:
        """Of the completions' tokens, fp32, of one padded batch; differentiable."""
        ids, mask = _padded([text.tokens[:-1] for text in texts], left=False)
        logits = self.model(input_ids=ids, attention_mask=mask).logits.float()
        found: list[Tensor] = []
        for i, text in enumerate(texts):
            rows = torch.log_softmax(logits[i, len(text.prompt) - 1 : len(text.tokens) - 1], dim=-1)
            targets = torch.from_numpy(text.completion.astype(np.int64))
            found.append(rows.gather(1, targets[:, None])[:, 0])
        return found

    def forward(self, texts: Sequence[Text]) -> list[Seen]:
        """Compute all texts in one batch, padded on the right, as trainers do."""
        with torch.no_grad(), self._listening() as heard:
            logprobs = self.logprobs(texts)
        width = max(len(text.tokens) for text in texts) - 1
        experts = _together(heard, len(self._routers), len(texts), width)
        return [
            Seen(logprobs=logprobs[i].numpy(), experts=experts[i, : len(text.tokens) - 1])
            for i, text in enumerate(texts)
        ]

    def decode(self, texts: Sequence[Text]) -> list[Seen]:
        """Compute texts token by token, padded on the left, as `generate` wants it."""
        forced = _Forced(np.stack([text.completion for text in texts]))
        with self._listening() as heard:
            self._generate([text.prompt for text in texts], forced.tokens.shape[1], [forced])
        width = max(len(text.prompt) for text in texts)
        layers = len(self._routers)
        prefill = _together(heard[:layers], layers, len(texts), width)
        steps = [_together(heard[at : at + layers], layers, len(texts), 1) for at in range(layers, len(heard), layers)]
        logprobs = np.stack(forced.logprobs, axis=1)
        return [
            Seen(
                logprobs=logprobs[i],
                experts=np.concatenate([prefill[i, width - len(text.prompt) :], *(step[i] for step in steps)]),
            )
            for i, text in enumerate(texts)
        ]

    def greedy(self, prompts: Sequence[IntArray], tokens: int) -> list[IntArray]:
        """Draw the most probable token after each, `tokens` times."""
        return self._generate(prompts, tokens, [])

    def gradient(
        self, texts: Sequence[Text], sampled: Sequence[Floats], advantages: Sequence[float], batch: int
    ) -> dict[str, Tensor]:
        """The gradient of importance sampling by autograd, by published name; `sampled` are from sampling."""
        self.model.zero_grad(set_to_none=True)
        for part in (range(len(texts))[at : at + batch] for at in range(0, len(texts), batch)):
            loss = torch.zeros(())
            for i, logprobs in zip(part, self.logprobs([texts[i] for i in part]), strict=True):
                ratios = torch.exp(logprobs - torch.from_numpy(sampled[i]))
                loss = loss - advantages[i] * ratios.sum()
            loss.backward()
        return _published(
            {
                name: torch.zeros_like(own) if own.grad is None else own.grad.float()
                for name, own in self.model.named_parameters()
            }
        )

    def _generate(self, prompts: Sequence[IntArray], tokens: int, forced: list[Any]) -> list[IntArray]:
        ids, mask = _padded(prompts, left=True)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out: Tensor = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False, logits_processor=forced
            )
        return list(out[:, ids.shape[1] :].numpy().astype(np.int32))

    @contextmanager
    def _listening(self) -> Generator[list[Tensor], None, None]:
        """The experts [rows, active] of every router's every call, in order."""
        heard: list[Tensor] = []

        def hear(module: object, given: object, out: tuple[Tensor, Tensor, Tensor]) -> None:
            del module, given
            heard.append(out[2].detach().sort(dim=-1).values)

        hooks = [router.register_forward_hook(hear) for router in self._routers]
        try:
            yield heard
        finally:
            for hook in hooks:
                hook.remove()


class _Forced:
    """Lets nothing but the given tokens be drawn, and keeps their log-probabilities."""

    def __init__(self, tokens: IntArray) -> None:
        self.tokens = tokens
        self.logprobs: list[Floats] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        del input_ids
        wanted = torch.from_numpy(self.tokens[:, len(self.logprobs)].astype(np.int64))[:, None]
        logprobs = torch.log_softmax(scores.float(), dim=-1)
        self.logprobs.append(logprobs.gather(1, wanted)[:, 0].numpy())
        return torch.full_like(scores, -torch.inf).scatter_(1, wanted, 0.0)


def _padded(tokens: Sequence[IntArray], *, left: bool) -> tuple[Tensor, Tensor]:
    width = max(len(one) for one in tokens)
    ids = torch.full((len(tokens), width), _PAD)
    mask = torch.zeros((len(tokens), width), dtype=torch.int64)
    for i, one in enumerate(tokens):
        own = slice(width - len(one), None) if left else slice(0, len(one))
        ids[i, own] = torch.from_numpy(one.astype(np.int64))
        mask[i, own] = 1
    return ids, mask


def _together(heard: Sequence[Tensor], layers: int, texts: int, width: int) -> Experts:
    """(texts, width, layers, active) of one pass."""
    assert len(heard) == layers, "every router is called once a pass"
    whole = torch.stack(list(heard), dim=1)
    return whole.reshape(texts, width, layers, -1).numpy().astype(np.int16)


def _published(held: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as files name them: an expert's matrices by themselves."""
    apart: dict[str, Tensor] = {}
    for name, tensor in held.items():
        before, experts, matrix = name.partition(".experts.")
        if not experts:
            apart[name] = tensor
            continue
        parts = {"gate_up_proj": ("gate_proj", "up_proj")}.get(matrix, (matrix,))
        for expert, whole in enumerate(tensor):
            for part, rows in zip(parts, whole.chunk(len(parts)), strict=True):
                apart[f"{before}{experts}{expert}.{part}.weight"] = rows
    return apart
