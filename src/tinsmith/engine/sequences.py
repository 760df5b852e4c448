"""Waiting and running requests: a prompt, prefilled once, and samples, each with its own cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.cache import PagePool, pages_for
from tinsmith.engine.choices import Choice
from tinsmith.engine.drafts import Drafts
from tinsmith.engine.grammars import CompiledGrammar, Matcher
from tinsmith.engine.prefixes import Beginning
from tinsmith.engine.prompt_scores import PromptScores
from tinsmith.models.adapter import Adapter
from tinsmith.models.decoder import Decoder
from tinsmith.models.steps import LowRanks
from tinsmith.ops.paging import PAGE
from tinsmith.types.errors import InputError, TinsmithError
from tinsmith.types.sampling import SampledSequence, SampleRequest, SampleResult, StopReason, TopLogprobs

TokenBytes = Callable[[int], bytes]
"""Function from a token to the bytes that it adds to the text, special tokens spelled out, for stop strings."""


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Policy to sample from: a base and the low-rank parts beside it, both frozen."""

    decoder: Decoder
    low: LowRanks
    owner: Adapter | Decoder | None = None
    """Owner of both, if it changes by its version only; None: results serve this request alone."""


class StopRule:
    """Rule for the end of a sequence: end tokens, stop tokens, stop strings, or its length."""

    def __init__(self, request: SampleRequest, decoder: Decoder, max_tokens: int, text: TokenBytes | None) -> None:
        """Read a request's stop conditions.

        Raises:
            InputError: for stop strings where there is no tokenizer.
        """
        stop = request.params.stop
        self.max_tokens = max_tokens
        self.strings = tuple(s for s in stop or () if isinstance(s, str))
        if self.strings and text is None:
            raise InputError(
                "stop strings need a model with a tokenizer",
                field="stop",
                value=self.strings,
                allowed="token ids for a model without one",
            )
        self._text = text
        self._strings = tuple(s.encode("utf-8", "surrogatepass") for s in self.strings)
        self._longest = max((len(s) for s in self._strings), default=0)
        ends = () if stop is not None and len(stop) == 0 else decoder.config.end_tokens
        self.tokens = frozenset((*ends, *(t for t in stop or () if isinstance(t, int))))

    def reason(self, tokens: list[int]) -> StopReason | None:
        """Return the reason that `tokens`, whose last one is new, end here; None if they continue."""
        if tokens[-1] in self.tokens:
            return StopReason.STOP
        if self._strings and self._text is not None and self._holds_string(tokens, self._text):
            return StopReason.STOP
        return StopReason.LENGTH if len(tokens) >= self.max_tokens else None

    def _holds_string(self, tokens: list[int], text: TokenBytes) -> bool:
        """True if a stop string ends in the last token, even if tokens without text are inside it."""
        tail = text(tokens[-1])
        least = len(tail) + self._longest - 1
        for token in reversed(tokens[:-1]):
            if len(tail) >= least:
                break
            tail = text(token) + tail
        return any(s in tail for s in self._strings)


@dataclass(slots=True, eq=False)
class Sample:
    """Completion in progress: the tokens drawn so far, and the pages of prompt and tokens."""

    index: int
    tokens: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    top: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = field(
        default_factory=list[tuple[NDArray[np.int32], NDArray[np.float32]]]
    )
    matcher: Matcher | None = None
    """Progress through its grammar; created at its first draw."""
    pages: list[int] = field(default_factory=list[int])
    reserved: int = 0
    drafts: Drafts | None = None
    """Drafts of its next tokens; created on first use."""
    stop_reason: StopReason | None = None
    routes: list[int] = field(default_factory=list[int])
    """Digest of each fed token's experts, for a mixture."""


class Group:
    """Request in progress: the prompt's cache, and the samples forked from it."""

    def __init__(
        self,
        request: SampleRequest,
        policy: Policy,
        rule: StopRule,
        grammar: CompiledGrammar | None = None,
        number: int = 0,
    ) -> None:
        self.request = request
        self.number = number
        """Number among its sampler's requests, in order of arrival."""
        self.grammar = grammar
        self.policy = policy
        self.rule = rule
        self.prefilled = 0
        self.num_cached = 0
        """Number of the prompt's tokens whose keys and values were in the cache when it began."""
        self.begun: Beginning | None = None
        """Cached part of the prompt; None before the lookup."""
        self.pages: list[int] = []
        self.samples = [Sample(i) for i in range(request.num_samples)]
        self.unforked = list(self.samples)
        self.open = len(self.samples)
        self.spare = 0
        self.scores = PromptScores(request)
        self.routes: list[NDArray[np.int64]] = []
        """Digests of the prompt's experts, chunk by chunk, for a mixture."""
        self.result: SampleResult | None = None
        self.failure: TinsmithError | None = None

    def choice(self, sample: Sample) -> Choice | None:
        """Return the adjustments of a sample's next draw; None if there are none.

        Raises:
            InputError: its grammar is too complex.
        """
        adjustments = self.request.params.adjustments
        if adjustments is None:
            return None
        if self.grammar is not None and sample.matcher is None:
            sample.matcher = self.grammar.matcher(self.rule.tokens)
        allowed = None if sample.matcher is None else sample.matcher.allowed()
        return Choice(adjustments, self.request.prompt, sample.tokens, allowed)

    def reason(self, sample: Sample) -> StopReason | None:
        """Return the reason that a sample, whose last token is new, ends here; None if it continues.

        Raises:
            InputError: its grammar is too complex.
        """
        if sample.matcher is not None and sample.matcher.take(sample.tokens[-1]):
            return StopReason.STOP
        return self.rule.reason(sample.tokens)

    @property
    def ended(self) -> bool:
        """True if there is a result or a failure."""
        return self.result is not None or self.failure is not None

    @property
    def prompt_pages(self) -> int:
        """Number of pages of the prompt."""
        return pages_for(len(self.request.prompt))

    @property
    def sample_pages(self) -> int:
        """Most pages that a sample may need of its own: all but the prompt's full ones."""
        if self.rule.max_tokens == 0:
            return 0
        prompt = len(self.request.prompt)
        return pages_for(prompt + self.rule.max_tokens - 1) - prompt // PAGE

    def admit(self, pool: PagePool) -> None:
        """Reserve the prompt and its first sample, so that a started prompt can always continue."""
        self.spare = self.sample_pages
        pool.reserve(self.prompt_pages + self.spare)

    def begin(self, pool: PagePool, begun: Beginning) -> None:
        """Continue behind the cached prefix of the prompt, whose pages this request now shares."""
        self.begun = begun
        self.pages, self.routes = begun.pages, list(begun.routes)
        self.prefilled = self.num_cached = PAGE * len(self.pages)
        pool.unreserve(len(self.pages))

    def fork(self, pool: PagePool, most: int) -> list[Sample]:
        """Share the prompt's cache with up to `most` open samples: full pages by reference, a partial one as a copy."""
        self.unforked = [sample for sample in self.unforked if sample.stop_reason is None]
        prompt = len(self.request.prompt)
        shared = self.pages[: prompt // PAGE]
        samples: list[Sample] = []
        while self.unforked and len(samples) < most and (self.spare or pool.available >= self.sample_pages):
            sample = self.unforked.pop(0)
            samples.append(sample)
            if self.spare:
                self.spare = 0
            else:
                pool.reserve(self.sample_pages)
            sample.reserved = self.sample_pages
            sample.pages = list(shared)
            for page in shared:
                pool.share(page)
        if samples and prompt % PAGE:
            copies = [self.extend(pool, sample) for sample in samples]
            pool.duplicate(self.pages[prompt // PAGE], copies)
        return samples

    @staticmethod
    def extend(pool: PagePool, sample: Sample) -> int:
        """Add one reserved page to a sample."""
        page = pool.take()
        sample.reserved -= 1
        sample.pages.append(page)
        return page

    def end(self, pool: PagePool, sample: Sample, reason: StopReason) -> None:
        """End a sample; the last one completes the result."""
        sample.stop_reason = reason
        self.close(pool, sample)
        self.open -= 1
        if self.open == 0:
            self.release(pool)
            self.result = self.scores.result(tuple(self._sequence(one) for one in self.samples))

    @staticmethod
    def close(pool: PagePool, sample: Sample) -> list[int]:
        """Release a sample's pages and reservation; return the pages that are free now."""
        freed = [page for page in sample.pages if pool.release(page)]
        pool.unreserve(sample.reserved)
        sample.pages, sample.reserved = [], 0
        return freed

    def release(self, pool: PagePool) -> list[int]:
        """Release the prompt's pages and its reservation; return the pages that are free now."""
        if self.prefilled < len(self.request.prompt):
            pool.unreserve(self.prompt_pages - len(self.pages))
        freed = [page for page in self.pages if pool.release(page)]
        pool.unreserve(self.spare)
        self.pages, self.spare = [], 0
        return freed

    def _sequence(self, sample: Sample) -> SampledSequence:
        assert sample.stop_reason is not None
        top = None
        if k := self.request.topk_logprobs:
            top = TopLogprobs(
                tokens=np.array([tokens for tokens, _ in sample.top], np.int32).reshape(-1, k),
                logprobs=np.array([values for _, values in sample.top], np.float32).reshape(-1, k),
            )
        return SampledSequence(
            tokens=np.array(sample.tokens, np.int32),
            logprobs=np.array(sample.logprobs, np.float32),
            stop_reason=sample.stop_reason,
            top=top,
            routes=np.concatenate([*self.routes, np.array(sample.routes, np.int64)]) if self.routes else None,
        )


@dataclass(slots=True)
class Waiting:
    """Requests that wait for room in the cache: one queue per owner, served in turn.

    An owner with many requests does not delay the others. The order of computation changes no bit.
    """

    _queues: OrderedDict[str, OrderedDict[int, Group]] = field(
        default_factory=OrderedDict[str, "OrderedDict[int, Group]"]
    )
    """Queues by owner, the next one first; groups by id."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, group: Group, owner: str) -> None:
        """Put a request behind the others of its owner."""
        self._queues.setdefault(owner, OrderedDict())[id(group)] = group

    @property
    def first(self) -> Group:
        """Return the next group to serve."""
        return next(iter(next(iter(self._queues.values())).values()))

    def pop(self) -> Group:
        """Remove the next group; another owner's turn follows."""
        owner, queue = self._queues.popitem(last=False)
        _, group = queue.popitem(last=False)
        if queue:
            self._queues[owner] = queue
        return group

    def remove(self, group: Group) -> bool:
        """Remove a request; return False if it does not wait."""
        for owner, queue in self._queues.items():
            if queue.pop(id(group), None) is not None:
                if not queue:
                    del self._queues[owner]
                return True
        return False


@dataclass(slots=True)
class _Undrawn:
    group: Group
    logits: Tensor
    """Of the prompt's last token, (1, vocabulary)."""
    drawn: int = 0


@dataclass(slots=True)
class FirstDraws:
    """Queue of first tokens: each step draws as many as a step decodes, and as many for one prompt as for another.

    A token's noise is a function of seed, sample and position, so that the step it is drawn in changes no bit.
    """

    most: int
    """First tokens drawn in one step."""
    _left: int = 0
    _undrawn: list[_Undrawn] = field(default_factory=list[_Undrawn])

    def __bool__(self) -> bool:
        return bool(self._undrawn)

    def begin_step(self) -> None:
        """Begin a step, in which nothing was drawn yet."""
        self._left = self.most

    def at_once(self, group: Group, logits: Tensor) -> bool:
        """Return whether all samples of a new prompt are drawn in this step; otherwise queue them."""
        if len(group.samples) <= self._left:
            self._left -= len(group.samples)
            return True
        self._undrawn.append(_Undrawn(group, logits.clone()))
        return False

    def next(self) -> tuple[list[tuple[int, Group, Sample]], Tensor] | None:
        """Return (row, group, sample) of the queued draws of this step, and their rows; None if there are none."""
        if not self._undrawn:
            return None
        share = max(1, self._left // len(self._undrawn))
        drawn = [
            (row, one.group, sample)
            for row, one in enumerate(self._undrawn)
            for sample in one.group.samples[one.drawn : one.drawn + share]
        ]
        logits = torch.cat([one.logits for one in self._undrawn])
        for one in self._undrawn:
            one.drawn += share
        self._undrawn = [one for one in self._undrawn if one.drawn < len(one.group.samples)]
        return drawn, logits

    def drop(self, group: Group) -> None:
        """Draw no more for a request."""
        self._undrawn = [one for one in self._undrawn if one.group is not group]
