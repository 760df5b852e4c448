"""The page of one run: everything its folder says, from the summary down to single rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from tinsmith.analysis.calibration import Calibration
from tinsmith.reports.arms import Arm, arms_of
from tinsmith.reports.browser import Browser, browser
from tinsmith.reports.claim_tables import ClaimTable, claims_table
from tinsmith.reports.confidence import calibration_svg, calibration_table
from tinsmith.reports.debate_page import debate_html
from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.gathering import Gathered, disagreements
from tinsmith.reports.joint_page import joint_html
from tinsmith.reports.judging import judge_alone, pairing
from tinsmith.reports.matrices import Matrix, matrix
from tinsmith.reports.page import render, write
from tinsmith.reports.rubric_page import rubric_html
from tinsmith.reports.run_details import alarms_table, details
from tinsmith.reports.run_figures import Plate, run_plates
from tinsmith.reports.run_map import (
    KIND_WORDS,
    MapRow,
    papers_words,
    run_map,
    status_words,
    steps_words,
)
from tinsmith.reports.run_reader import REPORT, read_run
from tinsmith.reports.run_records import SPLIT_WORDS, Kind, Run, Split
from tinsmith.reports.run_story import run_story
from tinsmith.reports.snapshot import lenient_words, model_systems, snapshot_table
from tinsmith.reports.tables import Table
from tinsmith.reports.task_page import task_html
from tinsmith.reports.trajectory import trajectory_table
from tinsmith.reports.views import run_views
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """What the template `run.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    notes: tuple[str, ...]
    alarms: Table | None
    map: tuple[MapRow, ...]
    snapshot: Table
    lenient: str
    claims: ClaimTable | None
    pairing: str
    """How it is compared with the baselines."""
    views: Markup | None
    trajectory: Table | None
    plates: Sequence[Plate]
    matrices: Sequence[Matrix]
    calibration: Table | None
    calibration_svg: Markup | None
    failures: Table | None
    browser: Browser | None
    pairs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Headed lists of names and values: identity, settings, and so on."""


def report_run(folder: Path, out: Path | None = None) -> Path:
    """Write the page of the run in `folder`, by default as its `report.html`; return where it is.

    Raises:
        DataError: there is no run in `folder`.
    """
    file = out or folder / REPORT
    write(run_html(folder), file)
    return file


def run_html(folder: Path) -> str:
    """Return the page of the run in `folder`.

    Raises:
        DataError: there is no run in `folder`.
    """
    run = read_run(folder)
    if run.config.kind is Kind.RLVR:
        return rubric_html(run)
    if run.config.kind is Kind.TASK:
        return task_html(run)
    if run.config.kind is Kind.DEBATE:
        return debate_html(run)
    if run.config.kind is Kind.JOINT:
        return joint_html(run)
    (arm,) = arms_of([run])
    return render("run.html", _page(arm), script=True)


def _page(arm: Arm) -> RunPage:
    run, gathered = arm.first, arm.members[0].gathered
    systems, judged = model_systems(run, gathered), judge_alone(arm)
    calibrations, notes = _calibrations(gathered)
    return RunPage(
        title=run.config.title,
        question=run.config.question,
        facts=_facts(run),
        story=run_story(run, systems, judged),
        notes=(*run.notes, *gathered.notes, *disagreements(run, gathered), *notes),
        alarms=alarms_table(run),
        map=run_map([arm]),
        snapshot=snapshot_table(
            [("This run", systems)],
            run.baselines,
            run.labels,
            "Each figure stands above its 95 % interval. Sampled: at the training temperature.",
        ),
        lenient=lenient_words(run),
        claims=claims_table(judged) if judged else None,
        pairing=pairing([arm]),
        views=run_views(run, gathered),
        trajectory=trajectory_table(run, gathered),
        plates=run_plates(run),
        matrices=_matrices(gathered),
        calibration=calibration_table(calibrations) if calibrations else None,
        calibration_svg=calibration_svg("calibration", calibrations),
        failures=failures_table(gathered.failures),
        browser=browser(gathered, run.labels),
        pairs=details(run),
    )


def _facts(run: Run) -> tuple[tuple[str, str], ...]:
    config = run.config
    seed = "not stated" if config.seed is None else str(config.seed)
    reward = str(config.reward.get("name", "without a name")) if config.reward else "none"
    return (
        ("Training", KIND_WORDS[config.kind]),
        ("Status", status_words(run)),
        ("Progress", steps_words(run)),
        ("Seed", seed),
        ("Reward", reward),
        ("Model", config.model_name or "not stated"),
        (
            "Task",
            f"{config.task.name}, prompt {config.task.prompt}, contract {config.task.contract}",
        ),
        ("Papers", papers_words(run)),
    )


def _shown_splits(gathered: Gathered) -> tuple[Split, ...]:
    tested = tuple(split for split in (Split.TEST, Split.TEST_GREEDY) if gathered.last(split))
    return tested or (Split.EVAL, Split.EVAL_GREEDY)


def _matrices(gathered: Gathered) -> list[Matrix]:
    found: list[Matrix] = []
    for split in _shown_splits(gathered):
        evaluation = gathered.last(split)
        if evaluation is not None:
            confusion = evaluation.confusion()
            caption = f"{SPLIT_WORDS[split]}, {confusion.num_items:,} papers"
            found.append(
                matrix(caption[0].upper() + caption[1:], confusion.labels, confusion.counts)
            )
    return found


def _calibrations(gathered: Gathered) -> tuple[list[tuple[str, Calibration]], list[str]]:
    found: list[tuple[str, Calibration]] = []
    notes: list[str] = []
    for split in _shown_splits(gathered):
        evaluation = gathered.last(split)
        if evaluation is None:
            continue
        try:
            found.append((SPLIT_WORDS[split], evaluation.calibration()))
        except DataError as error:
            notes.append(f"The stated confidence of {split} cannot be read: {error.what}.")
    return [one for one in found if one[1].num_items], notes
