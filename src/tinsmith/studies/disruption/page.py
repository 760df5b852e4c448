"""The page of a run on one label: everything its folder says, from the summary down to single rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.lab.results.arms import Arm, arms_of
from tinsmith.lab.results.claim_tables import claim_blocks
from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.gathering import Gathered, disagreements
from tinsmith.lab.results.judging import judge_alone, pairing
from tinsmith.lab.results.matrices import confusion_blocks, evaluated_matrices, shown_splits
from tinsmith.lab.results.run_details import failures_section, run_document
from tinsmith.lab.results.run_figures import run_plates
from tinsmith.lab.results.run_map import papers_words, run_map
from tinsmith.lab.results.run_story import run_story
from tinsmith.lab.results.snapshot import model_systems, snapshot_blocks
from tinsmith.lab.results.trajectory import trajectory_table
from tinsmith.lab.results.views import run_views
from tinsmith.lab.runs.records import SPLIT_WORDS, Run
from tinsmith.pages.document import (
    Block,
    Document,
    Heading,
    Pairs,
    Plate,
    Plates,
    Section,
    Size,
    Words,
    drawn,
    kept,
    missing,
    note,
)
from tinsmith.stats.calibration import Calibration
from tinsmith.studies.disruption.browser import browser
from tinsmith.studies.disruption.confidence import calibration_svg, calibration_table
from tinsmith.types.errors import DataError


def label_document(run: Run) -> Document:
    """Return the page of a run on one label."""
    (arm,) = arms_of([run])
    return _page(arm)


def _page(arm: Arm) -> Document:
    run, gathered = arm.first, arm.members[0].gathered
    systems, judged = model_systems(run, gathered), judge_alone(arm)
    calibrations, notes = _calibrations(gathered)
    return run_document(
        run,
        kind="Report of one run",
        facts=_facts(run),
        story=run_story(run, systems, judged),
        notes=(*run.notes, *gathered.notes, *disagreements(run, gathered), *notes),
        alarms="Alarms of the collapse monitor",
        top=(Heading("Run map"), run_map([arm])),
        sections=(
            Section(
                "snapshot",
                "Evaluation snapshot",
                (
                    Words(
                        "The selected checkpoint beside rows that any model must beat before its score means something."
                    ),
                    *snapshot_blocks(run, systems),
                ),
                short="Snapshot",
            ),
            Section(
                "claims", "Claims", (*([Words(paired)] if (paired := pairing([arm])) else []), *claim_blocks(judged))
            ),
            *_evaluated(run, gathered),
            Section("confidence", "Stated confidence", _confidence(calibrations), "Confidence"),
            failures_section(failures_table(gathered.failures)),
            Section(
                "rollouts",
                "Rollouts",
                [browser(gathered, run.labels) or missing("Missing: rollouts.jsonl has no readable line.")],
            ),
        ),
    )


def _facts(run: Run) -> Pairs:
    config = run.config
    reward = str(config.reward.get("name", "without a name")) if config.reward else "none"
    task = config.task
    return (
        ("Reward", reward),
        ("Model", config.model_name or "not stated"),
        ("Task", f"{task.name}, prompt {task.prompt}, contract {task.contract}"),
        ("Papers", papers_words(run)),
    )


def _evaluated(run: Run, gathered: Gathered) -> tuple[Section, ...]:
    """Return what evaluations say over the run and at its end."""
    never = "Missing: the validation split was never answered."
    flags = note("Red dotted lines are alarms, numbered as in the table of the summary.")
    return (
        Section(
            "views",
            "Three views",
            (
                Words(
                    "Is the contract kept, are the classes in balance, how often is an answer invalid: on the "
                    "validation split unless the row says otherwise. Bars are 95\u00a0% intervals."
                ),
                drawn(run_views(run, gathered), never),
            ),
        ),
        Section("trajectory", "Trajectory", [trajectory_table(run, gathered) or missing(never)]),
        Section("steps", "Over the steps", kept(flags if run.alarms else None, Plates(run_plates(run)))),
        Section(
            "confusion",
            "Confusion",
            confusion_blocks(evaluated_matrices(gathered), "Missing: no evaluation has its answers in rollouts.jsonl."),
        ),
    )


def _confidence(calibrations: Sequence[tuple[str, Calibration]]) -> Sequence[Block]:
    if not calibrations:
        return [missing("Missing: no evaluated answer states a confidence.")]
    plate = Plate(
        "Stated confidence against being right",
        "Larger marks stand for more papers; lines are 95\u00a0% intervals. On the diagonal a word can be believed.",
        calibration_svg("calibration", calibrations),
    )
    return [Plates([plate], Size.HALF), calibration_table(calibrations)]


def _calibrations(gathered: Gathered) -> tuple[list[tuple[str, Calibration]], list[str]]:
    found: list[tuple[str, Calibration]] = []
    notes: list[str] = []
    for split in shown_splits(gathered):
        evaluation = gathered.last(split)
        if evaluation is None:
            continue
        try:
            found.append((SPLIT_WORDS[split], evaluation.calibration()))
        except DataError as error:
            notes.append(f"The stated confidence of {split} cannot be read: {error.what}.")
    return [one for one in found if one[1].num_items], notes
