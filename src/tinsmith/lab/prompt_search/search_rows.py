"""Figures of searches, and their tables on a page: prompts, and every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.prompt_search.search import Searched
from tinsmith.pages.document import Block, Fold
from tinsmith.pages.tables import number, plain, table_of, text, whole
from tinsmith.pages.wording import signed


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow:
    """One search in figures."""

    arm: str
    seed: int
    found: Document
    before: float
    after: float
    """At the last gate."""
    steps: int
    put: int
    """Times that edits were put to the gate."""
    accepted: int
    rejected: int
    """Edits."""
    again: int
    """Rejected edits that were proposed once more."""
    answered: int

    @classmethod
    def of(cls, arm: str, seed: int, searched: Searched) -> SearchRow:
        """Count what a search did."""
        return cls(
            arm=arm,
            seed=seed,
            found=searched.found,
            before=searched.before,
            after=searched.after,
            steps=len(searched.steps),
            put=sum(bool(step.made) for step in searched.steps),
            accepted=searched.accepted,
            rejected=len(searched.rejected),
            again=searched.again,
            answered=searched.answered,
        )


def prompt_tables(
    rows: Sequence[SearchRow],
    words: Mapping[str, str],
    written: tuple[str, Document],
    *,
    caption: str,
    asked: str = "answers",
) -> tuple[Block, ...]:
    """Return what each search earned and asked for, and the prompts.

    `words` are those of an arm, `written` is what they began with, in words too, and `asked` what a search counts.
    """
    table = table_of(
        caption,
        rows,
        ("Search", lambda one: text(f"{words[one.arm]}, seed {one.seed}")),
        ("selection|before", lambda one: number(one.before)),
        ("selection|after", lambda one: number(one.after)),
        ("put", lambda one: whole(one.put)),
        ("accepted", lambda one: whole(one.accepted)),
        ("edits|rejected", lambda one: whole(one.rejected)),
        (asked, lambda one: whole(one.answered)),
    )
    lines = plain(
        "The prompts: lines before each question.",
        ("Search", "Lines"),
        [
            (written[0], _lines(written[1])),
            *((f"{words[one.arm]}, seed {one.seed}", _lines(one.found)) for one in rows),
        ],
        words=True,
    )
    return (table, lines)


def _lines(lines: Document) -> str:
    return " / ".join(lines) or "none"


def step_folds(searches: Sequence[tuple[str, Searched]]) -> list[Block]:
    """Return every step of searches, by what they are called."""
    return [Fold(name, [_log(one)]) for name, one in searches]


def _log(one: Searched) -> Block:
    rows = [
        (
            str(step.step),
            str(len(step.tried)),
            str(step.most_edits),
            "; ".join(map(str, step.made)) or "nothing helped",
            "not asked" if step.before is None else f"{step.before:.3f}",
            "not asked" if step.before is None or step.after is None else signed(step.after - step.before),
            "yes" if step.accepted else "no",
        )
        for step in one.steps
    ]
    heads = ("Step", "proposed", "at most", "put to the gate", "earned", "gain", "accepted")
    return plain("What was tried, step by step.", heads, rows, words=True)
