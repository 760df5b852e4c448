"""The page of the microscope: what came out, answers coloured by what became of their tokens, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.pages.document import Block, Document, Fold, MarkedText, MarkedToken, Section, TokenMark, drawn, note
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Table, absent, measured, number, plain, table_of, text, whole
from tinsmith.studies.microscope.agreement import Decoding, Fate, Place, Writer
from tinsmith.studies.microscope.looking import Looked
from tinsmith.studies.microscope.results import RULE_WORDS, Asked, MicroscopeFound
from tinsmith.studies.microscope.settings import QUESTION

_MARKS: Final[Mapping[Fate, TokenMark]] = {
    Fate.UNSHIFTED: TokenMark.NONE,
    Fate.RERANKED: TokenMark.FIRST,
    Fate.SHIFTED: TokenMark.SECOND,
}
_WRITES: Final[Mapping[Writer, str]] = {Writer.FIRST: "the first writes", Writer.SECOND: "the second writes"}


def microscope_page(
    found: MicroscopeFound, sentences: tuple[str, ...], looks: Sequence[Looked], seconds: Mapping[str, Seconds]
) -> Document:
    """Return the page; of the answers those of the first seed are shown."""
    return study_document(
        title=f"The microscope on {found.task}",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} items"),
            ("Seeds", ", ".join(map(str, found.seeds))),
            ("Settings chosen on seed", str(found.tuning_seed)),
        ),
        sentences=sentences,
        beside=(_rewards(found),),
        sections=(
            Section("asked", "Asked", (_asked(found.asked),)),
            Section("tokens", "Tokens", _texts(looks[0])),
            Section("agreement", "Agreement", (_agreement(found),)),
            Section("corrections", "Corrections", (_corrections(found),)),
            Section("claims", "Claims", (claims_table([of_claim(one) for one in found.beats], "reward"),)),
            seconds_section(seconds),
            Section("hashes", "Hashes", (_hashes(found),)),
            settings_section(found),
        ),
    )


def _rewards(found: MicroscopeFound) -> Block:
    """The one picture: what the first earns, under each correction, and what the second earns."""
    rows = ["the first", *RULE_WORDS.values(), "the second"]

    def values(decoding: Decoding) -> list[Measure | None]:
        start, goal = (found.row(writer, decoding).earned for writer in Writer)
        return [start, *(found.intervention(rule, decoding).earned for rule in RULE_WORDS), goal]

    panel = Panel(
        title="reward, held out; 95 % intervals over seeds and items",
        dots=[Dots(decoding.value, series_mark(place), values(decoding)) for place, decoding in enumerate(Decoding)],
    )
    shown = "; ".join(
        f"{row} {one.value:.3f}" for row, one in zip(rows, values(Decoding.GREEDY), strict=True) if one is not None
    )
    return drawn(
        dots_svg("rewards", f"Reward, answered greedily. {shown}.", rows, [panel]), "Missing: nothing was scored."
    )


def _asked(asked: Sequence[Asked]) -> Table:
    return table_of(
        "What arXiv:2605.06241 reports, as this project asked for it before any run; the figure decides, its interval "
        "is what another draw of items and seeds might have shown.",
        asked,
        ("Finding", lambda one: text(one.words)),
        ("asked", lambda one: text(f"{'≥' if one.at_least else '≤'} {one.bound:g}")),
        ("here", lambda one: measured(one.value)),
        (text("Came out"), lambda one: text("yes" if one.came_out else "no")),
    )


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
            words = f"{_WRITES[writer]}, {decoding.value}"
            texts = [_marked(item, places) for item, places in seen.shown.items()]
            whole_first = (writer, decoding) == (Writer.SECOND, Decoding.GREEDY)
            blocks += texts if whole_first else [Fold(words[0].upper() + words[1:], texts)]
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


def _agreement(found: MicroscopeFound) -> Table:
    return table_of(
        "Shares of an answer's tokens, means over answers, items and seeds. Entropy ratio: the mean entropy of the "
        "first where the two part, over that elsewhere.",
        found.agreements,
        ("Prefixes", lambda row: text(_WRITES[row.writer], row.decoding.value)),
        ("tokens", lambda row: whole(row.tokens)),
        ("unshifted", lambda row: measured(row.unshifted)),
        ("reranked", lambda row: measured(row.reranked)),
        ("shifted", lambda row: measured(row.shifted, digits=4)),
        ("mean rank", lambda row: number(row.mean_rank, "none", digits=2)),
        ("entropy ratio", lambda row: measured(row.entropy_ratio, "none", digits=2)),
        ("reward|of the writer", lambda row: measured(row.earned)),
        ("failed|answers", lambda row: whole(row.failures)),
    )


def _corrections(found: MicroscopeFound) -> Table:
    return table_of(
        "The first writes and is corrected by the second. Recovered: of what the second "
        "earns more than the first, where that is shown to be more.",
        found.interventions,
        ("Rule", lambda row: text(RULE_WORDS[row.rule], row.decoding.value)),
        ("reward", lambda row: measured(row.earned)),
        ("recovered", lambda row: absent("no gain shown") if row.recovered is None else measured(row.recovered)),
        ("corrected|share of tokens", lambda row: number(row.taken)),
        ("failed|answers", lambda row: whole(row.failures)),
    )


def _hashes(found: MicroscopeFound) -> Table:
    rows = [
        (run, (found.hashes[run].get("weights_sha256") or "missing")[:16], found.looks[run][:16])
        for run in sorted(found.hashes)
    ]
    return plain("The first 16 digits of each SHA-256.", ("Run", "weights", "what was seen"), rows, words=True)
