"""Tables of a page about a challenger: figures by arm and evidence, and what the arms themselves give away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tinsmith.lab.runs.records import SPLIT_WORDS
from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    signed_cell,
    text,
    whole,
)
from tinsmith.pages.wording import signed
from tinsmith.studies.debate.pages.gathering import TESTS, DebateRun, shown_splits
from tinsmith.studies.debate.stance import WrongLabel
from tinsmith.studies.debate.statistics import ALL, NAMING, Figure, Figures, groups
from tinsmith.types.challenges import Arm

GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ALL: "all conversations",
        Arm.TRUTHFUL.value: "truthful: argues for the true label",
        Arm.MISLEADING.value: "misleading: argues for a wrong one",
        Arm.NULL.value: "null: only asks again",
        "evidence": "a label and words of the paper",
        "no_evidence": "a bare label",
        "truthful/evidence": "truthful, with words",
        "truthful/no_evidence": "truthful, bare",
        "misleading/evidence": "misleading, with words",
        "misleading/no_evidence": "misleading, bare",
    }
)
"""Groups of conversations, in their order."""
SIGNED: Final = frozenset(
    {
        "delta",
        "discrimination",
        "discrimination_within",
        "discrimination_beyond",
        "sycophancy",
        "revision_hit",
    }
)
"""Figures that may be below 0."""
_BY_GROUP: Final = (
    ("accuracy_first", "first right", ""),
    ("accuracy_last", "last right", ""),
    ("caving", "caving", "right, then wrong"),
    ("appropriate_revision", "put right", "wrong, then right"),
    ("lateral", "lateral", "wrong, then another wrong"),
    ("discrimination", "J", "revised: wrong less right"),
    ("discrimination_within", "J within", "where doubt is equal"),
    ("discrimination_beyond", "J beyond", "a label named, less the null arm's"),
)
_ONE_ANSWER: Final = frozenset({"accuracy_first", "whole", "brier_first"})
"""Figures of a run that nobody challenged: to revise nothing is then no finding."""
_NOT_HELD: Final = frozenset({"discrimination_beyond"})
"""Figures that only `ALL` and the groups that name a label have."""
_OVERALL: Final = (
    ("delta", "last minus first accuracy"),
    ("sycophancy", "sycophancy: revised when misled, less when only asked"),
    ("receptiveness", "receptiveness: a wrong answer revised when told the true label"),
    ("revision_hit", "revision hit: a revised wrong answer becomes right, 0 by chance"),
    ("whole", "both answers keep the contract"),
    ("brier_first", "Brier score of the first stated confidence"),
    ("brier_last", "Brier score of the last"),
)


def figure_cell(name: str, figure: Figure | None, why: str = "none to count") -> Cell:
    """Return a figure above its interval."""
    if figure is None:
        return absent(why)
    interval = figure.interval
    if name in SIGNED:
        return signed_cell(figure.value, interval)
    return measured(Measure(figure.value, interval.low, interval.high))


def split_words(split: str) -> str:
    """Say which conversations a split holds."""
    return TESTS.get(split) or SPLIT_WORDS.get(split, split)


def arms_table(read: DebateRun) -> Table | None:
    """Return the figures by group, one part for each split; None where nobody was asked."""
    columns = [one for one in _BY_GROUP if not read.alone or one[0] in _ONE_ANSWER]
    rows: list[TableRow] = []
    for split in shown_splits(read):
        rows.append(TableRow(name=text(split_words(split)), kind=RowKind.GROUP))
        found = read.figures(split)
        rows += [_group(name, found[name], columns) for name in _shown(read, split)]
    if not rows:
        return None
    return Table(
        caption="Each figure above its 95 % interval; a broken answer counts as wrong."
        if read.alone
        else "Each figure above its 95 % interval. Accuracies count every conversation, a broken answer as wrong; "
        "the rest counts those with two unbroken answers: caving of the right first answers, put right and lateral of "
        "the wrong ones, J within papers that leave as much room for doubt, J beyond that of who is only asked again.",
        heads=(
            text("Challenged by"),
            column("n"),
            *(column(head, under) for _, head, under in columns),
        ),
        rows=tuple(rows),
    )


def _shown(read: DebateRun, split: str) -> list[str]:
    """Leave out groups without conversations, and those that are another group once more."""
    parts = groups(read.debated(split))
    kept: list[str] = []
    for name in GROUPS:
        if parts[name] and not any(parts[name] == parts[other] for other in kept):
            kept.append(name)
    return kept


def _group(group: str, found: Figures, columns: Sequence[tuple[str, str, str]]) -> TableRow:
    first = found["accuracy_first"]
    return TableRow(
        name=text(GROUPS[group]),
        cells=(
            whole(None if first is None else first.n),
            *(
                Cell(text="", number=True)
                if name in _NOT_HELD and group not in (ALL, *NAMING)
                else figure_cell(name, found[name])
                for name, _, _ in columns
            ),
        ),
    )


def overall_table(read: DebateRun) -> Table | None:
    """Return what is told of all conversations together, a column a split; None where nobody was asked."""
    splits = shown_splits(read)
    if not splits:
        return None
    found = {split: read.figures(split)[ALL] for split in splits}
    return Table(
        caption="Over all arms. Revisions can only be compared between arms where there are several.",
        heads=(text("Figure"), *(column(*_halves(split)) for split in splits)),
        rows=tuple(
            TableRow(
                name=text(words),
                cells=tuple(figure_cell(name, found[split][name]) for split in splits),
            )
            for name, words in _OVERALL
            if not read.alone or name in _ONE_ANSWER
        ),
    )


def _halves(split: str) -> tuple[str, str]:
    control, greedy = split.startswith("test_no_evidence"), split.endswith("_greedy")
    return ("no evidence" if control else "as in training", "greedy" if greedy else "sampled")


def challenge_table(read: DebateRun) -> Table | None:
    """Return the arms, their shares, and what following any named label would discriminate; None: not known."""
    arms = read.arms
    if arms is None or read.alone:
        return None
    labels = max(len(read.run.labels), 2)
    leak = arms.discrimination_for_nothing(labels)
    rows: Sequence[tuple[str, Cell]] = (
        ("challenger", _right(read.opponent)),
        ("truthful share", _share(arms.truthful)),
        ("misleading share", _share(arms.misleading)),
        ("null share", _share(arms.null)),
        ("share with words of the paper, of those that name a label", _share(arms.evidence)),
        (
            "a misleading label may be the one that was answered",
            _right("yes" if arms.wrong is WrongLabel.ANY else "no"),
        ),
        ("J of changing to whatever label is named, having read nothing", _right(signed(leak))),
    )
    return Table(
        caption="The arm is drawn from the seed and the paper before anything is answered, and does not look at "
        "whether the answer is right.",
        heads=(text("Challenge"), text("")),
        rows=tuple(TableRow(name=text(name), cells=(cell,)) for name, cell in rows),
    )


def _share(value: float) -> Cell:
    return _right(f"{value:g}")


def _right(words: str) -> Cell:
    return Cell(text=words, number=True)
