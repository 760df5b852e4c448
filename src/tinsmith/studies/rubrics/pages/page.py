"""The page of a run on rubrics: what held-out prompts gained first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.run_details import run_document
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import (
    Block,
    Document,
    Pairs,
    Plates,
    Section,
    Words,
    kept,
    missing,
    note,
)
from tinsmith.pages.wording import counted
from tinsmith.studies.rubrics.pages.cost import cost_table, cost_words, failed_words
from tinsmith.studies.rubrics.pages.examples import examples
from tinsmith.studies.rubrics.pages.figures import rubric_plates
from tinsmith.studies.rubrics.pages.gains import best_constant, gains_of, gains_table
from tinsmith.studies.rubrics.pages.gathering import RubricRun, read_rubric_run
from tinsmith.studies.rubrics.pages.story import cannot_be_said, rubric_story
from tinsmith.studies.rubrics.pages.tables import examinations_table, moved_tables, stuck


def rubric_document(run: Run) -> Document:
    """Return the page of a run on rubrics; the same folder, the same bytes."""
    return _page(read_rubric_run(run.folder, run))


def _page(read: RubricRun) -> Document:
    run, constant = read.run, best_constant(read)
    gains = gains_of(read, constant)
    gained = gains_table(gains) or missing("Missing: it takes two examinations.")
    return run_document(
        run,
        kind="Report of one run on rubrics",
        facts=_facts(read),
        story=rubric_story(read, gains, constant),
        limits=cannot_be_said(read, gains),
        notes=read.notes,
        sections=(
            Section("gains", "Gains", kept(gained, examinations_table(read))),
            Section("steps", "Over the steps", [Plates(rubric_plates(read, constant))]),
            Section("rubrics", "Rubrics", _rubrics(read)),
            Section("examples", "Examples", _examples(read)),
            Section(
                "cost",
                "Cost and failures",
                (cost_table(read), failures_table(read.failures) or Words("No rollout failed.")),
            ),
        ),
    )


def _rubrics(read: RubricRun) -> tuple[Block, ...]:
    moved = moved_tables(read) or [missing("No criterion moved between two examinations.")]
    return *moved, *stuck(read)


def _examples(read: RubricRun) -> tuple[Block, ...]:
    found = examples(read)
    if not found:
        return (missing("Missing: no prompt was examined."),)
    chosen = note(
        "Examined prompts that gained most, in the middle, and least, by the mean of their sampled responses; of each "
        "the first sampled response, at the first and the last examination."
    )
    return chosen, *found


def _facts(read: RubricRun) -> Pairs:
    return (
        ("Model", read.run.config.model_name or "not stated"),
        ("Judge", read.judge),
        ("Judging cost", cost_words(read)),
        ("Without verdicts", failed_words(read)),
        ("Tasks", tasks_words(read.run)),
    )


def tasks_words(run: Run) -> str:
    """Say how many tasks there are, on which side, with how many rubrics."""
    data = run.config.data
    sides = [
        f"{count:,} {side}"
        for count, side in ((data.train, "for training"), (data.test, "held out"))
        if count is not None
    ]
    if data.rubrics is not None:
        sides.append(counted(data.rubrics, "rubric"))
    return ", ".join(sides) or "not stated"
