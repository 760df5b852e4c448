"""Rollouts: groups of conversations from one prompt, sampled through the Tinker API, parsed by their subject.

A rollout that fails is kept as what it is, a failure with its cause; nobody gives it a reward. Where every rollout of a
step fails the server is lost, and the run stops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar, cast

import tinker
from tinker import types

from tinsmith.lab.environment import Environment, Failed, Move
from tinsmith.lab.live.progress import Progress, silent
from tinsmith.lab.service.official_client import text_logprobs
from tinsmith.types.errors import BackendError, DataError
from tinsmith.types.seeds import derive

SEED_BITS = 31  # Other Tinker servers keep a seed in 32 bits with a sign.

WAIT_SECONDS = 3600.0

AHEAD = 8  # Requests that a progress is first told by.
Sampler = tinker.SamplingClient | Sequence[tinker.SamplingClient]
"""Client of a policy; several clients are its agents', each writing one reply of a conversation, in order."""


class Prompted(Protocol):
    """Item of a subject."""

    @property
    def prompt_id(self) -> str:
        """Its name in the files of a run."""
        ...


I = TypeVar("I", bound=Prompted)  # noqa: E741
I_contra = TypeVar("I_contra", bound=Prompted, contravariant=True)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the model, with the observation before it."""

    observation: tuple[int, ...]
    """Tokens between the previous reply and this one; for the first, the prompt. Not trained on as actions."""
    own_words: tuple[bool, ...] = ()  # Which of them the environment wrote, where it says so.
    observed: tuple[float, ...] = ()
    """Log-probabilities of the observation under the policy that read it, if requested."""
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]  # Of the tokens, under the policy that drew them.
    text: str

    @property
    def answered(self) -> tuple[bool, ...]:
        """Mask of the observation's tokens that the environment wrote; all of them if it does not say."""
        return self.own_words or (True,) * len(self.observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(Generic[I]):
    """Conversation as turns of tokens."""

    item: I
    sample: int  # Its place in the group.
    turns: tuple[Turn, ...] = ()
    fork: int = 0  # Its place among those that share the first reply.
    depth: int = 0  # Rollouts above it in its tree.
    environment: Environment | None = field(default=None, repr=False, compare=False)
    """Its environment; None after parsing."""

    @property
    def prompt(self) -> tuple[int, ...]:
        """Tokens before the first reply."""
        return self.turns[0].observation

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens that the model wrote."""
        return tuple(token for turn in self.turns for token in turn.tokens)

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Of all tokens that the model wrote."""
        return tuple(value for turn in self.turns for value in turn.logprobs)

    @property
    def text(self) -> str:
        """The last reply."""
        return self.turns[-1].text

    def sequence(self) -> list[int]:
        """Return every token of the conversation."""
        return [token for turn in self.turns for token in (*turn.observation, *turn.tokens)]

    def written(self) -> list[bool]:
        """Return a mask of the conversation's tokens that the model wrote."""
        return [mine for turn in self.turns for mine in ([False] * len(turn.observation) + [True] * len(turn.tokens))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout(Trajectory[I], Generic[I, A]):
    """Conversation with its parsed answer."""

    answer: A
    children: tuple[Rollout[I, A] | Failure[I], ...] = ()  # Rollouts that it spawned, in their order.

    def below(self) -> Iterator[Rollout[I, A]]:
        """Yield every successful rollout below this one in its tree, parents before children."""
        for child in self.children:
            if isinstance(child, Rollout):
                yield child
                yield from child.below()


AnyRollout = Rollout[Any, Any]  # A rollout of which only the tokens matter.


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Generic[I]):
    """Rollout that failed, with the cause."""

    item: I
    sample: int
    where: str
    what: str


Group = Sequence[Rollout[I, A] | Failure[I]]  # Of one item.


class Environments(Protocol[I, A_co]):
    """Environments of items, and the parsing of finished conversations."""

    def stop(self) -> Sequence[int] | Sequence[str]:
        """Return the tokens that end a reply, or the texts."""
        ...

    def environments(self, item: I, count: int, seed: int) -> Sequence[Environment]:
        """Return `count` environments of an item; random draws depend on the seed, which is the same for one group."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Return a reply as text."""
        ...

    def read(self, trajectories: Sequence[Trajectory[I]]) -> Sequence[A_co | Failed]:
        """Return each conversation's answer, or its failure; for all of a step, so that a judge gets one batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings for drawing a group."""

    samples: int
    max_tokens: int
    temperature: float
    seed: int  # The root of the group's seeds: a group's own is derived from it and its place.
    forks: int = 1  # Second replies for each first one, where there is a second.
    observes: bool = False  # Whether to ask how probable what the environment answers is to the policy, as it reads it.
    progress: Progress = field(default=silent, compare=False)
    """Callback for the number of answered requests; with one, the first few requests are sent ahead for a forecast."""


class RecordedSampler(ABC):
    """Stand-in for a sampling client that returns recorded replies, given the conversations."""

    @abstractmethod
    def recorded(
        self, ones: Sequence[Trajectory[Any]], prompt: types.ModelInput, *, observed: bool
    ) -> tinker.APIFuture[types.SampleResponse]:
        """Return a reply to each of these conversations, which have the same tokens so far.

        With `observed` also how probable each token of the prompt is.
        """
        ...


@dataclass(slots=True, kw_only=True)
class _Live(Generic[I]):
    """Conversation in progress."""

    so_far: Trajectory[I]
    seed: int
    observation: tuple[int, ...] | None = None  # What the next reply replies to; None: it is over.
    own_words: tuple[bool, ...] = ()
    failure: Failure[I] | None = None
    children: list[_Live[I]] = field(default_factory=list["_Live[I]"])  # Conversations that it spawned.
    waits: Move | None = None  # What its last reply leads to, when these are over.

    @property
    def is_over(self) -> bool:
        return self.observation is None and self.waits is None

    def tree(self) -> Iterator[_Live[I]]:
        yield self
        for child in self.children:
            yield from child.tree()

    @property
    def environment(self) -> Environment:
        assert self.so_far.environment is not None, "it was not read yet"
        return self.so_far.environment

    def failed(self, where: str, what: str) -> None:
        one = self.so_far
        self.failure = Failure(item=one.item, sample=one.sample, where=where, what=what)
        self.observation = self.waits = None

    def waits_at(self) -> tuple[int, ...]:
        """Return all tokens before the next reply."""
        return (*self.so_far.sequence(), *(self.observation or ()))


def sample_groups(
    client: Sampler,
    subject: Environments[I, A],
    items: Sequence[I],
    sampling: Sampling,
    beside: Callable[[], Sequence[Sequence[Trajectory[I]]]] = tuple,
) -> list[list[Rollout[I, A] | Failure[I]]]:
    """Sample a group for every item concurrently; the result is in the items' order.

    `beside` returns finished conversations that join each group, to be read together with what was sampled.
    """
    groups = [
        _begin(subject, item, sampling.samples, derive(sampling.seed, "group", place))
        for place, item in enumerate(items)
    ]
    _reply(client, subject, sampling, [one for group in groups for one in _together(group)])
    _hear_children([one for group in groups for one in group])
    if sampling.forks > 1:
        groups = [[fork for one in group for fork in _forks(one, sampling.forks)] for group in groups]
    flat, turn = [one for group in groups for one in group], 1
    while active := [each for group in groups for each in _alike([one for root in group for one in root.tree()], turn)]:
        _reply(client, subject, sampling, active)
        _hear_children(flat)
        turn += 1
    failures = [one.failure for one in flat if one.failure is not None]
    if failures and len(failures) == len(flat):
        raise BackendError(f"every rollout failed; the first: {failures[0].what}")
    for group, more in zip(groups, beside(), strict=False):
        group += [_Live(so_far=one, seed=sampling.seed) for one in more]
    read = iter(_read(subject, [one for group in groups for one in group]))
    return [[next(read) for _ in group] for group in groups]


@contextmanager
def _recorded(
    ones: Sequence[_Live[I]], where: str, but: type[Exception] | tuple[()] = ()
) -> Generator[None, None, None]:
    """Record an exception in the body as the failure of these rollouts, with its cause and without a reward."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        for one in ones:
            one.failed(where, f"{type(error).__name__}: {error}")


_Request = tuple[list[_Live[I]], int]
"""Conversations whose next reply has the same prompt, and the seed of its sample."""


def _begin(subject: Environments[I, A], item: I, count: int, seed: int) -> list[_Live[I]]:
    begun = [
        _Live(so_far=Trajectory(item=item, sample=i, environment=each), seed=seed)
        for i, each in enumerate(subject.environments(item, count, seed))
    ]
    for one in begun:
        with _recorded([one], "environment", but=DataError):  # a prompt leaks: the run must stop
            one.observation = one.environment.first()
    return begun


def _together(group: list[_Live[I]]) -> list[_Request[I]]:
    """Return one request for all conversations with the same prompt, which is nearly always all of them."""
    if len({one.observation for one in group}) == 1 and group[0].observation is not None:
        return [(group, group[0].seed)]
    begun = [one for one in group if one.observation is not None]
    return [([one], derive(one.seed, "turn", 0, one.so_far.sample)) for one in begun]


def _alike(group: list[_Live[I]], turn: int) -> list[_Request[I]]:
    """Return one request per distinct prompt of a group: a few dozen instead of a hundred per step."""
    waiting: dict[tuple[int, ...], list[_Live[I]]] = {}
    for one in group:
        if one.observation is not None:
            waiting.setdefault(one.waits_at(), []).append(one)
    return [
        (ones, derive(ones[0].seed, "turn", turn, ones[0].so_far.sample, ones[0].so_far.fork))
        for ones in waiting.values()
    ]


def _reply(client: Sampler, subject: Environments[I, A], sampling: Sampling, requests: Sequence[_Request[I]]) -> None:
    """Sample every conversation's next reply, and advance its environment."""
    ahead = len(requests) if sampling.progress is silent else AHEAD
    moves: list[tuple[_Live[I], Move]] = []
    sampling.progress(0, len(requests))
    for first, part in ((0, requests[:ahead]), (ahead, requests[ahead:])):
        pending = [_request(_speaker(client, ones[0]), subject, sampling, ones, seed) for ones, seed in part]
        for place, ((ones, _), future) in enumerate(zip(part, pending, strict=True), first + 1):
            sequences: Sequence[types.SampledSequence] = ()
            read: Sequence[float | None] = ()
            with _recorded(ones, "sample"):
                answered = future.result(WAIT_SECONDS)
                sequences = answered.sequences
                if len(sequences) != len(ones):
                    raise BackendError(f"{len(ones)} samples were requested, and {len(sequences)} came")
                if _observed(sampling, ones):
                    read = text_logprobs(answered.prompt_logprobs or (), len(ones[0].waits_at()))
            if place >= ahead:  # those that go ahead are computed together, and tell nothing one by one
                sampling.progress(place, len(requests))
            if ones[0].failure is not None:
                continue
            for one, sequence in zip(ones, sequences, strict=True):
                if (move := _step(subject, one, sequence, read)) is not None:
                    is_last = isinstance(client, Sequence) and len(one.so_far.turns) == len(client)  # of the agents
                    moves.append((one, Move() if is_last else move))
    for one, move in moves:
        # Start the conversations that a reply spawns; their parent waits for all of them.
        parent, place, one.observation = one.so_far, len(one.children), None
        with _recorded([one], "environment"):
            for number, (item, environment) in enumerate(move.children(), place):
                seed = derive(one.seed, "spawned", parent.sample, number)
                begun = Trajectory(item=cast(I, item), sample=number, depth=parent.depth + 1, environment=environment)
                one.children.append(_Live(so_far=begun, seed=seed, observation=environment.first()))
            one.waits = move


def _hear_children(ones: Sequence[_Live[I]]) -> None:
    """Advance every conversation whose children have ended, the deepest first."""
    for one in ones:
        _hear_children(one.children)
        if one.waits is not None and all(child.is_over for child in one.children):
            move, one.waits = one.waits, None
            with _recorded([one], "environment"):
                one.observation, one.own_words = move.observation(), move.own_words()


def _speaker(client: Sampler, one: _Live[I]) -> tinker.SamplingClient:
    return client[len(one.so_far.turns)] if isinstance(client, Sequence) else client


def _observed(sampling: Sampling, ones: Sequence[_Live[I]]) -> bool:
    """Return True if log-probabilities of the conversations' last observations are requested; never of prompts."""
    return sampling.observes and bool(ones[0].so_far.turns)


def _request(
    client: tinker.SamplingClient, subject: Environments[I, A], sampling: Sampling, ones: Sequence[_Live[I]], seed: int
) -> tinker.APIFuture[types.SampleResponse]:
    """Request a reply to each of the conversations, which have the same tokens so far."""
    params = types.SamplingParams(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        seed=seed % 2**SEED_BITS,
        stop=cast("list[int] | list[str]", list(subject.stop())),
    )
    prompt = types.ModelInput.from_ints(list(ones[0].waits_at()))
    if isinstance(client, RecordedSampler):
        return client.recorded([one.so_far for one in ones], prompt, observed=_observed(sampling, ones))
    if _observed(sampling, ones):
        return client.sample(prompt, len(ones), params, include_prompt_logprobs=True)
    return client.sample(prompt, len(ones), params)


def _step(
    subject: Environments[I, A], live: _Live[I], sequence: types.SampledSequence, read: Sequence[float | None]
) -> Move | None:
    """Add a reply to a conversation, and step its environment; None after a failure."""
    tokens, logprobs = tuple(sequence.tokens), sequence.logprobs
    if logprobs is None or len(logprobs) != len(tokens):
        live.failed("sample", "the server gave no log-probabilities")
        return None
    observation = live.observation or ()
    turn = Turn(
        observation=observation,
        own_words=live.own_words,
        observed=tuple(value or 0.0 for value in read[len(read) - len(observation) :]),
        tokens=tokens,
        logprobs=tuple(logprobs),
        text=subject.text(tokens),
    )
    live.so_far = replace(live.so_far, turns=(*live.so_far.turns, turn))
    with _recorded([live], "environment"):
        return live.environment.step(tokens)
    return None


def _forks(one: _Live[I], count: int) -> list[_Live[I]]:
    if one.observation is None:
        return [one]
    environments = [one.environment, *(copy(one.environment) for _ in range(count - 1))]
    return [
        replace(one, so_far=replace(one.so_far, environment=each, fork=fork)) for fork, each in enumerate(environments)
    ]


def _read(subject: Environments[I, A], flat: Sequence[_Live[I]]) -> list[Rollout[I, A] | Failure[I]]:
    ended = [one.so_far for root in flat for one in root.tree() if one.failure is None]
    read = subject.read(ended)
    assert len(read) == len(ended), "every conversation is read"
    answers = {id(one): answer for one, answer in zip(ended, read, strict=True)}
    return [_read_tree(one, answers) for one in flat]


def _read_tree(one: _Live[I], answers: dict[int, A | Failed]) -> Rollout[I, A] | Failure[I]:
    if one.failure is not None:
        return one.failure
    below = tuple(_read_tree(child, answers) for child in one.children)
    trajectory, answer = one.so_far, answers[id(one.so_far)]
    if isinstance(answer, Failed):
        return Failure(item=trajectory.item, sample=trajectory.sample, where=answer.where, what=answer.what)
    place: dict[str, Any] = {"sample": trajectory.sample, "fork": trajectory.fork, "depth": trajectory.depth}
    return Rollout(item=trajectory.item, turns=trajectory.turns, answer=answer, children=below, **place)


def log_probs(client: tinker.SamplingClient, texts: Sequence[list[int]]) -> list[list[float | None]]:
    """Return the log-probability of each token of some texts under a client's policy, None for their first."""
    pending = [client.compute_logprobs(types.ModelInput.from_ints(text)) for text in texts]
    return [text_logprobs(one.result(WAIT_SECONDS), len(text)) for one, text in zip(pending, texts, strict=True)]


def mean_earned(groups: Sequence[Group[I, A]], worth: Callable[[Rollout[I, A]], Fraction]) -> dict[str, Fraction]:
    """Return the mean value of each item's answers; items whose answers all failed are left out."""
    found: dict[str, Fraction] = {}
    for group in groups:
        earned = [worth(one) for one in group if isinstance(one, Rollout)]
        if earned:
            found[group[0].item.prompt_id] = sum(earned, Fraction()) / len(earned)
    return found
