"""Agreement of two policies: at each token that one of them wrote, the second's choice and its rank in the first.

Source: the taxonomy of arXiv:2605.06241: unshifted (both take the same token), reranked (the second's is among the
first few of the first), shifted (it is not).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import Final, TypeVar

import msgspec

from tinsmith.lab.rollouts import Rollout, Sampling, sample_groups
from tinsmith.lab.service.asked_policy import AskedPolicy
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.subject import UserAnswer, UserSubject
from tinsmith.types.errors import BackendError

N = TypeVar("N", int, float)

CANDIDATES: Final = 5
"""Ranks that count as the first few."""


class Fate(StrEnum):
    """Fate of a token."""

    UNSHIFTED = "unshifted"
    """Both policies would take the same one."""
    RERANKED = "reranked"
    """The second's is among the first's CANDIDATES most probable ones."""
    SHIFTED = "shifted"
    """It is not: the first never had it in sight."""


class Writer(StrEnum):
    """Whose text is read: the prefixes on which both are asked."""

    FIRST = "first"
    SECOND = "second"


class Decoding(StrEnum):
    """Ways to write a text."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on one tokenizer: what the second would do is looked for in the first."""

    first: AskedPolicy
    second: AskedPolicy
    spelled: Callable[[int], str]
    """Spells a token."""

    def writer(self, writer: Writer) -> AskedPolicy:
        """Return the one that writes."""
        return self.first if writer is Writer.FIRST else self.second


class Place(msgspec.Struct, frozen=True):
    """One token of an answer."""

    token: int
    text: str
    rank: int
    """Of the second's most probable token in the distribution of the first."""
    entropy: float
    """Of the first, in nats."""
    instead: str
    """The second's most probable token."""

    @property
    def fate(self) -> Fate:
        """Its fate."""
        return fate_of(self.rank)


class ItemLook(msgspec.Struct, frozen=True, kw_only=True):
    """All answers to one item, added up."""

    item: str
    tokens: int
    reranked: int
    shifted: int
    ranks: int
    """Sum over the tokens that are not unshifted."""
    entropy_changed: float
    """Of the first, summed over the tokens that are not unshifted."""
    entropy_same: float
    """Summed over the others."""

    @property
    def changed(self) -> int:
        """Tokens that are not unshifted."""
        return self.reranked + self.shifted


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one policy, written in one way."""

    writer: Writer
    decoding: Decoding
    items: tuple[ItemLook, ...]
    earned: dict[str, tuple[float, ...]]
    """The reward of every answer, by item; failed ones are not among them."""
    failures: int
    shown: dict[str, tuple[Place, ...]]
    """The first answer to the first few items."""


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
    groups = sample_groups(pair.writer(writer).client, subject, items, sampling)
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
    wished = [
        [0 if token is None else token for token in each.argmax[1:]]  # 0: not asked about
        for each in second
    ]
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
    changed = [one for one in places if one.fate is not Fate.UNSHIFTED]
    same = [one for one in places if one.fate is Fate.UNSHIFTED]
    return ItemLook(
        item=name,
        tokens=len(places),
        reranked=sum(one.fate is Fate.RERANKED for one in changed),
        shifted=sum(one.fate is Fate.SHIFTED for one in changed),
        ranks=sum(one.rank for one in changed),
        entropy_changed=fsum(one.entropy for one in changed),
        entropy_same=fsum(one.entropy for one in same),
    )
