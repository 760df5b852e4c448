"""Two policies beside each other: agreement at each token that one wrote, and answers that one writes corrected.

At each token the second's choice and its rank in the first are asked. Under correction the first policy writes, and
takes the second's token at the places that a rule chooses. The oracle corrects wherever the two would take different
tokens; the control as many places of the same answer, drawn whatever stands there. Source, with its taxonomy of tokens:
arXiv:2605.06241.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from typing import Final, TypeVar

import msgspec

from tinsmith.lab.rollouts import Rollout, Sampling, sample_groups
from tinsmith.lab.service.asked_policy import AskedPolicy, Draw
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.subject import UserAnswer, UserSubject
from tinsmith.types.errors import BackendError
from tinsmith.types.seeds import derive

N = TypeVar("N", int, float)

CANDIDATES: Final = 5  # Ranks that count as the first few.


class Fate(StrEnum):
    """Fate of a token: both would take it, the second's is among the first's few most probable ones, or it is not."""

    UNSHIFTED = "unshifted"
    RERANKED = "reranked"
    SHIFTED = "shifted"


class Writer(StrEnum):
    """Whose text is read: the prefixes on which both are asked."""

    FIRST = "first"
    SECOND = "second"


class Decoding(StrEnum):
    """Ways to write a text."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


class Rule(StrEnum):
    """Places at which the second's token is taken: where they part, as many drawn ones, or where the first is unsure.

    The last needs no look at the second: the first's entropy is above a threshold.
    """

    ORACLE = "oracle"
    RANDOM = "random"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on one tokenizer, which spells tokens: what the second would do is looked for in the first."""

    first: AskedPolicy
    second: AskedPolicy
    spelled: Callable[[int], str]


class Place(msgspec.Struct, frozen=True):
    """One token of an answer: of the first its entropy in nats, and the rank of the second's most probable token."""

    token: int
    text: str
    rank: int
    entropy: float
    instead: str  # The second's most probable token.

    @property
    def fate(self) -> Fate:
        """Its fate."""
        return fate_of(self.rank)


class ItemLook(msgspec.Struct, frozen=True, kw_only=True):
    """All answers to one item, added up; ranks are of the tokens that are not unshifted, entropies of the first."""

    item: str
    tokens: int
    reranked: int
    shifted: int
    ranks: int
    entropy_changed: float
    entropy_same: float

    @property
    def changed(self) -> int:
        """Tokens that are not unshifted."""
        return self.reranked + self.shifted


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one policy, written in one way; `shown` has the first answer to the first few items."""

    writer: Writer
    decoding: Decoding
    items: tuple[ItemLook, ...]
    earned: dict[str, tuple[float, ...]]  # The reward of every answer, by item; failed ones are not among them.
    failures: int
    shown: dict[str, tuple[Place, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer that is to be written; `places` are those of its tokens that the control corrects."""

    prompt: tuple[int, ...]
    seed: int
    places: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """An answer that the first policy wrote under correction; `taken` counts tokens that are the second's."""

    tokens: tuple[int, ...]
    taken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Settings of writing; above `threshold` nats the first counts as uncertain."""

    decoding: Decoding
    temperature: float
    max_tokens: int
    stop: tuple[int, ...]
    threshold: float

    def drawn(self, policy: AskedPolicy, draws: Sequence[Draw]) -> list[tuple[int, ...]]:
        """Let a policy go on with texts."""
        temperature = 0.0 if self.decoding is Decoding.GREEDY else self.temperature
        return policy.drawn(draws, temperature=temperature, stop=self.stop)


def fate_of(rank: int) -> Fate:
    """Return what became of a token, by the rank in the first policy of what the second would take.

    >>> [fate_of(rank).value for rank in (1, 2, 5, 6)]
    ['unshifted', 'reranked', 'reranked', 'shifted']
    """
    if rank == 1:
        return Fate.UNSHIFTED
    return Fate.RERANKED if rank <= CANDIDATES else Fate.SHIFTED


def agreement(
    pair: Pair,
    subject: UserSubject,
    items: Sequence[UserItem],
    writer: Writer,
    decoding: Decoding,
    sampling: Sampling,
    *,
    show: int = 0,
) -> Agreement:
    """Let one policy write answers, and ask both at each of their tokens."""
    client = (pair.first if writer is Writer.FIRST else pair.second).client
    groups = sample_groups(client, subject, items, sampling)
    kept = [one for group in groups for one in group if isinstance(one, Rollout)]
    places = _places(pair, kept)
    by_item: dict[str, list[int]] = {}
    for at, one in enumerate(kept):
        by_item.setdefault(one.item.prompt_id, []).append(at)
    return Agreement(
        writer=writer,
        decoding=decoding,
        items=tuple(_look(name, [place for at in some for place in places[at]]) for name, some in by_item.items()),
        earned={name: tuple(kept[at].answer.earned.total for at in some) for name, some in by_item.items()},
        failures=sum(map(len, groups)) - len(kept),
        shown={name: places[some[0]] for name, some in list(by_item.items())[:show]},
    )


def _places(pair: Pair, rollouts: Sequence[Rollout[UserItem, UserAnswer]]) -> list[tuple[Place, ...]]:
    """Return what became of every token that was written."""
    texts = [one.sequence() for one in rollouts]
    begins = [one.written().index(True) for one in rollouts]
    second = pair.second.spreads(texts, begins=begins)
    wished = [[token or 0 for token in each.argmax[1:]] for each in second]  # 0: not asked about
    first = pair.first.spreads(texts, wished, begins)
    return [
        tuple(
            Place(
                token=token,
                text=pair.spelled(token),
                rank=known(found.rank[at]),
                entropy=known(found.entropy[at]),
                instead=pair.spelled(wish[at - 1]),
            )
            for at, (token, mine) in enumerate(zip(text, one.written(), strict=True))
            if mine
        )
        for one, text, wish, found in zip(rollouts, texts, wished, first, strict=True)
    ]


def known(value: N | None) -> N:
    """Return a figure that the server has to know."""
    if value is None:
        raise BackendError("the server left out a figure of a distribution")
    return value


def _look(name: str, places: Sequence[Place]) -> ItemLook:
    fates = [one.fate for one in places]
    changed = [one for one in places if one.fate is not Fate.UNSHIFTED]
    return ItemLook(
        item=name,
        tokens=len(places),
        reranked=fates.count(Fate.RERANKED),
        shifted=fates.count(Fate.SHIFTED),
        ranks=sum(one.rank for one in changed),
        entropy_changed=fsum(one.entropy for one in changed),
        entropy_same=fsum(one.entropy for one in places if one.fate is Fate.UNSHIFTED),
    )


@dataclass(slots=True)
class _Open:
    """An answer in the making."""

    line: Line
    answer: list[int] = field(default_factory=list[int])
    taken: int = 0
    over: bool = False

    @property
    def text(self) -> tuple[int, ...]:
        return (*self.line.prompt, *self.answer)


def control_places(line: Line, corrected: Corrected) -> frozenset[int]:
    """Return as many places of an answer as the oracle corrected, drawn from its length alone."""
    length = len(corrected.tokens)
    drawn = sorted(range(length), key=lambda place: derive(line.seed, "control", place))
    return frozenset(drawn[: corrected.taken])


def corrected(pair: Pair, lines: Sequence[Line], rule: Rule, writing: Writing) -> list[Corrected]:
    """Let the first policy write every answer, corrected by the second where the rule says so.

    Each round lets the first go on to the end, and cuts at the first place that is to be corrected; so an answer takes
    one round more than it has corrections.
    """
    every = [_Open(line) for line in lines]
    turn = 0
    while going := [one for one in every if not one.over]:
        _round(pair, going, rule, writing, turn)
        turn += 1
    return [Corrected(tokens=tuple(one.answer), taken=one.taken) for one in every]


def _round(pair: Pair, going: Sequence[_Open], rule: Rule, writing: Writing, turn: int) -> None:
    def draw(one: _Open, what: str, most: int) -> Draw:
        return Draw(prompt=one.text, seed=derive(one.line.seed, what, turn), max_tokens=most)

    more = writing.drawn(pair.first, [draw(one, "go on", writing.max_tokens - len(one.answer)) for one in going])
    texts = [(*one.text, *added) for one, added in zip(going, more, strict=True)]
    begins = [len(one.text) for one in going]
    first, second = (policy.spreads(texts, begins=begins) for policy in (pair.first, pair.second))
    cut: list[tuple[_Open, int]] = []
    """Answers that are corrected, and the second's most probable token there."""
    for one, text, mine, theirs in zip(going, texts, first, second, strict=True):
        begin = len(one.line.prompt)
        for at in range(begin + len(one.answer), len(text)):
            applies = {
                Rule.ORACLE: mine.argmax[at] != theirs.argmax[at],
                Rule.RANDOM: at - begin in one.line.places,
                Rule.UNCERTAIN: known(mine.entropy[at]) > writing.threshold,
            }
            if applies[rule]:
                one.answer = list(text[begin:at])
                cut.append((one, known(theirs.argmax[at])))
                break
        else:
            one.answer, one.over = list(text[begin:]), True
    tokens = [token for _, token in cut]
    if writing.decoding is Decoding.SAMPLED and cut:
        tokens = [drawn[0] for drawn in writing.drawn(pair.second, [draw(one, "instead", 1) for one, _ in cut])]
    for (one, _), token in zip(cut, tokens, strict=True):
        one.answer.append(token)
        one.taken += 1
        one.over = token in writing.stop or len(one.answer) >= writing.max_tokens
