"""The page of a run with a challenger: what it gives way to first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.reports.debate_doubt import doubt_table
from tinsmith.reports.debate_examples import Example, examples
from tinsmith.reports.debate_figures import debate_plates
from tinsmith.reports.debate_gathering import DebateRun, read_debate_run
from tinsmith.reports.debate_story import cannot_be_said, debate_story
from tinsmith.reports.debate_tables import (
    arms_table,
    challenge_table,
    overall_table,
)
from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.page import render
from tinsmith.reports.run_details import alarms_table, details, flattened
from tinsmith.reports.run_figures import Plate
from tinsmith.reports.run_map import KIND_WORDS, papers_words, status_words, steps_words
from tinsmith.reports.tables import Table
from tinsmith.runs.run_records import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class DebatePage:
    """What the template `debate.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    alarms: Table | None
    arms: Table | None
    overall: Table | None
    doubt: Table | None
    challenge: Table | None
    plates: Sequence[Plate]
    examples: tuple[Example, ...]
    failures: Table | None
    pairs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def debate_html(run: Run) -> str:
    """Return the page of a run with a challenger; the same folder, the same bytes."""
    return render("debate.html", _page(read_debate_run(run.folder, run)), script=False)


def _page(read: DebateRun) -> DebatePage:
    run = read.run
    return DebatePage(
        title=run.config.title,
        question=run.config.question,
        facts=_facts(read),
        story=debate_story(read),
        limits=cannot_be_said(read),
        notes=read.notes,
        alarms=alarms_table(run),
        arms=arms_table(read),
        overall=overall_table(read),
        doubt=doubt_table(read),
        challenge=challenge_table(read),
        plates=debate_plates(run, alone=read.alone),
        examples=examples(read),
        failures=failures_table(read.failures, what="conversation", where="figure"),
        pairs=(*details(run), ("Challenge", tuple(flattened(run.config.challenge)))),
    )


def _facts(read: DebateRun) -> tuple[tuple[str, str], ...]:
    run = read.run
    config = run.config
    return (
        ("Training", KIND_WORDS[config.kind]),
        ("Status", status_words(run)),
        ("Progress", steps_words(run)),
        ("Seed", "not stated" if config.seed is None else str(config.seed)),
        ("Reward", config.reward_name or "not stated"),
        ("Challenger", read.opponent),
        ("Model", config.model_name or "not stated"),
        ("Papers that are discussed", papers_words(run)),
    )
