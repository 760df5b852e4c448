"""What may be said of dead groups, and their page: gains by arm, then how mixed groups were, claims and hashes."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.study.arm_gains import ArmGain, claim_folds, gain_words, gains_picture, gains_table
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds, limits_of
from tinsmith.pages.document import Block, Document, Section, note
from tinsmith.pages.tables import measured, number, table_of, text, whole
from tinsmith.pages.wording import counted, listed
from tinsmith.stats.gate.claim import Verdict
from tinsmith.studies.dead_groups.results import DeadFound, Mixed
from tinsmith.studies.dead_groups.settings import ALWAYS, CHANCE, QUESTION, REMEDIES, SHUFFLED

MARGIN = 0.01
"""A gain whose whole interval lies within this is none."""


def dead_sentences(found: DeadFound) -> tuple[str, ...]:
    """Return what may be said; what did not come out as it is published comes first."""
    always, chance = found.gain(ALWAYS), found.gain(CHANCE)
    seeds = counted(len(found.seeds), "seed")
    flat = always.within(MARGIN)
    rose = _rose(chance)
    mended = "does not mend" if flat else "is not shown to leave as it was"
    learns = "mends" if rose else "is not shown to mend"
    head = (
        f"Over {seeds}, RL {mended} a model that always fails at the same questions, and {learns} one that fails by "
        "chance"
    )
    missed = _missed(found)
    head += f"; what did not come out: {listed(missed)}." if missed else "."
    return (
        head,
        f"{always.words.capitalize()}: {gain_words(always)}.",
        f"{chance.words.capitalize()}: {gain_words(chance)}.",
        *_remedies(found),
        _closed_form(found),
        *_control(found),
        *limits_of(found, {}),
    )


def _missed(found: DeadFound) -> list[str]:
    """Name what was published, or is a control, and is not seen here; the two bases stand before it."""
    start = f"{found.gain(ALWAYS).words}, "
    idle = [one.words.removeprefix(start) for one in _helped(found, False)]
    missed = [f"a higher end with a remedy ({', '.join(idle)})"] if idle else []
    if not found.mixed[CHANCE].foreseen:
        missed.append("as many mixed groups as the closed form foresees")
    if found.has(SHUFFLED) and _rose(found.gain(SHUFFLED)):
        missed.append("a control that learns nothing")
    return missed


def _rose(one: ArmGain) -> bool:
    return one.holds and one.gain.value > 0


def _helped(found: DeadFound, helped: bool) -> list[ArmGain]:
    """Return the remedies of which the gate allows that they end above none, or those of which it does not."""
    allowed = {one.first for one in found.beats if one.verdict is Verdict.ALLOWED}
    there = [found.gain(name) for name in REMEDIES if found.has(name)]
    return [one for one in there if (one.words in allowed) is helped]


def _remedies(found: DeadFound) -> list[str]:
    there = [found.gain(name) for name in REMEDIES if found.has(name)]
    said = [f"{one.words.capitalize()}: {gain_words(one)}." for one in there]
    better, not_better = ([one.words for one in _helped(found, each)] for each in (True, False))
    if better:
        said.append(f"The gate allows that {listed(better)} ends above it without a remedy.")
    if not_better:
        said.append(f"Not claimed of {listed(not_better)}.")
    return said


def _closed_form(found: DeadFound) -> str:
    one = found.mixed[CHANCE]
    index = found.mixed[ALWAYS].index
    where = "within its interval" if one.foreseen else "outside its interval"
    return (
        f"Where it fails by chance, {one.observed.value:.3f} of the groups before training hold both kinds of answer; "
        f"1 - p^G - (1 - p)^G foresees {one.expected:.3f}, {where}. Where it always fails, it is "
        f"{found.mixed[ALWAYS].observed.value:.3f} of {found.mixed[ALWAYS].expected:.3f}, and the determinism index "
        f"{'has no value' if index is None else f'{index:.2f}'}."
    )


def _control(found: DeadFound) -> list[str]:
    if not found.has(SHUFFLED):
        return ["No run on shuffled labels was made."]
    one = found.gain(SHUFFLED)
    what = "something is learned without right answers" if _rose(one) else "as it should be, no gain is shown"
    return [f"Each item rewarded as another one is: {gain_words(one)}; {what}."]


def dead_page(found: DeadFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; `seconds` by the words of the arm."""
    caption = (
        "Right answers to held-out questions, sampled at the arm's temperature: means over seeds and items, 95 % "
        "intervals over seeds and signs, p corrected over the arms."
    )
    return study_document(
        title="Dead groups",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} items"),
            ("Seeds", ", ".join(map(str, found.seeds))),
        ),
        sentences=sentences,
        beside=(gains_picture(found.gains, "right answers, held out"),),
        sections=(
            Section("gains", "Gains", (gains_table(found.gains, caption),)),
            Section("groups", "Groups", _groups(found)),
            Section("claims", "Claims", claim_folds(found, "right")),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _groups(found: DeadFound) -> tuple[Block, ...]:
    words = {one.name: one.words for one in found.gains}
    rows: list[tuple[str, Mixed]] = [(words[name], one) for name, one in found.mixed.items()]
    table = table_of(
        f"Groups of {found.group_size} sampled answers to held-out questions before training, and those of training. "
        "Expected: if every answer were an independent draw. Index: 1 less observed over expected; 1 says that "
        "questions are always right or always wrong.",
        rows,
        ("Arm", lambda row: text(row[0])),
        ("right|before", lambda row: number(row[1].right)),
        ("mixed|observed", lambda row: measured(row[1].observed)),
        ("mixed|expected", lambda row: number(row[1].expected)),
        ("index", lambda row: number(row[1].index, "none expected")),
        ("informative|in training", lambda row: number(row[1].trained_on)),
        ("runs|with the alarm", lambda row: whole(row[1].alarms)),
    )
    return (
        note(
            "A temperature above 1 makes groups mixed, and the ratio of trainer to sampler, which is of temperature 1, "
            "takes most of that back: what is hardly ever drawn otherwise hardly counts."
        ),
        table,
    )
