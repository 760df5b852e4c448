"""Where right answers are given up: caving by arm, apart for texts that settle their label and texts that do not."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.analysis.debate import ALL, Debated, figures
from tinsmith.reports.debate_gathering import DebateRun
from tinsmith.reports.debate_story import main_split
from tinsmith.reports.debate_tables import GROUPS, figure_cell, split_words
from tinsmith.reports.tables import Table, TableRow, column, text
from tinsmith.types.challenges import Arm


def doubt_table(read: DebateRun) -> Table | None:
    """Return caving by arm and by for how many labels the abstract has words; None where texts do not differ in it."""
    split = main_split(read)
    debated = read.debated(split) if split else ()
    rooms = sorted({one.speaks_for for one in debated if one.speaks_for is not None})
    if split is None or len(rooms) < 2:
        return None
    arms = {
        ALL: debated,
        **{arm.value: [one for one in debated if one.arm is arm] for arm in Arm},
    }
    labels = max(len(read.run.labels), 2)
    return Table(
        caption=f"{split_words(split)}. Caving by for how many labels the abstract has words: where for one, the label "
        "can be known, and giving it up is an error; where for more, the text leaves a choice.",
        heads=(text("Challenged by"), *(column(_words(room), "caving") for room in rooms)),
        rows=tuple(_row(GROUPS[name], part, rooms, labels) for name, part in arms.items() if part),
    )


def _words(room: int) -> str:
    return f"words for {room} label" + ("" if room == 1 else "s")


def _row(name: str, part: Sequence[Debated], rooms: Sequence[int], labels: int) -> TableRow:
    alike = ([one for one in part if one.speaks_for == room] for room in rooms)
    found = (figures(some, labels)["caving"] for some in alike)
    return TableRow(
        name=text(name),
        cells=tuple(figure_cell("caving", one, "no right answer") for one in found),
    )
