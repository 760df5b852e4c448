"""Sampler with continuous batching: each step feeds one token per running sample and a chunk of waiting prompts.

Batching affects speed only. A prompt is prefilled once for all its samples; several weights (adapters on one base,
whole models of one shape) are served in one step; a sample's randomness is a function of (seed, sample index, position,
token id), so that no other request can change it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.cache import PagePool, SamplerLimits, cache_pages, pages_for
from tinsmith.engine.choices import Choice, choose
from tinsmith.engine.decode_graphs import DecodeGraphs
from tinsmith.engine.drafts import MOST_SAMPLES, Drafts
from tinsmith.engine.grammars import Grammars, compile_grammar
from tinsmith.engine.prefixes import Prefixes
from tinsmith.engine.prompt_scores import Read, read_prompts, scores_prompt
from tinsmith.engine.sequences import FirstDraws, Group, Policy, Sample, StopRule, TokenBytes, Waiting
from tinsmith.engine.validation import check_request
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import SampleSteps
from tinsmith.ops.kernels import Draws, Kernels
from tinsmith.ops.linear import Run, forward
from tinsmith.ops.paging import PAGE, Rows
from tinsmith.types.errors import BackendError, InputError
from tinsmith.types.sampling import SampleRequest, SampleResult, StopReason

NOT_FINITE = "the model's logits are not finite"
"""Beginning of the message about weights that nothing can be sampled from."""


@dataclass(slots=True)
class _Feed:
    """Tokens of one sequence in this step: a chunk of a prompt, or a sample's latest token."""

    group: Group
    sample: Sample | None
    tokens: NDArray[np.int32] | list[int]
    first_pos: int
    pages: list[int]
    draft: bool = False
    """True if the token is drafted and may be rejected."""


class Sampler:
    """Sampler of requests on models of one shape. Not thread-safe: one caller drives `step`."""

    def __init__(
        self,
        config: DecoderConfig,
        kernels: Kernels,
        *,
        limits: SamplerLimits | None = None,
        text: TokenBytes | None = None,
        grammars: Grammars | None = None,
        pool: PagePool | None = None,
    ) -> None:
        """Serve models of this shape; `pool` replaces the default pool made from the limits."""
        self.config = config
        self.kernels = kernels
        self.limits = limits or SamplerLimits()
        self._text = text
        self._grammars = grammars
        self.pool = pool or PagePool(config, cache_pages(config, self.limits), kernels.device)
        prefix_pages = self.limits.prefix_pages
        self.prefixes = Prefixes(self.pool, self.pool.capacity // 2 if prefix_pages is None else prefix_pages)
        self._graphs = DecodeGraphs(kernels, self.pool)
        self.num_drafted = 0
        """Tokens drafted so far."""
        self.num_confirmed = 0
        """Drafted tokens that were accepted."""
        self._submitted = 0
        self._waiting = Waiting()
        self._prefilling: list[Group] = []
        self._first = FirstDraws(self.limits.max_samples)
        self._forking: deque[Group] = deque()
        self._running: list[tuple[Group, Sample]] = []

    def submit(self, request: SampleRequest, policy: Policy, *, owner: str = "") -> Group:
        """Queue a request behind others of its `owner`; its `result` is set by a later `step`.

        Raises:
            InputError: for a request that cannot be served; nothing was queued.
        """
        max_tokens = check_request(request, self.config)
        rule = StopRule(request, policy.decoder, max_tokens, self._text)
        grammar = compile_grammar(request, self._grammars)
        group = Group(request, policy, rule, grammar, self._submitted)
        self._submitted += 1
        self._waiting.add(group, owner)
        return group

    def sample(self, requests: Sequence[SampleRequest], policies: Sequence[Policy]) -> list[SampleResult]:
        """Run requests to completion, in the order given.

        Raises:
            InputError: for a request that cannot be served; none of them is.
            BackendError: the first failure, once all others are served.
        """
        for request in requests:
            check_request(request, self.config)
            compile_grammar(request, self._grammars)
        groups = [self.submit(request, policy) for request, policy in zip(requests, policies, strict=True)]
        try:
            while self.busy:
                self.step()
        except BaseException:  # after an interrupt, say, later requests must not wait for these
            for group in groups:
                self.cancel(group)
            raise
        for group in groups:
            if group.failure is not None:
                raise group.failure
        return [group.result for group in groups if group.result is not None]

    @property
    def cache(self) -> PagePool:
        """The KV cache."""
        return self.pool

    @property
    def num_running(self) -> int:
        """Number of samples being decoded."""
        return len(self._running)

    @property
    def busy(self) -> bool:
        """True if any request is unfinished."""
        return bool(self._waiting or self._prefilling or self._first or self._forking or self._running)

    def cancel(self, group: Group) -> None:
        """Drop a request and free its resources; its result stays None."""
        if self._waiting.remove(group):
            return
        if group.result is None and group.failure is None:
            self._drop(group)

    def _drop(self, group: Group) -> None:
        """Remove a request from every list, and scrub its pages, which may hold non-finite values."""
        if group.begun is not None:
            self.prefixes.settle(group.begun)
        own = [sample for other, sample in self._running if other is group]
        freed = [page for sample in own for page in Group.close(self.pool, sample)]
        self._running = [pair for pair in self._running if pair[0] is not group]
        self._prefilling = [other for other in self._prefilling if other is not group]
        self._first.drop(group)
        self._forking = deque(other for other in self._forking if other is not group)
        # Cached or shared pages were computed by a request that succeeded.
        self.pool.scrub(sorted([*freed, *group.release(self.pool)]))
        self.prefixes.trim()

    def step(self) -> list[Group]:
        """Compute one step for all requests in progress; return those it completed."""
        self._admit()
        self._first.begin_step()
        feeds = self._decode_feeds() + self._prefill_feeds()
        by_decoder: dict[int, list[_Feed]] = {}
        for feed in feeds:
            by_decoder.setdefault(id(feed.group.policy.decoder), []).append(feed)
        for same in by_decoder.values():
            same.sort(key=lambda feed: id(feed.group.policy.low))
            self._compute(same[0].group.policy.decoder, same)
        groups = [*(feed.group for feed in feeds), *self._draw_first()]
        self._running = [(group, sample) for group, sample in self._running if sample.stop_reason is None]
        self.prefixes.trim()
        return [group for group in dict.fromkeys(groups) if group.ended]

    def _admit(self) -> None:
        """Fork prefilled prompts, as far as the cache has room."""
        while self._forking:
            group = self._forking[0]
            if not group.ended:
                self._running += [
                    (group, s) for s in group.fork(self.pool, self.limits.max_samples - len(self._running))
                ]
                if group.unforked:
                    return
            self._forking.popleft()

    def _to_prefill(self) -> Iterator[Group]:
        """Return the groups to prefill: those begun, then waiting ones while the cache has room.

        So a new request waits for one step, not for all of another owner's requests.
        """
        yield from tuple(self._prefilling)
        while self._waiting and not self._forking and len(self._prefilling) < self.limits.max_samples:
            group = self._waiting.first
            if self.pool.available < group.prompt_pages + group.sample_pages:
                return
            group.admit(self.pool)
            self._prefilling.append(self._waiting.pop())
            yield group

    def _decode_feeds(self) -> list[_Feed]:
        feeds: list[_Feed] = []
        for group, sample in self._running:
            position = len(group.request.prompt) + len(sample.tokens) - 1
            if position // PAGE == len(sample.pages):
                Group.extend(self.pool, sample)
            feeds.append(_Feed(group, sample, sample.tokens[-1:], position, sample.pages))
            if len(self._running) <= MOST_SAMPLES and self.limits.drafted:
                feeds += self._draft_feeds(group, sample, position + 1)
        return feeds

    def _draft_feeds(self, group: Group, sample: Sample, position: int) -> Iterator[_Feed]:
        """Feeds of drafted tokens from `position` on, each a sequence of one row, as is that of the latest token."""
        if group.policy.decoder.config.mixture is not None:
            return  # more rows read more experts
        sample.drafts = sample.drafts or Drafts(group.request.prompt)
        room = group.rule.max_tokens - len(sample.tokens) - 1
        for token in sample.drafts.next(sample.tokens, min(room, self.limits.drafted)):
            if position // PAGE == len(sample.pages):
                Group.extend(self.pool, sample)
            yield _Feed(group, sample, [token], position, sample.pages, draft=True)
            self.num_drafted += 1
            position += 1

    def _prefill_feeds(self) -> list[_Feed]:
        feeds: list[_Feed] = []
        room = self.limits.prefill_tokens
        for group in self._to_prefill():
            if room == 0:
                break
            if group.begun is None and not self._begin(group):
                continue
            chunk = group.request.prompt[group.prefilled : group.prefilled + room]
            while len(group.pages) < pages_for(group.prefilled + len(chunk)):
                group.pages.append(self.pool.take())
            feeds.append(_Feed(group, None, chunk, group.prefilled, group.pages))
            room -= len(chunk)
        return feeds

    def _begin(self, group: Group) -> bool:
        """Look up the cached prefix of a prompt; False if the request must wait for one in progress."""
        prompt = group.request.prompt
        first = group.scores.first_row
        begun = self.prefixes.begin(group.policy.owner, prompt, first, group.number)
        if begun is not None:
            group.begin(self.pool, begun)
        return begun is not None

    def _keep(self, group: Group, sample: Sample | None) -> None:
        """Cache the prompt, or a sample with it, all of whose rows gave a distribution."""
        prompt, begun = group.request.prompt, group.begun
        assert begun is not None, "it was begun"
        if sample is None:
            self.prefixes.keep(begun, prompt, group.pages, group.routes)
            self.prefixes.settle(begun)
        elif sample.pages:
            fed = np.array(sample.tokens[:-1], np.int32)
            routes = [*group.routes, np.array(sample.routes, np.int64)] if group.routes else []
            self.prefixes.keep(begun, np.concatenate([prompt, fed]), sample.pages, routes)

    def _compute(self, decoder: Decoder, feeds: list[_Feed]) -> None:
        """Run one forward pass of rows that share base weights, then use their logits."""
        rows = _rows(feeds)
        begin = rows.row_begin.tolist()
        runs: list[tuple[int, int, Policy]] = []
        for i, feed in enumerate(feeds):
            if runs and runs[-1][2].low is feed.group.policy.low:
                runs[-1] = (runs[-1][0], begin[i + 1], runs[-1][2])
            else:
                runs.append((begin[i], begin[i + 1], feed.group.policy))
        record = RouteRecord.of(decoder)
        ids = torch.from_numpy(np.concatenate([np.asarray(feed.tokens, np.int64) for feed in feeds]))
        hidden = None
        if len(runs) == 1 and record is None:
            hidden = self._graphs.hidden(decoder, runs[0][2].low, rows, ids)
        if hidden is None:
            parts = tuple((b, e, p.low) for b, e, p in runs)
            steps = SampleSteps(self.kernels, rows, self.pool.layers, parts, record)
            hidden = decoder.hidden(steps, ids.to(self.kernels.device))
        if record is not None:
            _keep_routes(feeds, begin, record.digests(begin[-1]))
        for feed in feeds:
            if feed.sample is None:
                feed.group.prefilled += len(feed.tokens)
                if feed.group.prefilled == len(feed.group.request.prompt):
                    self._prefilling.remove(feed.group)
        for chunk in self._logit_chunks(feeds, begin):
            wanted = [row for _, row, _ in chunk]
            logits = self._logits(decoder, hidden, wanted, runs)
            self._read_prompts(chunk, logits)
            self._draw(chunk, logits)

    def _logit_chunks(self, feeds: list[_Feed], begin: list[int]) -> list[list[tuple[_Feed, int, int]]]:
        """(feed, row, position) of every row whose logits are needed, in chunks small enough to hold."""
        needed: list[tuple[_Feed, int, int]] = []
        for i, feed in enumerate(feeds):
            request = feed.group.request
            scored = feed.sample is None and scores_prompt(request)
            complete = feed.sample is not None or feed.group.prefilled == len(request.prompt)
            for row in range(begin[i] if scored else begin[i + 1] - 1, begin[i + 1]):
                position = feed.first_pos + row - begin[i]
                last = complete and row == begin[i + 1] - 1
                if last or (scored and feed.group.scores.asks(position + 1)):
                    needed.append((feed, row, position))
        size = max(1, self.limits.logits // self.config.vocab_size)
        return [needed[i : i + size] for i in range(0, len(needed), size)]

    def _logits(
        self, decoder: Decoder, hidden: Tensor, wanted: list[int], runs: list[tuple[int, int, Policy]]
    ) -> Tensor:
        """Logits of some rows, each through its own adapter."""
        x = hidden if len(wanted) == hidden.shape[0] else hidden[torch.tensor(wanted, device=hidden.device)]
        ends = np.searchsorted(np.array(wanted), [end for _, end, _ in runs]).tolist()
        starts = [0, *ends[:-1]]
        parts = tuple(
            Run(b, e, p.low.get(HEAD_PLACE)) for b, e, (_, _, p) in zip(starts, ends, runs, strict=True) if e > b
        )
        return forward(self.kernels, x.contiguous(), decoder.head, parts)

    def _read_prompts(self, chunk: list[tuple[_Feed, int, int]], logits: Tensor) -> None:
        """Read the requested scores of prompt tokens, each from the row before it."""
        reads = [
            Read(i, feed.group.scores, position + 1)
            for i, (feed, _, position) in enumerate(chunk)
            if feed.sample is None and feed.group.scores.asks(position + 1)
        ]
        if reads:
            read_prompts(self.kernels, logits, reads)

    def _draw(self, chunk: list[tuple[_Feed, int, int]], logits: Tensor) -> None:
        """Draw the next token of every sample whose row is here; a prompt's last row serves all its samples."""
        drawn: list[tuple[int, Group, Sample, int]] = []
        for i, (feed, _, position) in enumerate(chunk):
            if feed.sample is not None:
                if not feed.draft:
                    drawn.append((i, feed.group, feed.sample, position + 1))
            elif position + 1 < len(feed.group.request.prompt):
                continue
            elif feed.group.rule.max_tokens == 0:
                self._end_scored(feed.group, logits[i])
            elif self._first.at_once(feed.group, logits[i : i + 1]):
                drawn += [(i, feed.group, sample, position + 1) for sample in feed.group.samples]
                self._forking.append(feed.group)
        if drawn:
            self._take(drawn, logits)
        drafts = [(i, feed, position) for i, (feed, _, position) in enumerate(chunk) if feed.draft]
        while came := [(i, one.group, one.sample, at + 1) for i, one, at in drafts if one.sample and _is_next(one, at)]:
            self._take(came, logits)
            self.num_confirmed += len(came)

    def _draw_first(self) -> list[Group]:
        """Draw queued first tokens of prompts with many samples; return their groups."""
        found = self._first.next()
        if found is None:
            return []
        drawn, logits = found
        self._take([(row, group, sample, len(group.request.prompt)) for row, group, sample in drawn], logits)
        groups = list(dict.fromkeys(group for _, group, _ in drawn))
        self._forking += [group for group in groups if group.samples[-1].tokens and not group.ended]
        return groups

    def _take(self, drawn: list[tuple[int, Group, Sample, int]], logits: Tensor) -> None:
        """Draw a token of each sample from its row, and end the samples that are complete."""
        params = [group.request.params for _, group, _, _ in drawn]
        draws = Draws(
            rows=np.array([i for i, _, _, _ in drawn], np.int64),
            seeds=np.array([p.seed for p in params], np.uint64),
            samples=np.array([sample.index for _, _, sample, _ in drawn], np.int64),
            positions=np.array([position for _, _, _, position in drawn], np.int64),
            temperatures=np.array([p.temperature for p in params], np.float32),
            top_ks=np.array([p.top_k for p in params], np.int64),
            top_ps=np.array([p.top_p for p in params], np.float64),
        )
        choices = [self._choice(group, sample) for _, group, sample, _ in drawn]
        tokens, logprobs = choose(self.kernels, logits, draws, choices)
        self._keep_top(drawn, draws, logits)
        for (_, group, sample, _), token, logprob in zip(drawn, tokens.tolist(), logprobs.tolist(), strict=True):
            if group.failure is not None:
                continue
            if token < 0:
                where = f"sample {sample.index}, token {len(sample.tokens)}"
                self._fail(group, _not_finite(where))
                continue
            if not (sample.index or sample.tokens):
                self._keep(group, None)
            sample.tokens.append(token)
            sample.logprobs.append(logprob)
            try:
                reason = group.reason(sample)
            except InputError as error:
                self._fail(group, error)
                continue
            if reason is not None:
                self._keep(group, sample)
                group.end(self.pool, sample, reason)

    def _choice(self, group: Group, sample: Sample) -> Choice | None:
        """Return the adjustments of a sample's next draw; None if there are none."""
        if group.failure is not None:
            return None
        try:
            return group.choice(sample)
        except InputError as error:
            self._fail(group, error)
            return None

    def _end_scored(self, group: Group, last: Tensor) -> None:
        """End a request for prompt scores only.

        The last row attends to all others, so it is not finite if any of them is not. In that case the request fails as
        it would when drawing a token, and none of its pages is cached.
        """
        if group.scores.unknown or not bool(last.isfinite().all()):
            self._fail(group, _not_finite("the prompt"))
            return
        self._keep(group, None)
        for sample in group.samples:
            group.end(self.pool, sample, StopReason.LENGTH)

    def _fail(self, group: Group, failure: BackendError | InputError) -> None:
        """Fail a request with a cause; its neighbours continue."""
        group.failure = failure
        self._drop(group)

    def _keep_top(self, drawn: list[tuple[int, Group, Sample, int]], draws: Draws, logits: Tensor) -> None:
        most = max(group.request.topk_logprobs for _, group, _, _ in drawn)
        if most == 0:
            return
        tokens, logprobs = self.kernels.top_logprobs(logits, draws.rows, draws.temperatures, most)
        for j, (_, group, sample, _) in enumerate(drawn):
            k = group.request.topk_logprobs
            sample.top.append((tokens[j, :k], logprobs[j, :k]))


def _is_next(feed: _Feed, position: int) -> bool:
    """True for a drafted token that was just accepted, so that its row is the sample's latest."""
    sample, at = feed.sample, position - len(feed.group.request.prompt)
    assert sample is not None
    goes_on = feed.group.failure is None and sample.stop_reason is None
    return goes_on and len(sample.tokens) == at + 1 and sample.tokens[at] == feed.tokens[0]


def _keep_routes(feeds: list[_Feed], begin: list[int], digests: NDArray[np.int64]) -> None:
    for i, feed in enumerate(feeds):
        own = digests[begin[i] : begin[i + 1]]
        if feed.sample is None:
            feed.group.routes.append(own)
        else:
            feed.sample.routes += own.tolist()


def _not_finite(where: str) -> BackendError:
    """Error for logits that are not finite."""
    return BackendError(
        f"{NOT_FINITE}: nothing can be sampled from these weights",
        field=where,
        fix="load an earlier checkpoint and lower the learning rate",
    )


def _rows(feeds: list[_Feed]) -> Rows:
    lengths = [len(feed.tokens) for feed in feeds]
    table = np.zeros((len(feeds), max(len(feed.pages) for feed in feeds)), np.int32)
    for i, feed in enumerate(feeds):
        table[i, : len(feed.pages)] = feed.pages
    first = np.array([feed.first_pos for feed in feeds], np.int64)
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.repeat(first - begin[:-1], lengths) + np.arange(begin[-1])
    return Rows(
        row_begin=torch.from_numpy(begin),
        first_pos=torch.from_numpy(first),
        positions=torch.from_numpy(positions),
        table=torch.from_numpy(table),
    )
