"""The page of a study of pass@k: signs first, then curves over k and T, boundaries, ways, claims, hashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.drawn_metrics import last_values
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.lab.study.signs import signs_table
from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.document import Block, Document, Fold, Section, drawn, note
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, table_of, text, whole
from tinsmith.stats.diagnostics.pass_at_k import dyadic
from tinsmith.studies.pass_at_k.results import PassFound
from tinsmith.studies.pass_at_k.settings import ARMS, QUESTION
from tinsmith.studies.pass_at_k.source import MOST_LOOKUPS
from tinsmith.studies.pass_at_k.world import Hops

_WORDS: Final = {arm.name: arm.words for arm in ARMS}
_HOPS: Final = {Hops.ONE: "one hop", Hops.TWO: "two hops"}
_CHOSEN: Final = (
    "The settings of this study were chosen on seed 0, which is not reported; learning rates are those that every "
    "task has. How many look-ups may be made is not told to the model: pass@(k, T) counts a sample that took more "
    "than T as wrong, and is computed from the same samples for every k and T."
)


def pass_at_k_page(found: PassFound, sentences: Sequence[str], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page."""
    return study_document(
        title="pass@k: does RL move the boundary?",
        question=QUESTION,
        facts=(
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} questions, {found.num_two:,} of two hops"),
            ("Samples of each", str(found.samples)),
            ("Seeds", ", ".join(map(str, found.seeds))),
            ("Settings chosen on seed", str(found.tuning_seed)),
        ),
        sentences=sentences,
        beside=(_over_k(found), note(_CHOSEN)),
        sections=(
            Section("signs", "Signs", (_signs(found),)),
            Section("passed", "pass@(k, T)", (_passed(found), _over_turns(found))),
            Section("boundaries", "Boundaries", (_boundaries(found),)),
            Section("ways", "Ways", (_ways(found),)),
            Section("claims", "Claims", _claims(found)),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _signs(found: PassFound) -> Table:
    return signs_table(
        "What arXiv:2604.14877 reports of a model of 7 billion parameters, and what is seen. A sign is a direction; "
        "what is significant stands below.",
        found.signs,
    )


def _over_k(found: PassFound) -> Block:
    ks = dyadic(found.samples)
    lines: list[Line] = []
    for place, (name, words) in enumerate(_WORDS.items()):
        values = [found.at(name, k) for k in ks]
        lines.append(
            Line(
                label=words,
                mark=series_mark(place),
                steps=range(len(ks)),
                values=[one.value for one in values],
                low=[one.value if one.low is None else one.low for one in values],
                high=[one.value if one.high is None else one.high for one in values],
            )
        )
    chart = Chart(
        name="over-k",
        label=f"pass@k of questions of two hops, over k: {last_values(lines)}.",
        lines=lines,
        axis="log2 of k",
        unit="pass@k",
        shares=True,
    )
    return drawn(chart_svg(chart), "Missing: nothing was sampled.")


_Row = tuple[str, Hops]


def _rows() -> list[_Row]:
    return [(name, hops) for hops in (Hops.TWO, Hops.ONE) for name in _WORDS]


def _named(row: _Row) -> Cell:
    return text(_WORDS[row[0]], _HOPS[row[1]])


def _passed(found: PassFound) -> Table:
    def cell(k: int) -> Callable[[_Row], Cell]:
        return lambda row: measured(found.at(row[0], k, row[1]))

    return table_of(
        f"Up to {MOST_LOOKUPS} look-ups. Means over questions and seeds, 95 % intervals over both.",
        _rows(),
        ("Arm", _named),
        *((f"k = {k}", cell(k)) for k in dyadic(found.samples)),
    )


def _over_turns(found: PassFound) -> Table:
    most = dyadic(found.samples)[-1]

    def cell(turns: int) -> Callable[[_Row], Cell]:
        return lambda row: measured(found.at(row[0], most, row[1], turns))

    return table_of(
        f"pass@({most}, T): what is solved with at most T look-ups.",
        _rows(),
        ("Arm", _named),
        *((f"T = {turns}", cell(turns)) for turns in range(MOST_LOOKUPS + 1)),
    )


def _boundaries(found: PassFound) -> Table:
    return table_of(
        f"Questions that any of {found.samples} samples solves, beside the base's of the same seed. p: McNemar's exact "
        "test of gained against lost; of all seeds together, flips of the sign of each question's net, so that its "
        "seeds are one observation. p is not corrected.",
        found.swaps,
        ("Arm", lambda one: text(_WORDS[one.arm], _HOPS[one.hops])),
        ("seed", lambda one: text("all" if one.seed is None else str(one.seed))),
        ("base solves", lambda one: whole(one.of_base)),
        ("arm solves", lambda one: whole(one.solved)),
        ("gained", lambda one: whole(one.gained)),
        ("lost", lambda one: whole(one.lost)),
        ("p", lambda one: text(f"{one.p_value:.2g}")),
    )


def _ways(found: PassFound) -> Table:
    return table_of(
        f"Questions of two hops, {found.samples} samples each. Ways: which lists, in which order, for whomever. "
        "Distinct-2: the share of different pairs among all pairs of look-ups that follow each other.",
        found.ways,
        ("Arm", lambda one: text(_WORDS[one.arm])),
        ("sequences|a question", lambda one: measured(one.sequences, digits=1)),
        ("ways|a question", lambda one: measured(one.ways, digits=1)),
        ("distinct-2", lambda one: measured(one.distinct_pairs)),
    )


def _claims(found: PassFound) -> Sequence[Block]:
    return (
        note(
            "On questions of two hops. Beats: scored on the same questions, the first trained on no more than the "
            "second; Holm's correction runs over all of these. Learned: above the base, above one look-up whatever is "
            "asked, and above the same training paid by a coin that is thrown by what was said."
        ),
        Fold("One beats the other", [claims_table([of_claim(one) for one in found.beats], "pass@k")]),
        Fold(
            "Something was learned that nothing simpler explains",
            [claims_table([of_claim(one) for one in found.learned], "pass@k")],
        ),
    )
