"""The page of one run: everything its folder says, from the summary down to single rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from markupsafe import Markup

from tinsmith.analysis.calibration import Calibration
from tinsmith.reports.arms import Arm, arms_of
from tinsmith.reports.browser import Browser, browser
from tinsmith.reports.claim_tables import ClaimTable, claims_table
from tinsmith.reports.confidence import calibration_svg, calibration_table
from tinsmith.reports.gathering import Gathered, disagreements
from tinsmith.reports.judging import judge_alone, pairing
from tinsmith.reports.matrices import Matrix, matrix
from tinsmith.reports.page import render, write
from tinsmith.reports.run_figures import Plate, run_plates
from tinsmith.reports.run_map import (
    KIND_WORDS,
    MapRow,
    papers_words,
    run_map,
    status_words,
    steps_words,
)
from tinsmith.reports.run_reader import read_run
from tinsmith.reports.run_records import SPLIT_WORDS, Config, Run, Split
from tinsmith.reports.run_story import run_story
from tinsmith.reports.snapshot import lenient_words, model_systems, snapshot_table
from tinsmith.reports.tables import Cell, Table, TableRow, column, number, shown, text, whole
from tinsmith.reports.trajectory import trajectory_table
from tinsmith.reports.views import run_views
from tinsmith.types.errors import DataError

REPORT = "report.html"


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
    (arm,) = arms_of([read_run(folder)])
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
        failures=_failures(gathered),
        browser=browser(gathered, run.labels),
        pairs=_pairs(run),
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


def alarms_table(run: Run) -> Table | None:
    """Return the alarms with the numbers that figures use; None where there are none."""
    if not run.alarms:
        return None
    return Table(
        caption="",
        heads=(
            text("Alarm"),
            text("What was seen"),
            column("step"),
            column("value"),
            column("limit"),
        ),
        rows=tuple(
            TableRow(
                name=Cell(text=f"A{place}", tags=()),
                cells=(
                    text(alarm.message or f"{alarm.kind} {alarm.label or ''}".strip()),
                    whole(alarm.step, "not stated"),
                    number(alarm.value, "not stated"),
                    number(alarm.threshold, "not stated"),
                ),
            )
            for place, alarm in enumerate(run.alarms, start=1)
        ),
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


def _failures(gathered: Gathered) -> Table | None:
    if not gathered.failures:
        return None
    return Table(
        caption="A failed rollout has no reward and is in no score.",
        heads=(text("Where"), text("What happened"), text("Split"), column("rollouts")),
        rows=tuple(
            TableRow(
                name=text(cause.where or "not stated"),
                cells=(text(cause.what or "not stated"), text(cause.split), whole(count)),
            )
            for cause, count in gathered.failures.items()
        ),
    )


def _pairs(run: Run) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    config, manifest = run.config, run.manifest
    data = config.data
    settings = {**config.settings, **{f"task.{k}": v for k, v in _fields(config.task).items()}}
    identity = {
        key: value
        for key, value in (manifest.identity if manifest else {}).items()
        if key not in Config.__struct_fields__ and key not in ("schema", "title")
    }
    sections: list[tuple[str, Mapping[str, object]]] = [
        ("Settings", settings),
        ("Reward", config.reward or {}),
        ("Papers", _fields(data)),
        (
            "Identity: the same identity gives the same results",
            {"identity_sha256": config.identity_sha256, **identity},
        ),
        ("Hashes of what it left", dict(manifest.hashes) if manifest else {}),
        ("Circumstances: these decide nothing", manifest.circumstances if manifest else {}),
        ("Median seconds of a step", _timings(run)),
        ("Checkpoints", {f"step {one.step}": one.state_path for one in run.checkpoints}),
    ]
    return tuple((title, tuple(flattened(values))) for title, values in sections)


def _fields(record: object) -> dict[str, object]:
    names: Sequence[str] = getattr(record, "__struct_fields__", ())
    return {name: getattr(record, name) for name in names}


def flattened(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested mappings as pairs of dotted name and text, in their order."""
    pairs: list[tuple[str, str]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner:
            pairs += flattened(inner, f"{name}.")
        else:
            pairs.append((name, shown(inner)))
    return pairs


def _timings(run: Run) -> dict[str, object]:
    names = sorted({key for row in run.timings for key in row if key != "step"})
    medians: dict[str, object] = {}
    for name in names:
        # A phase that most steps do not have (evaluating, saving) is told by the steps that have it.
        values = [value for row in run.timings if (value := row.get(name))]
        if values:
            medians[name.removesuffix("_s")] = f"{median(values):.3f} ({len(values)} steps)"
    return medians
