"""Rows of searches on the page of a study: what each earned and asked for, and its every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tinsmith.lab.prompt_search.search import Searched
from tinsmith.lab.study.record import Column, Shown
from tinsmith.pages.measures import Measure as Figure

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
