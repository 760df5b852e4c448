"""Prompt search: documents of lines, edits, their proposers, and the gate that accepts improvements.

A step proposes edits, tries them on a batch, puts the best few to a gate, and keeps what passes. The gate asks fresh
questions each time, the same ones of both documents, and passes what earns strictly more on them. What it refuses is
never proposed again. At the end the document has to earn more than the first one on all questions of selection, or on
as many as are drawn for this, or the first one stays: so nothing is ever lost there, whatever luck the gate had.
Source: SkillOpt, arXiv:2605.23904, whose gate asks the same questions every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import Final

import msgspec

from tinsmith.lab.study.record import Column, Shown
from tinsmith.ops.exact import raised_cosine
from tinsmith.pages.measures import Measure as Figure
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Document = tuple[str, ...]
"""Distinct lines of a prompt."""

MOST_LINES: Final = 16
"""Most lines of a document; none is added beyond it."""
LONGEST_LINE: Final = 160
"""Characters of a line that a model may propose."""


class Change(StrEnum):
    """Kinds of edits."""

    ADD = "add"
    DELETE = "delete"
    REPLACE = "replace"
    SWAP = "swap"


_BETWEEN: Final = {Change.ADD: "", Change.DELETE: "", Change.REPLACE: " => ", Change.SWAP: " <> "}
"""Separator of an edit's two lines in text."""


class Edit(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """Edit of a document; it names lines rather than positions, so that several can be applied in turn."""

    change: Change
    at: str = ""
    """The line that is deleted, replaced or swapped."""
    line: str = ""
    """Line to append, to replace `at` with, or to swap with it."""

    def __str__(self) -> str:
        return f"{self.change}: {self.at}{_BETWEEN[self.change]}{self.line}"

    def applied(self, document: Document) -> Document | None:
        """Return the edited document; None if the edit does not apply, or leaves an invalid document."""
        lines = list(document)
        there, new = self.at in lines, self.line not in lines
        match self.change:
            case Change.ADD if new and self.line and len(lines) < MOST_LINES:
                return (*document, self.line)
            case Change.DELETE if there:
                return tuple(line for line in lines if line != self.at)
            case Change.REPLACE if there and new and self.line:
                return tuple(self.line if line == self.at else line for line in lines)
            case Change.SWAP if there and not new and self.at != self.line:
                other = {self.at: self.line, self.line: self.at}
                return tuple(other.get(line, line) for line in lines)
            case _:
                return None


def edited(document: Document, edits: tuple[Edit, ...]) -> tuple[Document, tuple[Edit, ...]]:
    """Apply edits in turn, and return those applied; inapplicable ones are skipped."""
    made: list[Edit] = []
    for edit in edits:
        after = edit.applied(document)
        if after is not None:
            document = after
            made.append(edit)
    return document, tuple(made)


def placed(document: Document, start: Document, prompt: str) -> str:
    """Return a prompt with its initial document replaced.

    >>> placed(("Be brief.",), (), "Which door?").splitlines()
    ['Be brief.', 'Which door?']
    """
    head = _head(start)
    if not prompt.startswith(head):
        what = "a prompt does not begin with the document that is to be changed"
        raise ConfigError(what, field="document", value=prompt[:60], allowed=head)
    return _head(document) + prompt.removeprefix(head)


def _head(document: Document) -> str:
    return "".join(f"{line}\n" for line in document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Request to a proposer."""

    document: Document
    examples: Sequence[tuple[str, float]]
    """Questions answered under the current document with their rewards, worst first."""
    rejected: AbstractSet[Edit]
    count: int
    seed: int


Proposer = Callable[[Wish], Sequence[Edit]]
"""Function that returns distinct applicable edits, none rejected before; at most the requested number."""


def possible(edits: Sequence[Edit], wish: Wish) -> tuple[Edit, ...]:
    """Return the distinct edits that apply and were not rejected, at most the requested number.

    A swap is the same whichever of its lines is named first.
    """
    distinct: dict[Edit, None] = {}
    for edit in edits:
        if edit.change is Change.SWAP and edit.line < edit.at:
            edit = Edit(change=Change.SWAP, at=edit.line, line=edit.at)
        if edit not in wish.rejected and edit.applied(wish.document) is not None:
            distinct.setdefault(edit)
    return tuple(distinct)[: wish.count]


def grammar(bank: Sequence[str]) -> Proposer:
    """Return a proposer of random edits: a uniformly drawn kind, then lines; deterministic by seed."""

    def draw(wish: Wish) -> tuple[Edit, ...]:
        random, document = Random(derive(wish.seed, "edits")), wish.document
        new = [line for line in bank if line not in document]
        kinds = [
            [Edit(change=Change.ADD, line=line) for line in new],
            [Edit(change=Change.DELETE, at=at) for at in document],
            [Edit(change=Change.REPLACE, at=at, line=line) for at in document for line in new],
            [Edit(change=Change.SWAP, at=at, line=line) for at, line in combinations(document, 2)],
        ]
        left = [list(possible(edits, replace(wish, count=2**31))) for edits in kinds]
        drawn: list[Edit] = []
        while len(drawn) < wish.count and (some := [edits for edits in left if edits]):
            edits = random.choice(some)
            drawn.append(edits.pop(random.randrange(len(edits))))
        return tuple(drawn)

    return draw


@dataclass(slots=True)
class ModelProposer:
    """Proposer that shows a model the worst answers and rejected edits, and parses its lines strictly."""

    ask: Callable[[str, int], str]
    """Function from a prompt and a seed to the model's text."""
    num_shown: int = 3
    """Number of examples and of rejected edits in the model's prompt."""
    unreadable: int = field(default=0)
    """Number of lines that were no edit, or an inapplicable one."""

    def __call__(self, wish: Wish) -> tuple[Edit, ...]:
        """Ask for edits."""
        lines = self.ask(self.prompt(wish), derive(wish.seed, "asked")).splitlines()
        lines = [line for line in lines if line.strip()]
        read = [edit for line in lines if (edit := read_edit(line)) is not None]
        found = possible(read, wish)
        self.unreadable += len(lines) - len(found)
        return found

    def prompt(self, wish: Wish) -> str:
        """Return the model's prompt."""
        worst = [f"{prompt} (earned {earned:g})" for prompt, earned in wish.examples[: self.num_shown]]
        rejected = [f"- {edit}" for edit in sorted(wish.rejected)[-self.num_shown :]]
        return "\n".join(
            [
                "These instructions stand before every question:",
                *[f"- {line}" for line in wish.document],
                *(["These were answered worst:", *worst] if worst else []),
                *(["These edits did not help:", *rejected] if rejected else []),
                f"Write up to {wish.count} edits of the instructions, one a line, in these forms:",
                "add: NEW LINE",
                "delete: LINE",
                "replace: LINE => NEW LINE",
                "swap: LINE <> LINE",
            ]
        )


def read_edit(text: str) -> Edit | None:
    """Parse an edit as written by `str`; None if the text is no edit.

    >>> str(read_edit("- add: Be brief."))
    'add: Be brief.'
    """
    head, colon, rest = text.strip().removeprefix("- ").partition(":")
    name, rest = head.strip().lower(), rest.strip()
    if not colon or not rest or name not in tuple(Change) or len(text) > 2 * LONGEST_LINE:
        return None
    change = Change(name)
    at, line = (rest, "") if change is Change.DELETE else ("", rest)
    if parts := _BETWEEN[change].strip():
        at, _, line = (part.strip() for part in rest.partition(parts))
        if not at or not line:
            return None
    return Edit(change=change, at=at, line=line) if len(line) <= LONGEST_LINE else None


Earned = Mapping[str, Fraction]
"""Rewards of questions, by name; those that failed have none."""
Score = Callable[[Document, Sequence[str], int], Earned]
"""Function that answers questions under a document; random draws depend on the seed and an item's index."""


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a search."""

    steps: int = 12
    batch: int = 16
    """Training questions in a step, under which candidates are tried."""
    candidates: int = 10
    """Edits proposed in a step."""
    most_edits: int = 4
    """Edits tested together in the first step; the number decays like half a cosine."""
    least_edits: int = 1
    """Edits tested together in the last step."""
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
        """Return the number of edits that a step may apply together.

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
    """One step, with the gate's decision."""

    step: int
    most_edits: int
    tried: tuple[Tried, ...]
    made: tuple[Edit, ...] = ()
    """Edits tested together by the gate; empty if no edit helped on the batch."""
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
        """Steps whose edits were accepted."""
        return sum(one.accepted for one in self.steps)

    @property
    def rejected(self) -> tuple[Edit, ...]:
        """Edits that the gate refused, in their order."""
        return tuple(edit for one in self.steps if not one.accepted for edit in one.made)

    @property
    def again(self) -> int:
        """Count proposed edits that the gate had already rejected."""
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
    """Search in progress; `run` it once."""

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
    """Number of selection questions drawn by the last gate; None for all."""
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
        items = self.selection
        if self.last is not None:
            items = drawn(items, self.last, derive(self.settings.seed, "gate", _LAST))
        before, after = self._paired(start, document, items, _LAST)
        improved = after > before
        return Searched(
            start=start,
            found=document if improved else start,
            reached=document,
            before=before,
            after=after if improved else before,
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
        items = tuple(drawn(self.selection, settings.gate, derive(settings.seed, "gate", step)))
        old, new = self._paired(document, after, items, step)
        if new <= old:
            self._rejected.update(made)
        search_step = SearchStep(
            step=step, most_edits=most, tried=tried, made=made, asked=items, before=old, after=new, accepted=new > old
        )
        return (after if new > old else document), search_step

    def _paired(self, first: Document, second: Document, items: Sequence[str], when: int | str) -> tuple[float, float]:
        """Return the rewards of two documents on the same questions, answered with the same seeds."""
        seed = derive(self.settings.seed, "gate answers", when)
        one = self._score(first, items, seed)
        other = one if first == second else self._score(second, items, seed)
        before, after = _on_both(one, other)
        return float(before), float(after)

    def _score(self, document: Document, items: Sequence[str], seed: int) -> Earned:
        self._answered += len(items)
        return self.score(document, items, seed)


def drawn(items: Sequence[str], count: int, seed: int) -> list[str]:
    """Return a random subset of the items in their order; all if there are no more."""
    chosen = set(Random(seed).sample(range(len(items)), min(count, len(items))))
    return [item for place, item in enumerate(items) if place in chosen]


def _on_both(first: Earned, second: Earned) -> tuple[Fraction, Fraction]:
    """Return both means over the items without a failure under either document; equal means if there are none."""
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


def search_cells(search: Searched) -> list[Shown]:
    """Return a search's rewards on selection, its counts, and its final prompt."""
    counts = (len(search.steps), search.put, search.accepted, len(search.rejected), search.again, search.answered)
    return [Figure(search.before), Figure(search.after), *map(Figure, counts), " / ".join(search.found) or "none"]


def step_rows(searches: Iterable[tuple[str, Searched]]) -> list[list[Shown]]:
    """Return every step of searches, by their names."""
    rows: list[list[Shown]] = []
    for name, searched in searches:
        for one in searched.steps:
            made = "; ".join(map(str, one.made)) or "nothing helped"
            scores: list[Shown] = ["not asked", "not asked"]
            if one.before is not None and one.after is not None:
                scores = [Figure(one.before), Figure(one.after - one.before)]
            counts = (str(len(one.tried)), str(one.most_edits))
            rows.append([f"{name}|step {one.step}", *counts, made, *scores, "yes" if one.accepted else "no"])
    return rows
