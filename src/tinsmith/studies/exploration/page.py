"""The page of a study of interleaved exploration: coverage by arm, signs, every measure, claims, hashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.lab.study.signs import signs_table
from tinsmith.pages.document import Block, Document, Fold, Section, drawn, note
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, table_of, text
from tinsmith.pages.wording import signed
from tinsmith.studies.exploration.results import WORDS, ExplorationFound, Explored, Figure
from tinsmith.studies.exploration.settings import NONE, QUESTION

_CHOSEN: Final = (
    "Every arm takes as many steps, so that what explores has fewer of the task. The settings of this study were "
    "chosen on seed 0, which is not reported; the learning rate is that of every task."
)
_Of = Callable[[Explored], Figure]


def exploration_page(found: ExplorationFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; `seconds` by the words of the arm."""
    return study_document(
        title="Exploration between the batches of a task",
        question=QUESTION,
        facts=(
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} visits, a third of each kind"),
            ("Seeds", ", ".join(map(str, found.seeds))),
            ("Settings chosen on seed", str(found.tuning_seed)),
        ),
        sentences=sentences,
        beside=(_picture(found), note(_CHOSEN)),
        sections=(
            Section("signs", "Signs", (_signs(found),)),
            Section("explored", "Without an errand", _explored(found)),
            Section("errands", "Errands", _errands(found)),
            Section("claims", "Claims", _claims(found)),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _picture(found: ExplorationFound) -> Block:
    measures: tuple[tuple[str, _Of], ...] = (
        ("checkpoints covered", lambda one: one.coverage),
        ("errands done", lambda one: one.success),
        ("recovered from a failure", lambda one: one.recovery),
    )
    panels: list[Panel] = []
    for title, of in measures:
        before: list[Measure | None] = [of(one).before for one in found.arms]
        after: list[Measure | None] = [of(one).after for one in found.arms]
        dots = [Dots("before", series_mark(6), before), Dots("after", series_mark(0), after)]
        panels.append(Panel(title=title, dots=dots, high=1.0))
    said = "; ".join(f"{WORDS[one.arm]} {one.coverage.after.value:.3f}" for one in found.arms)
    rows = [WORDS[one.arm] for one in found.arms]
    return drawn(
        dots_svg("arms", f"Checkpoints covered: {said}.", rows, panels, width=7.6), "Missing: nothing was evaluated."
    )


def _signs(found: ExplorationFound) -> Table:
    return signs_table("What arXiv:2605.16143 reports of large models, and what is seen here.", found.signs)


def _named(one: Explored) -> Cell:
    return text(WORDS[one.arm])


def _beside(of: _Of) -> Callable[[Explored], Cell]:
    def cell(one: Explored) -> Cell:
        gap = of(one).gap
        if one.arm == NONE or gap.low is None or gap.high is None:
            return text("" if one.arm == NONE else signed(gap.value))
        under = f"{signed(gap.low)} to {signed(gap.high)}"
        return Cell(text=signed(gap.value), under=under, number=True)

    return cell


def _explored(found: ExplorationFound) -> Sequence[Block]:
    return (
        table_of(
            "Held-out houses in which nothing is wanted, sampled: means over seeds and houses, 95 % intervals over "
            "both. Covered: the share of what can be opened that is. Overhead: rollouts of training that explore.",
            found.arms,
            ("Arm", _named),
            ("overhead", lambda one: Cell(text=f"{one.overhead:.1%}", number=True)),
            ("covered|before", lambda one: measured(one.coverage.before)),
            ("covered|after", lambda one: measured(one.coverage.after)),
            ("less that of|the task alone", _beside(lambda one: one.coverage)),
            ("actions done again|before", lambda one: measured(one.repeated.before)),
            ("actions done again|after", lambda one: measured(one.repeated.after)),
        ),
    )


def _errands(found: ExplorationFound) -> Sequence[Block]:
    def table(caption: str, of: _Of) -> Table:
        return table_of(
            caption,
            found.arms,
            ("Arm", _named),
            ("before", lambda one: measured(of(one).before)),
            ("after", lambda one: measured(of(one).after)),
            ("less that of|the task alone", _beside(of)),
        )

    return (
        table("Held-out errands that end with what is wanted.", lambda one: one.success),
        table(
            "Recovery: held-out errands that begin with a failed action, in the model's own place, and still end with "
            "what is wanted.",
            lambda one: one.recovery,
        ),
    )


def _claims(found: ExplorationFound) -> Sequence[Block]:
    return (
        note(
            "Beats: trained in as many steps on the same items; Holm's correction runs over all of these. Learned: "
            "above the model before training, above going through the first door, and above exploration paid by chance."
        ),
        Fold("One beats the other", [claims_table([of_claim(one) for one in found.beats], "coverage or recovery")]),
        Fold(
            "Something was learned that nothing simpler explains",
            [claims_table([of_claim(one) for one in found.learned], "coverage")],
        ),
    )
