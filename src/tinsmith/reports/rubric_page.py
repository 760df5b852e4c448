"""The page of a run on rubrics: what held-out prompts gained first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.page import render
from tinsmith.reports.rubric_constant import best_constant
from tinsmith.reports.rubric_cost import cost_table, cost_words, failed_words
from tinsmith.reports.rubric_examples import Example, examples
from tinsmith.reports.rubric_figures import rubric_plates
from tinsmith.reports.rubric_gains import gains_of, gains_table
from tinsmith.reports.rubric_gathering import RubricRun, read_rubric_run
from tinsmith.reports.rubric_story import cannot_be_said, rubric_story
from tinsmith.reports.rubric_tables import Stuck, examinations_table, moved_tables, stuck
from tinsmith.reports.run_details import alarms_table, details
from tinsmith.reports.run_figures import Plate
from tinsmith.reports.run_map import KIND_WORDS, status_words, steps_words
from tinsmith.reports.tables import Table
from tinsmith.reports.wording import counted
from tinsmith.runs.kinds import Kind
from tinsmith.runs.run_records import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricPage:
    """What the template `rubrics.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    alarms: Table | None
    gains: Table | None
    examinations: Table | None
    plates: Sequence[Plate]
    moved: tuple[Table, ...]
    stuck: tuple[Stuck, ...]
    examples: tuple[Example, ...]
    cost: Table
    failures: Table | None
    pairs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def rubric_html(run: Run) -> str:
    """Return the page of a run on rubrics; the same folder, the same bytes."""
    return render("rubrics.html", _page(read_rubric_run(run.folder, run)), script=False)


def _page(read: RubricRun) -> RubricPage:
    run, constant = read.run, best_constant(read)
    gains = gains_of(read, constant)
    return RubricPage(
        title=run.config.title,
        question=run.config.question,
        facts=_facts(read),
        story=rubric_story(read, gains, constant),
        limits=cannot_be_said(read, gains),
        notes=read.notes,
        alarms=alarms_table(run),
        gains=gains_table(gains),
        examinations=examinations_table(read),
        plates=rubric_plates(read, constant),
        moved=moved_tables(read),
        stuck=stuck(read),
        examples=examples(read),
        cost=cost_table(read),
        failures=failures_table(read.failures),
        pairs=details(run),
    )


def _facts(read: RubricRun) -> tuple[tuple[str, str], ...]:
    run = read.run
    seed = "not stated" if run.config.seed is None else str(run.config.seed)
    return (
        ("Training", KIND_WORDS[Kind.RLVR]),
        ("Status", status_words(run)),
        ("Progress", steps_words(run)),
        ("Seed", seed),
        ("Model", run.config.model_name or "not stated"),
        ("Judge", read.judge),
        ("Judging cost", cost_words(read)),
        ("Without verdicts", failed_words(read)),
        ("Tasks", tasks_words(run)),
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
