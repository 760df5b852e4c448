"""The page of a study of the loss on the environment's answers: signs, the course, foresight, boredom, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.drawn_metrics import last_values
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.lab.study.signs import signs_table
from tinsmith.pages.curves import Chart, Limit, Line, chart_svg
from tinsmith.pages.document import Block, Document, Fold, Section, drawn, note
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, number, table_of, text
from tinsmith.stats.diagnostics.boredom import WINDOW
from tinsmith.studies.environment_loss.reading import HALF, Course
from tinsmith.studies.environment_loss.results import WORDS, LossFound, Weighed
from tinsmith.studies.environment_loss.settings import QUESTION

_CHOSEN: Final = (
    "The settings of this study were chosen on seed 0, which is not reported; learning rates are those that every task "
    "has. The loss is on what the shell answers and not on the template around it, weighed as the mean of its tokens "
    "against the mean of the model's own, in one forward pass; it is on conversations that teach nothing else too."
)


def environment_loss_page(
    found: LossFound, sentences: Sequence[str], runs: Mapping[str, Sequence[Course]], seconds: Mapping[str, Seconds]
) -> Document:
    """Return the page."""
    return study_document(
        title="A loss on what the environment answers",
        question=QUESTION,
        facts=(
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} errands"),
            ("Seeds", ", ".join(map(str, found.seeds))),
            ("Settings chosen on seed", str(found.tuning_seed)),
        ),
        sentences=sentences,
        beside=(_course(runs), note(_CHOSEN)),
        sections=(
            Section("signs", "Signs", (_signs(found),)),
            Section("success", "Success", (_success(found),)),
            Section("foresight", "Foresight", (_foresight(found),)),
            Section("boredom", "Boredom", (_boredom(found),)),
            Section("claims", "Claims", _claims(found)),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _course(runs: Mapping[str, Sequence[Course]]) -> Block:
    lines: list[Line] = []
    for place, (name, some) in enumerate(runs.items()):
        steps = range(len(some[0].success))
        lines.append(
            Line(
                label=WORDS[name],
                mark=series_mark(place),
                steps=steps,
                values=[sum(one.success[at] for one in some) / len(some) for at in steps],
            )
        )
    chart = Chart(
        name="course",
        label=f"Share of conversations that succeed in training, by step: {last_values(lines)}.",
        lines=lines,
        unit="success",
        shares=True,
        limits=(Limit(HALF, "one half"),),
    )
    return drawn(chart_svg(chart), "Missing: nothing was trained.")


def _named(one: Weighed) -> Cell:
    return text(WORDS[one.arm])


def _signs(found: LossFound) -> Table:
    return signs_table(
        "What arXiv:2605.24517 reports of models of 8 and 14 billion parameters, and what is seen here. A sign is a "
        "direction.",
        found.signs,
    )


def _success(found: LossFound) -> Table:
    return table_of(
        "Held-out errands, sampled: means over seeds and errands, 95 % intervals over both. Steps to one half: after "
        f"which half of the conversations of the last {WINDOW} steps succeeded, one a seed.",
        found.arms,
        ("Arm", _named),
        ("before", lambda one: measured(one.before)),
        ("after", lambda one: measured(one.after)),
        (text("Steps to one half"), lambda one: text(_each(one.to_half))),
    )


def _each(values: Sequence[int | None]) -> str:
    return ", ".join("never" if one is None else str(one) for one in values)


def _foresight(found: LossFound) -> Table:
    return table_of(
        "Nats a token of what the shell answers in the model's own evaluated conversations, before training and after. "
        "The conversations differ, as the policy does.",
        found.arms,
        ("Arm", _named),
        ("before", lambda one: number(sum(one.nll_first) / len(one.nll_first))),
        ("after", lambda one: number(sum(one.nll_last) / len(one.nll_last))),
        ("less by", lambda one: number(one.nll_fell)),
    )


def _boredom(found: LossFound) -> Table:
    return table_of(
        f"First and last {WINDOW} steps of training, means over seeds. Alarm: the entropy of answers is below half of "
        "the first steps' while fewer than half of the conversations succeed; its step, one a seed.",
        found.arms,
        ("Arm", _named),
        ("entropy of answers|first", lambda one: number(one.entropy_first)),
        ("entropy of answers|last", lambda one: number(one.entropy_last)),
        ("different commands|first", lambda one: number(one.different_first)),
        ("different commands|last", lambda one: number(one.different_last)),
        (text("Alarm"), lambda one: text(_each(one.alarms))),
    )


def _claims(found: LossFound) -> Sequence[Block]:
    return (
        note(
            "On success on held-out errands. Beats: Holm's correction runs over all weights. Learned: above the model "
            "before training, above one guess, and above the same training in a shell that tells nothing."
        ),
        Fold("One beats the other", [claims_table([of_claim(one) for one in found.beats], "success")]),
        Fold(
            "Something was learned that nothing simpler explains",
            [claims_table([of_claim(one) for one in found.learned], "success")],
        ),
    )
