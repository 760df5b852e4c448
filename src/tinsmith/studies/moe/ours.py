"""Our decoder on canonical or on the vendor's kernels: whole texts as the trainer, single tokens as the sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tinsmith.engine.cache import PagePool, pages_for
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import SampleSteps, TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.paging import Rows
from tinsmith.ops.routing import Routes
from tinsmith.ops.select import select
from tinsmith.ops.stock import Bf16Products
from tinsmith.studies.moe.values import Dtype, Engine, Experts, Floats, Seen, Side, Text
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import IntArray


def our_decoder(side: Side, config: DecoderConfig, weights: Mapping[str, Tensor]) -> Decoder:
    """Build the decoder of a side."""
    fast = side.engine is Engine.FAST
    kernels: Kernels = select(Arithmetic.FAST if fast else Arithmetic.CANONICAL, "cpu")
    if side.dtype is Dtype.BF16:
        weights = {name: tensor.bfloat16().float() for name, tensor in weights.items()}
        kernels = Bf16Products(kernels.device) if fast else kernels
    return build_decoder(config, weights, kernels)


class _Recorder(RouteRecord):
    """Keeps the experts of one pass themselves, layer by layer."""

    def __init__(self) -> None:
        super().__init__(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        self.layers: list[Tensor] = []

    def see(self, layer: int, logits: Tensor, routes: Routes) -> None:
        """Of one layer."""
        del layer, logits
        self.layers.append(routes.experts)

    def experts(self) -> Experts:
        """(rows, layers, active)."""
        return torch.stack(self.layers, dim=1).numpy().astype(np.int16)


@dataclass(frozen=True, slots=True)
class Ours:
    """A decoder that says what it did."""

    decoder: Decoder

    def forward(self, texts: Sequence[Text]) -> list[Seen]:
        """Compute whole texts, as a trainer does."""
        lengths = [len(text.tokens) - 1 for text in texts]
        recorder = _Recorder()
        steps = TrainSteps(self.decoder.kernels, Forest.whole(lengths), routed=recorder)
        with torch.no_grad():
            hidden = self.decoder.hidden(steps, _ids([text.tokens[:-1] for text in texts]))
            logits = steps.linear(hidden, self.decoder.head, HEAD_PLACE)
        found = self._logprobs(logits, np.concatenate([text.tokens[1:] for text in texts]))
        bounds, experts = np.cumsum(lengths)[:-1], recorder.experts()
        return [
            Seen(logprobs=logprobs[len(text.prompt) - 1 :], experts=own)
            for text, logprobs, own in zip(texts, np.split(found, bounds), np.split(experts, bounds), strict=True)
        ]

    def decode(self, texts: Sequence[Text]) -> list[Seen]:
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
        return [Seen(logprobs=by_text[i], experts=np.concatenate(cached.experts[i])) for i in range(len(texts))]

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
    """Texts that grow together over a paged cache."""

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
        self.experts: list[list[Experts]] = [[] for _ in prompts]
        """By text, (tokens, layers, active) of each pass."""
        self.logits = self._pass(prompts)
        """[texts, V], of each text's last token."""

    def feed(self, tokens: IntArray) -> None:
        """Compute one more token of every text."""
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
        recorder = _Recorder()
        steps = SampleSteps(self.decoder.kernels, rows, self._pool.layers, ((0, int(begin[-1]), {}),), recorder)
        with torch.no_grad():
            hidden = self.decoder.hidden(steps, _ids(new))
            last = hidden[torch.from_numpy(begin[1:] - 1)].contiguous()
            logits = self.decoder.kernels.gemm(last, self.decoder.head.weight(self.decoder.kernels))
        for own, part in zip(self.experts, np.split(recorder.experts(), begin[1:-1]), strict=True):
            own.append(part)
        self._fed += lengths
        return logits


def _ids(tokens: Sequence[IntArray]) -> Tensor:
    return torch.from_numpy(np.concatenate(tokens).astype(np.int64))
