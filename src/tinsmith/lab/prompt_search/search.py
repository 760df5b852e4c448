"""The search for a document: propose, try on a batch, put the best few to a gate, keep what passes.

The gate asks fresh questions each time, the same ones of both documents, and passes what earns strictly more on them.
What it refuses is never proposed again. At the end the document has to earn more than the first one on all questions
of selection, or on as many as are drawn for this, or the first one stays: so nothing is ever lost there, whatever luck
the gate had. Source: SkillOpt, arXiv:2605.23904, whose gate asks the same questions every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Final

import msgspec

from tinsmith.lab.prompt_search.document import Document, Edit, Proposer, Wish, edited
from tinsmith.lab.study.record import Column, Shown
from tinsmith.ops.exact import raised_cosine
from tinsmith.pages.measures import Measure as Figure
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Earned = Mapping[str, Fraction]
"""Rewards of questions, by name; those that failed have none."""
Score = Callable[[Document, Sequence[str], int], Earned]
"""Has questions answered under a document; whatever is drawn comes from the seed and an item's place."""


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a search."""

    steps: int = 12
    batch: int = 16
    """Training questions in a step, under which candidates are tried."""
    candidates: int = 10
    """Edits proposed in a step."""
    most_edits: int = 4
    """Edits put to the gate together in the first step: it falls like half a cosine."""
    least_edits: int = 1
    """The same in the last step."""
    gate: int = 40
    """Questions of selection that the gate draws each time."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "candidates", "least_edits", "gate"):
            if getattr(self, name) < 1:
                raise ConfigError("a search needs one or more of these", field=name, value=getattr(self, name))
        if self.most_edits < self.least_edits:
            what = "fewer edits are made in later steps, not more"
            raise ConfigError(what, field="most_edits", value=self.most_edits, allowed=f"{self.least_edits} or more")

    def edits_at(self, step: int) -> int:
        """Return how many edits a step may make at once.

        >>> [SearchSettings(steps=5).edits_at(step) for step in range(5)]
        [4, 4, 3, 1, 1]
        """
        share = raised_cosine(step / max(1, self.steps - 1))
        return self.least_edits + int((self.most_edits - self.least_edits) * share + 0.5)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate on the batch."""

    edit: Edit
    gain: float
    """Over the document of then, on the same questions."""


class SearchStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step, and what the gate said."""

    step: int
    most_edits: int
    tried: tuple[Tried, ...]
    made: tuple[Edit, ...] = ()
    """Put to the gate together; none: nothing helped on the batch."""
    asked: tuple[str, ...] = ()
    """Questions of the gate."""
    before: float | None = None
    after: float | None = None
    """Reward of both documents there; None: there was no gate."""
    accepted: bool = False


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search."""

    start: Document
    found: Document
    """`start` again where the last gate refused `reached`."""
    reached: Document
    before: float
    after: float
    """Reward of `start` and `found` at the last gate: on all questions of selection, unless it drew some."""
    steps: tuple[SearchStep, ...]
    answered: int
    """Questions asked, again where they came again."""

    @property
    def put(self) -> int:
        """Times that edits were put to the gate."""
        return sum(bool(one.made) for one in self.steps)

    @property
    def accepted(self) -> int:
        """Steps whose edits were kept."""
        return sum(one.accepted for one in self.steps)

    @property
    def rejected(self) -> tuple[Edit, ...]:
        """Edits that the gate refused, in their order."""
        return tuple(edit for one in self.steps if not one.accepted for edit in one.made)

    @property
    def again(self) -> int:
        """Count edits that were proposed after the gate had refused them."""
        refused, found = set[Edit](), 0
        for one in self.steps:
            found += sum(each.edit in refused for each in one.tried)
            if not one.accepted:
                refused.update(one.made)
        return found


def halves_of(units: Mapping[str, str], seed: int) -> tuple[list[str], list[str]]:
    """Return the items that edits are tried on, and those that the gate draws of; units stay together."""
    drawn = sorted(set(units.values()), key=lambda name: derive(seed, "selection", name))
    chosen = set(drawn[: len(drawn) // 2])
    parts = [[item for item, unit in units.items() if (unit in chosen) is side] for side in (False, True)]
    if not all(parts):
        what = "there are too few items to try edits on some and to select by others"
        raise ConfigError(what, field="items", value=len(units), allowed="2 or more")
    return parts[0], parts[1]


_LAST: Final = "last"


@dataclass(slots=True, kw_only=True)
class Search:
    """A search under way; `run` it once."""

    train: Sequence[str]
    """Questions that batches are drawn of."""
    selection: Sequence[str]
    """Questions that the gate draws of."""
    prompts: Mapping[str, str]
    """Texts of the questions, by name, for a proposer that reads."""
    score: Score
    proposer: Proposer
    settings: SearchSettings
    last: int | None = None
    """Questions of selection that the last gate draws; None: all of them."""
    _rejected: set[Edit] = field(default_factory=set[Edit])
    _answered: int = 0

    def run(self, start: Document) -> Searched:
        """Search from a document."""
        if not self.train or not self.selection:
            raise ConfigError("a search needs questions to try on and to select by", field="items")
        document, steps = start, list[SearchStep]()
        for step in range(self.settings.steps):
            document, one = self._step(step, document)
            steps.append(one)
        asked = self.selection
        if self.last is not None:
            asked = drawn(asked, self.last, derive(self.settings.seed, "gate", _LAST))
        before, after = self._paired(start, document, asked, _LAST)
        kept = after > before
        return Searched(
            start=start,
            found=document if kept else start,
            reached=document,
            before=before,
            after=after if kept else before,
            steps=tuple(steps),
            answered=self._answered,
        )

    def _step(self, step: int, document: Document) -> tuple[Document, SearchStep]:
        settings, most = self.settings, self.settings.edits_at(step)
        batch = drawn(self.train, settings.batch, derive(settings.seed, "batch", step))
        seed = derive(settings.seed, "batch answers", step)
        now = self._score(document, batch, seed)

        def gain(edit: Edit) -> float:
            after = edit.applied(document)
            assert after is not None, "a proposer proposes what can be made"
            before, gained = _on_both(now, self._score(after, batch, seed))
            return float(gained - before)

        worst = sorted(now, key=lambda name: (now[name], name))
        edits = self.proposer(
            Wish(
                document=document,
                examples=[(self.prompts[name], float(now[name])) for name in worst],
                rejected=frozenset(self._rejected),
                count=settings.candidates,
                seed=derive(settings.seed, "proposed", step),
            )
        )
        tried = tuple(Tried(edit=edit, gain=gain(edit)) for edit in edits)
        best = sorted((one for one in tried if one.gain > 0), key=lambda one: (-one.gain, one.edit))
        after, made = edited(document, tuple(one.edit for one in best[:most]))
        if not made:
            return document, SearchStep(step=step, most_edits=most, tried=tried)
        asked = tuple(drawn(self.selection, settings.gate, derive(settings.seed, "gate", step)))
        old, new = self._paired(document, after, asked, step)
        if new <= old:
            self._rejected.update(made)
        told = SearchStep(
            step=step, most_edits=most, tried=tried, made=made, asked=asked, before=old, after=new, accepted=new > old
        )
        return (after if new > old else document), told

    def _paired(self, first: Document, second: Document, items: Sequence[str], when: int | str) -> tuple[float, float]:
        """Return what two documents earn on the same questions, answered with the same seeds."""
        seed = derive(self.settings.seed, "gate answers", when)
        one = self._score(first, items, seed)
        other = one if first == second else self._score(second, items, seed)
        before, after = _on_both(one, other)
        return float(before), float(after)

    def _score(self, document: Document, items: Sequence[str], seed: int) -> Earned:
        self._answered += len(items)
        return self.score(document, items, seed)


def drawn(items: Sequence[str], count: int, seed: int) -> list[str]:
    """Return some of the items, in their order; all of them where there are no more."""
    chosen = set(Random(seed).sample(range(len(items)), min(count, len(items))))
    return [item for place, item in enumerate(items) if place in chosen]


def _on_both(first: Earned, second: Earned) -> tuple[Fraction, Fraction]:
    """Return both means over the items that neither failed at; equal ones where there is none."""
    shared = [name for name in first if name in second]
    if not shared:
        return Fraction(), Fraction()
    means = [sum((one[name] for name in shared), Fraction()) / len(shared) for one in (first, second)]
    return means[0], means[1]


SEARCH_HEADS: Final = (
    *(Column(head=f"selection|{one}", missing="n/a") for one in ("before", "after")),
    *(
        Column(head=one, form="d", missing="n/a")
        for one in ("steps", "put", "accepted", "edits|rejected", "proposed again", "asked")
    ),
    "lines",
)
STEP_HEADS: Final = ("proposed", "at most", "put to the gate", "earned", Column(head="gain", form="+.3f"), "accepted")


def search_cells(one: Searched) -> list[Shown]:
    """Return what a search earned on selection, what it counted, and the prompt that it found."""
    counts = (len(one.steps), one.put, one.accepted, len(one.rejected), one.again, one.answered)
    return [Figure(one.before), Figure(one.after), *map(Figure, counts), " / ".join(one.found) or "none"]


def step_rows(searches: Iterable[tuple[str, Searched]]) -> list[list[Shown]]:
    """Return every step of searches, by their names."""
    rows: list[list[Shown]] = []
    for name, searched in searches:
        for one in searched.steps:
            made = "; ".join(map(str, one.made)) or "nothing helped"
            asked: list[Shown] = ["not asked", "not asked"]
            if one.before is not None and one.after is not None:
                asked = [Figure(one.before), Figure(one.after - one.before)]
            counts = (str(len(one.tried)), str(one.most_edits))
            rows.append([f"{name}|step {one.step}", *counts, made, *asked, "yes" if one.accepted else "no"])
    return rows
