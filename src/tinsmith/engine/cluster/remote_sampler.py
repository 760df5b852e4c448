"""Sampler of a server with workers: requests are forwarded, and their results come back complete."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.shipping import RemotePolicy
from tinsmith.engine.cluster.work import Outcome, Refused, Sampled, SampleWork
from tinsmith.engine.grammars import Grammars, compile_grammar
from tinsmith.engine.sequences import Group, Policy, StopRule, TokenBytes
from tinsmith.engine.validation import check_request
from tinsmith.models.config import DecoderConfig
from tinsmith.types.errors import BackendError
from tinsmith.types.sampling import SampleRequest, SampleResult

_NUMBERS: Iterator[int] = itertools.count()


@dataclass(slots=True)
class RemoteSampler:
    """Sampler of one base on workers. One caller drives it; answers arrive on another thread."""

    config: DecoderConfig
    dispatcher: Dispatcher
    wake: Callable[[], None]
    """Called on the dispatcher's thread when there are results to deliver."""
    text: TokenBytes | None = None
    grammars: Grammars | None = None
    _ids: dict[int, str] = field(default_factory=dict[int, str])
    """Ids of the works in progress, by group."""
    _arrived: deque[tuple[Group, Outcome]] = field(default_factory=deque[tuple[Group, Outcome]])

    def submit(self, request: SampleRequest, policy: Policy, *, owner: str = "") -> Group:
        """Send a request to a worker, owners in turn; its `result` is set by a later `step`.

        Raises:
            InputError: for a request that cannot be served; nothing was sent.
        """
        assert isinstance(policy, RemotePolicy), "made by the cluster's engine"
        max_tokens = check_request(request, self.config)
        grammar = compile_grammar(request, self.grammars)
        rule = StopRule(request, policy.decoder, max_tokens, self.text)
        group = Group(request, policy, rule, grammar)
        work = SampleWork(id=f"sample-{next(_NUMBERS)}", weights=policy.weights, request=request, owner=owner)
        self._ids[id(group)] = work.id
        size = len(request.prompt) + max_tokens * request.num_samples

        def settled(outcome: Outcome) -> None:
            self._arrived.append((group, outcome))
            self.wake()

        self.dispatcher.submit(work, size, policy.shipped, settled)
        return group

    @property
    def cache(self) -> None:
        """None: each worker has its own cache."""

    @property
    def busy(self) -> bool:
        """True if a step would deliver results."""
        return bool(self._arrived)

    @property
    def num_running(self) -> int:
        """Number of requests in progress."""
        return len(self._ids)

    def step(self) -> list[Group]:
        """Return the requests that have ended."""
        ended: list[Group] = []
        while self._arrived:
            group, outcome = self._arrived.popleft()
            if self._ids.pop(id(group), None) is None:
                continue  # it was cancelled meanwhile
            _settle(group, outcome)
            ended.append(group)
        return ended

    def cancel(self, group: Group) -> None:
        """Drop a request; its result stays None."""
        work_id = self._ids.pop(id(group), None)
        if work_id is not None:
            self.dispatcher.drop(work_id)


def _settle(group: Group, outcome: Outcome) -> None:
    """Complete a group as if it had been computed here."""
    if isinstance(outcome, Sampled):
        _fill(group, outcome.result)
    elif isinstance(outcome, Refused):
        group.failure = outcome.error
    else:
        group.failure = BackendError("a worker answered a sampling request with something else")


def _fill(group: Group, result: SampleResult) -> None:
    for sample, sequence in zip(group.samples, result.sequences, strict=True):
        sample.tokens = sequence.tokens.tolist()
        sample.logprobs = sequence.logprobs.tolist()
        sample.stop_reason = sequence.stop_reason
        if sequence.top is not None:
            sample.top = list(zip(sequence.top.tokens, sequence.top.logprobs, strict=True))
    scores = group.scores
    if result.prompt_logprobs is not None:
        scores.logprobs = result.prompt_logprobs
    if result.prompt_top is not None:
        scores.top = result.prompt_top
    if result.prompt_spread is not None:
        scores.spread = result.prompt_spread
    group.open = 0
    group.result = result
