"""Both ways to compute texts, each with the experts that were taken: our decoder, and transformers as it comes.

Ours, on canonical or on the vendor's kernels: whole texts as the trainer, single tokens over a cache as the sampler.
Theirs: padded batches forward, and `generate` over its own cache, with the routers listened to. Texts that are not to
be drawn but followed are forced upon `generate` by a logits processor, so that whatever it does to the cache and to
padding is its own.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.cache import PagePool, pages_for
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import SampleSteps, TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.paging import Rows
from tinsmith.ops.routing import digests
from tinsmith.ops.select import select
from tinsmith.ops.stock import Bf16Products
from tinsmith.stats.intervals import wilson
from tinsmith.studies.moe.study import Computed, Digests, Dtype, Engine, Floats, Side, Text
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import Datum, IntArray, LossName
from tinsmith.types.seeds import derive

_RESAMPLES: Final = 2000
LOSSES: Final = (LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO)
Gradient = Mapping[str, Tensor]  # By published name.
Figures = dict[str, Any]  # Of a row of `wander.json`.


def compared(first: Sequence[Computed], second: Sequence[Computed]) -> Figures:
    """Compare two computations of the same texts: tokens that take another expert in some layer, and differences.

    Routes are of all tokens but each text's last, log-probabilities of the completions'. The 95 % interval of the share
    is a bootstrap's over texts, as a changed route changes what later tokens of its text read; where no route changed,
    Wilson's over tokens.
    """
    changed = np.array([np.count_nonzero(a.routes != b.routes) for a, b in zip(first, second, strict=True)], np.int64)
    tokens = np.array([len(each.routes) for each in first], np.int64)
    p, q = (np.concatenate([each.logprobs for each in side]) for side in (first, second))
    moved = np.abs(p.astype(np.float64) - q.astype(np.float64))
    return {
        "changed_routes": int(changed.sum()),
        "tokens": int(tokens.sum()),
        "share": int(changed.sum()) / int(tokens.sum()),
        "interval": _interval(changed, tokens),
        "changed_texts": int(np.count_nonzero(changed)),
        "texts": len(changed),
        "unequal_logprob_bits": float(np.mean(p.view(np.uint32) != q.view(np.uint32))),
        "max_logprob_difference": float(moved.max()),
        "mean_logprob_difference": float(moved.mean()),
    }


def greedy_parted(together: Sequence[IntArray], alone: Sequence[IntArray]) -> Figures:
    """Say where texts of a batch part from the same prompts' by themselves: the first positions, ascending, from 0."""
    first = [int(np.flatnonzero(a != b)[0]) for a, b in zip(together, alone, strict=True) if not np.array_equal(a, b)]
    return {"texts": len(alone), "parted": len(first), "first": sorted(first)}


def _interval(changed: NDArray[np.int64], tokens: NDArray[np.int64]) -> tuple[float, float]:
    if not changed.any():
        none = wilson(0, int(tokens.sum()))
        return none.low, none.high
    rng = np.random.default_rng(derive(0, "wander", "bootstrap"))
    rows = rng.integers(0, len(changed), (_RESAMPLES, len(changed)))
    shares = changed[rows].sum(axis=1) / tokens[rows].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def coin_advantages(count: int, group: int, seed: int) -> list[float]:
    """Draw a reward of 0 or 1 for each text, and take its group's mean away."""
    coins = np.random.default_rng(derive(seed, "wander", "rewards")).integers(0, 2, count)
    groups = coins.astype(np.float64).reshape(-1, group)
    return (groups - groups.mean(axis=1, keepdims=True)).ravel().tolist()


def step_ratios(
    exact: Callable[[Sequence[Floats], LossName], tuple[Gradient, Mapping[str, float]]],
    own: Sequence[Floats],
    *,
    sampler: Sequence[Computed],
    trainer: Sequence[Computed],
    whole: Gradient,
) -> Figures:
    """Measure an RL step on policy: sampled in a batch by decoding, trained on whole texts by the same arithmetic.

    The angle of each loss is between its gradient with these ratios and that with all ratios 1, both by canonical
    arithmetic: `exact` of log-probabilities at sampling, `own` those of its forward pass. That of `whole` is of the
    gradient of importance sampling as this arithmetic computes all of it.
    """
    still, _ = exact(own, LossName.IMPORTANCE_SAMPLING)
    both = zip(trainer, sampler, strict=True)
    moved = [(p.logprobs.astype(np.float64) - q.logprobs.astype(np.float64)) for p, q in both]
    ratios = np.exp(np.concatenate(moved))
    # The same ratios, met by canonical's trainer: what it says, less the difference of the two.
    given = [(p.astype(np.float64) - d).astype(np.float32) for p, d in zip(own, moved, strict=True)]
    by_loss = {loss: exact(given, loss) for loss in LOSSES}
    return {
        "tokens": sum(len(each.routes) for each in sampler),
        "unequal_routes": sum(int((p.routes != q.routes).sum()) for p, q in zip(trainer, sampler, strict=True)),
        "ratios_not_one": float(np.mean(ratios != 1.0)),
        "least_ratio": float(ratios.min()),
        "largest_ratio": float(ratios.max()),
        "clipped": {
            loss.value: (metrics["clipped_low:sum"] + metrics["clipped_high:sum"]) / len(ratios)
            for loss, (_, metrics) in by_loss.items()
            if loss is not LossName.IMPORTANCE_SAMPLING
        },
        "angle_degrees": {loss.value: angle(gradient, still) for loss, (gradient, _) in by_loss.items()},
        "whole_angle_degrees": angle(whole, still),
    }


def angle(first: Gradient, second: Gradient) -> float:
    """Return the angle between two gradients over all weights, in degrees: 0 for equal ones, 90 where one is zero."""
    names = sorted(second)
    if all(bool((first[name] == second[name]).all()) for name in names):
        return 0.0

    def dot(a: Gradient, b: Gradient) -> float:
        return math.fsum(float((a[name].double() * b[name].double()).sum()) for name in names)

    norms = [math.sqrt(dot(each, each)) for each in (first, second)]
    if min(norms) == 0.0:
        return 90.0
    cosine = dot(first, second) / (norms[0] * norms[1])
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def our_decoder(side: Side, config: DecoderConfig, weights: Mapping[str, Tensor]) -> Decoder:
    """Build the decoder of a side."""
    fast = side.engine is Engine.FAST
    kernels: Kernels = select(Arithmetic.FAST if fast else Arithmetic.CANONICAL, "cpu")
    if side.dtype is Dtype.BF16:
        weights = {name: tensor.bfloat16().float() for name, tensor in weights.items()}
        kernels = Bf16Products(kernels.device) if fast else kernels
    return build_decoder(config, weights, kernels)


def _recorder(decoder: Decoder) -> RouteRecord:
    record = RouteRecord.of(decoder)
    assert record is not None, "the model is a mixture"
    return record


@dataclass(frozen=True, slots=True)
class Ours:
    """A decoder that says what it did."""

    decoder: Decoder

    def forward(self, texts: Sequence[Text]) -> list[Computed]:
        """Compute whole texts, as a trainer does."""
        lengths = [len(text.tokens) - 1 for text in texts]
        record = _recorder(self.decoder)
        steps = TrainSteps(self.decoder.kernels, Forest.whole(lengths), routed=record)
        with torch.no_grad():
            hidden = self.decoder.hidden(steps, _ids([text.tokens[:-1] for text in texts]))
            logits = steps.linear(hidden, self.decoder.head, HEAD_PLACE)
        found = self._logprobs(logits, np.concatenate([text.tokens[1:] for text in texts]))
        bounds, routes = np.cumsum(lengths)[:-1], record.digests(sum(lengths))
        return [
            Computed(logprobs=logprobs[len(text.prompt) - 1 :], routes=own)
            for text, logprobs, own in zip(texts, np.split(found, bounds), np.split(routes, bounds), strict=True)
        ]

    def gradient(
        self,
        texts: Sequence[Text],
        advantages: Sequence[float],
        sampled: Sequence[Floats],
        loss: LossName = LossName.IMPORTANCE_SAMPLING,
    ) -> tuple[Gradient, Mapping[str, float]]:
        """Return a loss's gradient on all weights, and its metrics; `sampled` are log-probabilities at sampling."""
        session = TrainingSession(create_adapter(self.decoder, AdapterSpec(kind=AdapterKind.FULL)))
        each = zip(texts, sampled, advantages, strict=True)
        data = [Datum.sampled(text.tokens, logprobs, advantage) for text, logprobs, advantage in each]
        metrics = session.forward_backward(data, loss).metrics
        return {name: grad.clone() for name, grad in session.optimizer.gradient().items()}, metrics

    def decode(self, texts: Sequence[Text]) -> list[Computed]:
        """Compute texts token by token over a cache, as a sampler does."""
        tokens = len(texts[0].completion)
        cached = _Cached(self.decoder, [text.prompt for text in texts], tokens)
        logprobs: list[Floats] = []
        for step in range(tokens):
            forced = np.array([text.completion[step] for text in texts], np.int32)
            logprobs.append(self._logprobs(cached.logits, forced))
            if step + 1 < tokens:
                cached.feed(forced)
        by_text = np.stack(logprobs, axis=1)
        return [Computed(logprobs=by_text[i], routes=np.concatenate(cached.routes[i])) for i in range(len(texts))]

    def greedy(self, prompts: Sequence[IntArray], tokens: int) -> list[IntArray]:
        """Draw the most probable token after each, `tokens` times; of equals the lower one."""
        cached = _Cached(self.decoder, prompts, tokens)
        drawn: list[IntArray] = []
        for step in range(tokens):
            drawn.append(cached.logits.argmax(dim=1).numpy().astype(np.int32))
            if step + 1 < tokens:
                cached.feed(drawn[-1])
        return list(np.stack(drawn, axis=1))

    def _logprobs(self, logits: Tensor, targets: IntArray) -> Floats:
        kernels = self.decoder.kernels
        stats = kernels.row_stats(logits, 1.0)
        wanted = torch.from_numpy(targets.astype(np.int32))
        return kernels.gather_logprobs(logits, wanted, stats).numpy()


class _Cached:
    def __init__(self, decoder: Decoder, prompts: Sequence[IntArray], tokens: int) -> None:
        self.decoder = decoder
        needed = [pages_for(len(prompt) + tokens) for prompt in prompts]
        least = pages_for(decoder.config.max_positions) + 1
        self._pool = PagePool(decoder.config, max(least, sum(needed)), torch.device("cpu"))
        self._pool.reserve(sum(needed))
        self._table = np.zeros((len(prompts), max(needed)), np.int32)
        for i, pages in enumerate(needed):
            self._table[i, :pages] = [self._pool.take() for _ in range(pages)]
        self._fed = np.zeros(len(prompts), np.int64)
        self.routes: list[list[Digests]] = [[] for _ in prompts]  # By text, those of each pass.
        self.logits = self._pass(prompts)  # [texts, V], of each text's last token.

    def feed(self, tokens: IntArray) -> None:
        self.logits = self._pass([tokens[i : i + 1] for i in range(len(tokens))])

    def _pass(self, new: Sequence[IntArray]) -> Tensor:
        lengths = np.array([len(tokens) for tokens in new])
        begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = Rows(
            row_begin=torch.from_numpy(begin),
            first_pos=torch.from_numpy(self._fed.copy()),
            positions=torch.from_numpy(np.repeat(self._fed - begin[:-1], lengths) + np.arange(begin[-1])),
            table=torch.from_numpy(self._table),
        )
        record = _recorder(self.decoder)
        steps = SampleSteps(self.decoder.kernels, rows, self._pool.layers, ((0, int(begin[-1]), {}),), record)
        with torch.no_grad():
            hidden = self.decoder.hidden(steps, _ids(new))
            last = hidden[torch.from_numpy(begin[1:] - 1)].contiguous()
            logits = self.decoder.kernels.gemm(last, self.decoder.head.weight(self.decoder.kernels))
        for own, part in zip(self.routes, np.split(record.digests(int(begin[-1])), begin[1:-1]), strict=True):
            own.append(part)
        self._fed += lengths
        return logits


def _ids(tokens: Sequence[IntArray]) -> Tensor:
    return torch.from_numpy(np.concatenate(tokens).astype(np.int64))


_DTYPES: Final = {Dtype.FP32: torch.float32, Dtype.BF16: torch.bfloat16}
_PAD: Final = 0


class Theirs:
    """A folder's model in transformers."""

    def __init__(self, folder: Path, dtype: Dtype) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        made = AutoModelForCausalLM.from_pretrained(folder, dtype=_DTYPES[dtype], local_files_only=True)
        self.model: Any = made.eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = _PAD
        modules = [(name, one) for name, one in self.model.named_modules() if type(one).__name__.endswith("TopKRouter")]
        self._routers = {int(re.findall(r"\d+", name)[0]): router for name, router in modules}
        """By the number of the layer."""

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

    def forward(self, texts: Sequence[Text]) -> list[Computed]:
        """Compute all texts in one batch, padded on the right, as trainers do."""
        with torch.no_grad(), self._listening() as heard:
            logprobs = self.logprobs(texts)
        routes = self._together(heard, len(texts))
        return [
            Computed(logprobs=logprobs[i].numpy(), routes=routes[i, : len(text.tokens) - 1])
            for i, text in enumerate(texts)
        ]

    def decode(self, texts: Sequence[Text]) -> list[Computed]:
        """Compute texts token by token, padded on the left, as `generate` wants it."""
        forced = _Forced(np.stack([text.completion for text in texts]))
        with self._listening() as heard:
            self._generate([text.prompt for text in texts], forced.tokens.shape[1], [forced])
        layers = len(self._routers)
        passes = [self._together(heard[at : at + layers], len(texts)) for at in range(0, len(heard), layers)]
        routes, logprobs = np.concatenate(passes, axis=1), np.stack(forced.logprobs, axis=1)
        width = max(len(text.prompt) for text in texts)
        return [
            Computed(logprobs=logprobs[i], routes=routes[i, width - len(text.prompt) :]) for i, text in enumerate(texts)
        ]

    def greedy(self, prompts: Sequence[IntArray], tokens: int) -> list[IntArray]:
        """Draw the most probable token after each, `tokens` times."""
        return self._generate(prompts, tokens, [])

    def gradient(
        self, texts: Sequence[Text], advantages: Sequence[float], sampled: Sequence[Floats], batch: int
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
        """The digests [rows] of every router's every call, in order."""
        heard: list[Tensor] = []

        def hear(layer: int, _module: object, _given: object, out: tuple[Tensor, Tensor, Tensor]) -> None:
            heard.append(digests(out[2].detach().sort(dim=-1).values, layer))

        hooks = [router.register_forward_hook(partial(hear, layer)) for layer, router in self._routers.items()]
        try:
            yield heard
        finally:
            for hook in hooks:
                hook.remove()

    def _together(self, heard: Sequence[Tensor], texts: int) -> Digests:
        assert len(heard) == len(self._routers), "every router is called once a pass"
        return torch.stack(list(heard)).sum(0).reshape(texts, -1).numpy()


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
