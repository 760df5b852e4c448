"""Corrections: the first policy writes, and takes the second's token at the few places where they part.

At the places that a rule chooses the second policy's token is put in the place of the first's, and the first goes on.
Source: arXiv:2605.06241. The oracle corrects wherever the two would take different tokens; the control corrects as many
places of the same answer, drawn whatever stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tinsmith.lab.service.asked_policy import Draw, Spread
from tinsmith.studies.microscope.agreement import Decoding, Pair, known
from tinsmith.types.seeds import derive


class Rule(StrEnum):
    """Places at which the second policy's token is taken."""

    ORACLE = "oracle"
    """Places where the two would take different tokens."""
    RANDOM = "random"
    """At as many places as the oracle corrected of the same answer, drawn."""
    UNCERTAIN = "uncertain"
    """Places where the first's entropy is above a threshold: this needs no look at the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer that is to be written."""

    prompt: tuple[int, ...]
    seed: int
    places: frozenset[int] = frozenset()
    """Of the answer's tokens, those that the control corrects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """An answer that the first policy wrote under correction."""

    tokens: tuple[int, ...]
    taken: int
    """Tokens that are the second's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Settings of writing."""

    decoding: Decoding
    temperature: float
    """Of sampled ones."""
    max_tokens: int
    stop: tuple[int, ...]
    threshold: float
    """Nats above which the first counts as uncertain."""

    @property
    def drawn_at(self) -> float:
        """The temperature that is asked for."""
        return 0.0 if self.decoding is Decoding.GREEDY else self.temperature


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


@dataclass(frozen=True, slots=True)
class _Spot:
    """One token of an answer."""

    place: int
    entropy: float
    """Of the first, in nats."""
    parts: bool
    """The two would take different tokens."""


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
    draws = [
        Draw(
            prompt=one.text, seed=derive(one.line.seed, "go on", turn), max_tokens=writing.max_tokens - len(one.answer)
        )
        for one in going
    ]
    more = pair.first.drawn(draws, temperature=writing.drawn_at, stop=writing.stop)
    texts = [(*one.text, *added) for one, added in zip(going, more, strict=True)]
    begins = [len(one.text) for one in going]
    first, second = (policy.spreads(texts, begins=begins) for policy in (pair.first, pair.second))
    cut: list[tuple[_Open, tuple[int, ...], Spread]] = []
    for one, text, mine, theirs in zip(going, texts, first, second, strict=True):
        begin = len(one.line.prompt)
        spots = (
            _Spot(at - begin, known(mine.entropy[at]), mine.argmax[at] != theirs.argmax[at])
            for at in range(begin + len(one.answer), len(text))
        )
        place = next((begin + spot.place for spot in spots if _applies(rule, one.line, spot, writing.threshold)), None)
        one.answer = list(text[begin:place])
        if place is None:
            one.over = True
        else:
            cut.append((one, text[:place], theirs))
    for (one, _, _), token in zip(cut, _instead(pair, cut, writing, turn), strict=True):
        one.answer.append(token)
        one.taken += 1
        one.over = token in writing.stop or len(one.answer) >= writing.max_tokens


def _instead(
    pair: Pair, cut: Sequence[tuple[_Open, tuple[int, ...], Spread]], writing: Writing, turn: int
) -> list[int]:
    """Return what the second would write at each cut: its most probable token, or one that it draws."""
    if writing.decoding is Decoding.GREEDY:
        return [known(theirs.argmax[len(text)]) for _, text, theirs in cut]
    draws = [Draw(prompt=text, seed=derive(one.line.seed, "instead", turn), max_tokens=1) for one, text, _ in cut]
    found = pair.second.drawn(draws, temperature=writing.drawn_at, stop=writing.stop)
    return [tokens[0] for tokens in found]


def _applies(rule: Rule, line: Line, spot: _Spot, threshold: float) -> bool:
    """Return True if a place is to be corrected."""
    if rule is Rule.ORACLE:
        return spot.parts
    return spot.place in line.places if rule is Rule.RANDOM else spot.entropy > threshold
