"""The page of the microscope: that of any study, with rewards under correction and answers coloured by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tinsmith.lab.study.report import page_of_study
from tinsmith.lab.study.results import Seconds
from tinsmith.pages.document import Block, Document, Fold, MarkedText, MarkedToken, Section, TokenMark, drawn, note
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import plain
from tinsmith.studies.microscope.agreement import Decoding, Fate, Place, Writer
from tinsmith.studies.microscope.looking import Looked
from tinsmith.studies.microscope.results import RULES, WRITES, MicroscopeRecord, row_of

_MARKS: Final[Mapping[Fate, TokenMark]] = {
    Fate.UNSHIFTED: TokenMark.NONE,
    Fate.RERANKED: TokenMark.FIRST,
    Fate.SHIFTED: TokenMark.SECOND,
}


def microscope_page(found: MicroscopeRecord, looks: Sequence[Looked], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; of the answers those of the first seed are shown."""
    page = page_of_study(found, seconds)
    summary, expected, *others = page.sections
    rows = [(run, digest[:16]) for run, digest in sorted(found.looks.items())]
    own = plain("The first 16 digits of each SHA-256.", ("Run", "the look"), rows, words=True)
    return replace(
        page,
        facts=(("Task", found.task), *page.facts),
        sections=(
            replace(summary, blocks=(*summary.blocks, _rewards(found))),
            expected,
            Section("tokens", "Tokens", _texts(looks[0])),
            *(replace(one, blocks=(*one.blocks, own)) if one.anchor == "hashes" else one for one in others),
        ),
    )


def _rewards(found: MicroscopeRecord) -> Block:
    """Draw what the first earns, under each correction, and what the second earns."""
    rows = ["the first", *RULES.values(), "the second"]

    def values(decoding: Decoding) -> list[Measure | None]:
        start, goal = (row_of(found.agreements, writer, decoding).earned for writer in Writer)
        corrected = {one.rule: one.earned for one in found.interventions if one.decoding is decoding}
        return [start, *(corrected[rule] for rule in RULES), goal]

    panel = Panel(
        title="reward, held out; 95 % intervals over seeds and items",
        dots=[Dots(decoding.value, series_mark(place), values(decoding)) for place, decoding in enumerate(Decoding)],
    )
    greedy = zip(rows, values(Decoding.GREEDY), strict=True)
    shown = "; ".join(f"{row} {one.value:.3f}" for row, one in greedy if one is not None)
    svg = dots_svg("rewards", f"Reward, answered greedily. {shown}.", rows, [panel])
    return drawn(svg, "Missing: nothing was scored.")


def _texts(looked: Looked) -> Sequence[Block]:
    blocks: list[Block] = [
        note(
            "Held-out items of the first seed. Not marked: both would take this token. Underlined once: the second "
            "would take another that the first has among its five most probable. Twice: one that it has not. Point at "
            "a token for its figures."
        )
    ]
    for decoding in Decoding:
        for writer in reversed(Writer):
            seen = looked.agreement(writer, decoding)
            title = f"{WRITES[writer]}, {decoding.value}"
            texts = [_marked(item, places) for item, places in seen.shown.items()]
            whole_first = (writer, decoding) == (Writer.SECOND, Decoding.GREEDY)
            blocks += texts if whole_first else [Fold(title[0].upper() + title[1:], texts)]
    return blocks


def _marked(item: str, places: Sequence[Place]) -> MarkedText:
    return MarkedText(
        item,
        [
            MarkedToken(
                one.text,
                _MARKS[one.fate],
                f"{one.fate.value}: the second's {one.instead!r} has rank {one.rank} in the first, whose entropy is "
                f"{one.entropy:.3f} nats",
            )
            for one in places
        ],
    )
