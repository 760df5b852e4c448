"""The page of a run with a challenger: what it gives way to first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.run_details import failures_section, run_document
from tinsmith.lab.results.run_map import papers_words
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import (
    Block,
    Document,
    Heading,
    Pairs,
    Plates,
    Section,
    kept,
    missing,
    note,
)
from tinsmith.studies.debate.pages.doubt import doubt_table
from tinsmith.studies.debate.pages.examples import examples
from tinsmith.studies.debate.pages.figures import debate_plates
from tinsmith.studies.debate.pages.gathering import DebateRun, read_debate_run
from tinsmith.studies.debate.pages.story import cannot_be_said, debate_story
from tinsmith.studies.debate.pages.tables import arms_table, challenge_table, overall_table


def debate_document(run: Run) -> Document:
    """Return the page of a run with a challenger; the same folder, the same bytes."""
    return _page(read_debate_run(run.folder, run))


def _page(read: DebateRun) -> Document:
    run = read.run
    failures = failures_table(read.failures, what="conversation", where="figure")
    return run_document(
        run,
        kind="Report of one run under challenge",
        facts=_facts(read),
        story=debate_story(read),
        limits=cannot_be_said(read),
        notes=read.notes,
        sections=(
            Section("arms", "By arm", _arms(read)),
            Section("steps", "Over the steps", [Plates(debate_plates(run, alone=read.alone))]),
            Section("examples", "Conversations", _examples(read)),
            failures_section(failures, "conversation"),
        ),
        more={"Challenge": run.config.challenge},
    )


def _arms(read: DebateRun) -> tuple[Block, ...]:
    arms, doubt, challenge = arms_table(read), doubt_table(read), challenge_table(read)
    return kept(
        arms or missing("Missing: no conversation was examined."),
        overall_table(read) if arms else None,
        Heading("Where right answers are given up") if doubt else None,
        doubt,
        Heading("What the challenges give away") if challenge else None,
        challenge,
    )


def _examples(read: DebateRun) -> tuple[Block, ...]:
    found = examples(read)
    if not found:
        return (missing("Missing: no conversation was examined."),)
    chosen = note(
        "Examined conversations, at most two of every way they can go, chosen by a hash of the paper's name and not by "
        "how they look. Prompts are not kept in the run folder; the paper's identifier finds them in the slice."
    )
    return chosen, *found


def _facts(read: DebateRun) -> Pairs:
    config = read.run.config
    return (
        ("Reward", config.reward_name or "not stated"),
        ("Challenger", read.opponent),
        ("Model", config.model_name or "not stated"),
        ("Papers that are discussed", papers_words(read.run)),
    )
