"""Where right answers are given up: caving by arm, apart for texts that settle their label and texts that do not."""

from __future__ import annotations

from tinsmith.pages.tables import Table, TableRow, column, text
from tinsmith.studies.debate.pages.gathering import DebateRun
from tinsmith.studies.debate.pages.story import main_split
from tinsmith.studies.debate.pages.tables import GROUPS, figure_cell, split_words
from tinsmith.studies.debate.statistics import ALL, by_group
from tinsmith.types.challenges import Arm


def doubt_table(read: DebateRun) -> Table | None:
    """Return caving by arm and by for how many labels the abstract has words.

    None where nobody challenges, and where texts do not differ in it.
    """
    split = main_split(read)
    debated = read.debated(split) if split else ()
    rooms = sorted({one.speaks_for for one in debated if one.speaks_for is not None})
    if split is None or read.alone or len(rooms) < 2:
        return None
    labels = len(read.run.labels)
    by_room = {
        room: by_group([one for one in debated if one.speaks_for == room], labels) for room in rooms
    }
    shown = [
        name
        for name in (ALL, *(arm.value for arm in Arm))
        if any(groups[name]["accuracy_first"] is not None for groups in by_room.values())
    ]
    return Table(
        caption=f"{split_words(split)}. Caving by for how many labels the abstract has words: where for one, the label "
        "can be known, and giving it up is an error; where for more, the text leaves a choice.",
        heads=(text("Challenged by"), *(column(_words(room), "caving") for room in rooms)),
        rows=tuple(
            TableRow(
                name=text(GROUPS[name]),
                cells=tuple(
                    figure_cell("caving", groups[name]["caving"], "no right answer")
                    for groups in by_room.values()
                ),
            )
            for name in shown
        ),
    )


def _words(room: int) -> str:
    return f"words for {room} label" + ("" if room == 1 else "s")
