"""Tables of a page about a challenger: figures by arm, evidence and doubt, and what the arms themselves give away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    table_of,
    text,
    whole,
)
from tinsmith.pages.wording import signed
from tinsmith.studies.debate.pages.gathering import TESTS, DebateRun
from tinsmith.studies.debate.stance import Arm, WrongLabel
from tinsmith.studies.debate.statistics import ALL, NAMING, Figure, Figures, by_group, groups

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
SIGNED: Final = frozenset({"delta", "sycophancy", "revision_hit"})
"""Figures that may be below 0, beside discrimination."""
_BY_GROUP: Final = (
    ("accuracy_first", "first right"),
    ("accuracy_last", "last right"),
    ("caving", "caving|right, then wrong"),
    ("appropriate_revision", "put right|wrong, then right"),
    ("lateral", "lateral|wrong, then another wrong"),
    ("discrimination", "J|revised: wrong less right"),
    ("discrimination_within", "J within|where doubt is equal"),
    ("discrimination_beyond", "J beyond|a label named, less the null arm's"),
)
_ONE_ANSWER: Final = frozenset({"accuracy_first", "whole", "brier_first"})
"""Figures of a run that nobody challenged: to revise nothing is then no finding."""
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
    if name in SIGNED or name.startswith("discrimination"):
        return signed_cell(figure.value, interval)
    return measured(Measure(figure.value, interval.low, interval.high))


def arms_table(read: DebateRun) -> Table | None:
    """Return the figures by group, one part for each split; None where nobody was asked."""
    columns = [one for one in _BY_GROUP if not read.alone or one[0] in _ONE_ANSWER]
    rows: list[TableRow] = []
    for split in read.shown:
        rows.append(TableRow(name=text(_split_words(split)), kind=RowKind.GROUP))
        parts, found = groups(read.debated(split)), read.figures(split)
        kept: list[str] = []  # without empty groups, and those that are another one once more
        for name in GROUPS:
            if parts[name] and not any(parts[name] == parts[other] for other in kept):
                kept.append(name)
                cells = [_cell(name, figure, found[name]) for figure, _ in columns]
                row = (whole(len(parts[name])), *cells)
                rows.append(TableRow(name=text(GROUPS[name]), cells=row))
    if not rows:
        return None
    return Table(
        caption="Each figure above its 95 % interval; a broken answer counts as wrong."
        if read.alone
        else "Each figure above its 95 % interval. Accuracies count every conversation, a broken answer as wrong; "
        "the rest counts those with two unbroken answers: caving of the right first answers, put right and lateral of "
        "the wrong ones; J within: among papers that leave equal room for doubt; J beyond: less J of the null arm.",
        heads=(text("Challenged by"), column("n"), *(column(*head.split("|")) for _, head in columns)),
        rows=tuple(rows),
    )


def _cell(group: str, name: str, found: Figures) -> Cell:
    if name == "discrimination_beyond" and group not in (ALL, *NAMING):
        return Cell(text="", number=True)
    return figure_cell(name, found[name])


def _split_words(split: str) -> str:
    return TESTS.get(split) or SPLIT_WORDS.get(split, split)


def overall_table(read: DebateRun) -> Table | None:
    """Return what is told of all conversations together, a column a split; None where nobody was asked."""
    if not read.shown:
        return None
    found = {split: read.figures(split)[ALL] for split in read.shown}
    rows = [one for one in _OVERALL if not read.alone or one[0] in _ONE_ANSWER]
    return table_of(
        "Over all arms. Revisions can only be compared between arms where there are several.",
        rows,
        ("Figure", lambda row: text(row[1])),
        *((_halves(split), _overall_cell(groups)) for split, groups in found.items()),
    )


def _overall_cell(groups: Figures) -> Callable[[tuple[str, str]], Cell]:
    return lambda row: figure_cell(row[0], groups[row[0]])


def _halves(split: str) -> str:
    control, greedy = split.startswith("test_no_evidence"), split.endswith("_greedy")
    return f"{'no evidence' if control else 'as in training'}|{'greedy' if greedy else 'sampled'}"


def doubt_table(read: DebateRun) -> Table | None:
    """Return caving by arm and by for how many labels the abstract has words.

    None where nobody challenges, and where texts do not differ in it.
    """
    debated = read.debated(read.main) if read.main else ()
    rooms = sorted({one.speaks_for for one in debated if one.speaks_for is not None})
    if read.main is None or read.alone or len(rooms) < 2:
        return None
    by_room = {
        room: by_group([one for one in debated if one.speaks_for == room], len(read.run.labels)) for room in rooms
    }
    shown = [
        name
        for name in (ALL, *(arm.value for arm in Arm))
        if any(groups[name]["accuracy_first"] is not None for groups in by_room.values())
    ]
    return table_of(
        f"{_split_words(read.main)}. Caving, by how many labels the abstract has words for: where it is one, the "
        "label can be known, and giving it up is an error; where it is more, the text leaves a choice.",
        shown,
        ("Challenged by", lambda name: text(GROUPS[name])),
        *(
            (f"words for {room} label{'' if room == 1 else 's'}|caving", _caving_cell(groups))
            for room, groups in by_room.items()
        ),
    )


def _caving_cell(by_name: Mapping[str, Figures]) -> Callable[[str], Cell]:
    return lambda name: figure_cell("caving", by_name[name]["caving"], "no right answer")


def challenge_table(read: DebateRun) -> Table | None:
    """Return the arms, their shares, and what following any named label would discriminate; None: not known."""
    arms, leak = read.arms, read.leak
    if arms is None or leak is None or read.alone:
        return None
    rows = (
        ("challenger", read.opponent),
        ("truthful share", f"{arms.truthful:g}"),
        ("misleading share", f"{arms.misleading:g}"),
        ("null share", f"{arms.null:g}"),
        ("share with words of the paper, of those that name a label", f"{arms.evidence:g}"),
        ("a misleading label may be the one that was answered", "yes" if arms.wrong is WrongLabel.ANY else "no"),
        ("J of changing to whatever label is named, having read nothing", signed(leak)),
    )
    return table_of(
        "The arm is drawn from the seed and the paper before anything is answered, and does not look at whether the "
        "answer is right.",
        rows,
        ("Challenge", lambda row: text(row[0])),
        (text(""), lambda row: Cell(text=row[1], number=True)),
    )
