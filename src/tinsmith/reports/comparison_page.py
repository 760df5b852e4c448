"""The page of a comparison: runs side by side, seeds together, and the claims with the reason for each verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from tinsmith.data.baseline_report import TargetReport
from tinsmith.reports.arms import Arm, Member, arms_of_members
from tinsmith.reports.claim_tables import ClaimTable, claims_table
from tinsmith.reports.compared_folders import check_each_once
from tinsmith.reports.comparison_figures import (
    arm_views,
    informative_plates,
    progress_plates,
    ranking_svg,
    share_plates,
)
from tinsmith.reports.comparison_story import comparison_story
from tinsmith.reports.gathering import disagreements, gather
from tinsmith.reports.joint_gathering import read_joint_run
from tinsmith.reports.judging import BOOTSTRAP, Judged, judge_arms, pairing
from tinsmith.reports.lost_classes import LostClass, lost_classes
from tinsmith.reports.matrices import Matrix, MatrixLabel, matrix
from tinsmith.reports.page import render, write
from tinsmith.reports.palette import class_slot
from tinsmith.reports.pooled import Pooled, pooled
from tinsmith.reports.run_figures import Plate
from tinsmith.reports.run_map import (
    MapRow,
    by_descent,
    papers_words,
    run_map,
    status_words,
    steps_words,
)
from tinsmith.reports.snapshot import System, snapshot_table
from tinsmith.reports.standings import Standing, standings
from tinsmith.reports.tables import Table, TableRow, column, number, text, whole
from tinsmith.reports.wording import counted, listed
from tinsmith.runs.kinds import Kind
from tinsmith.runs.run_reader import read_run
from tinsmith.runs.run_records import SPLIT_WORDS, Run, Split
from tinsmith.tasks.subjects import Subject
from tinsmith.types.errors import ConfigError, DataError

COMPARISON = "compare.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that a comparison knows of its runs; the console's table and the page show the same."""

    arms: tuple[Arm, ...]
    tested: Mapping[str, Pooled]
    """By arm, the selected checkpoint sampled on the test split; arms without answers are absent."""
    greedy: Mapping[str, Pooled]
    offset: Mapping[str, Pooled]
    """Decisions with logit offsets, of the arms that have them."""
    baselines: TargetReport | None
    lost: tuple[LostClass, ...]
    judged: tuple[Judged, ...]
    stood: tuple[Standing, ...]
    """Each arm against the baselines."""
    notes: tuple[str, ...]

    @property
    def story(self) -> tuple[str, ...]:
        """The sentences at the top."""
        return comparison_story(
            self.arms, self.tested, self.baselines, self.lost, self.judged, self.stood
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPage:
    """What the template `comparison.html` shows."""

    title: str
    names: str
    labels: tuple[MatrixLabel, ...]
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    notes: tuple[str, ...]
    claims: ClaimTable | None
    pairing: str
    """How the RL arms are compared with the baselines."""
    ranking: Markup | None
    map: tuple[MapRow, ...]
    snapshot: Table
    views: Markup | None
    progress: Sequence[Plate]
    shares: Sequence[Plate]
    informative: Sequence[Plate]
    lost: tuple[LostClass, ...]
    alarms: Table | None
    matrices: Sequence[Matrix]
    runs: Table


def report_comparison(compared: Compared, out: Path) -> None:
    """Write the page of a comparison to `out`.

    Raises:
        ConfigError: the folder of `out` does not exist.
    """
    write(comparison_html(compared), out)


def comparison_html(compared: Compared) -> str:
    """Return the page of a comparison."""
    return render("comparison.html", _page(compared), script=False)


def compare(folders: Sequence[Path], task: Subject | None = None) -> Compared:
    """Read runs, put seeds together, and judge the claims.

    Args:
        folders: of the runs.
        task: the label that is compared; runs on two labels take part with what they say of it.

    Raises:
        DataError: a folder holds no run.
        ConfigError: the same folder twice, a run on two labels and no task, or one on another label than the task.
    """
    check_each_once(folders)
    runs = [read_run(folder) for folder in folders]
    arms = by_descent(arms_of_members([_member(run, task) for run in runs]))
    own = [member.run for arm in arms for member in arm.members]
    notes = [*_notes(arms), *_again(arms), *_differing(own)]
    return Compared(
        arms=arms,
        tested=_pooled(arms, Split.TEST, notes),
        greedy=_pooled(arms, Split.TEST_GREEDY, notes),
        offset=_pooled(arms, Split.TEST_OFFSET, notes),
        baselines=next((run.baselines for run in own if run.baselines), None),
        lost=lost_classes(arms),
        judged=judge_arms(arms),
        stood=standings(arms, BOOTSTRAP),
        notes=tuple(dict.fromkeys(notes)),
    )


def _member(run: Run, task: Subject | None) -> Member:
    """Return what a run says of the task; of its own, where none is named."""
    if run.config.kind is not Kind.JOINT:
        if task is not None and run.config.task.name != task.value:
            raise ConfigError(
                "a run on another label",
                field="DIR",
                value=str(run.folder),
                allowed=f"runs on {task.value}, or on both labels",
            )
        return Member(run=run, gathered=gather(run))
    if task is None:
        raise ConfigError(
            "a run on two labels is compared for one of them",
            field="DIR",
            value=str(run.folder),
            allowed=f"--task {' or '.join(Subject)}",
        )
    read = read_joint_run(run)
    view = next(each for each in read.tasks if each.name == task.value)
    told = replace(view.run, notes=read.unread)
    gathered = replace(view.gathered, failures=read.failures)
    return Member(run=told, gathered=gathered, two_labels=True)


def _pooled(arms: Sequence[Arm], split: Split, notes: list[str]) -> dict[str, Pooled]:
    found: dict[str, Pooled] = {}
    for arm in arms:
        try:
            one = pooled(arm, split)
        except DataError as error:
            notes.append(f"{error.what}.")
            continue
        if one is not None:
            found[arm.name] = one
    return found


def _notes(arms: Sequence[Arm]) -> list[str]:
    return [
        f"{arm.name}, seed {member.run.config.seed}: {note}"
        for arm in arms
        for member in arm.members
        for note in (
            *member.run.notes,
            *member.gathered.notes,
            *disagreements(member.run, member.gathered),
        )
    ]


def _again(arms: Sequence[Arm]) -> list[str]:
    """Say which runs are a seed once more, so that they do not count as another one."""
    told: list[str] = []
    for arm in arms:
        kept = [member.run.config.seed for member in arm.counted(Split.TEST)]
        for seed in sorted({seed for seed in kept if seed is not None}):
            there = [member.run for member in arm.members if member.run.config.seed == seed]
            if len(there) > 1:
                others = listed([run.folder.name for run in there[1:]])
                told.append(
                    f"{arm.name}: seed {seed} is there {len(there)} times, and counts once: not {others}."
                )
    return told


def _differing(runs: Sequence[Run]) -> list[str]:
    """Say what is not equal between runs that are compared."""
    found: list[str] = []
    for words, values in (
        ("slices", {run.config.data.fingerprint for run in runs}),
        ("base models", {run.config.model_name for run in runs}),
        ("tasks", {(run.config.task.name, run.labels) for run in runs}),
    ):
        if len(values) > 1:
            found.append(f"The runs have {len(values)} different {words}.")
            if words == "slices":
                found.append("The baselines are those of the first run's slice that has them.")
    return found


def _page(compared: Compared) -> ComparisonPage:
    arms = compared.arms
    labels = arms[0].labels
    same = tuple(arm for arm in arms if arm.labels == labels)
    tested = {arm.name: compared.tested[arm.name] for arm in same if arm.name in compared.tested}
    return ComparisonPage(
        title=f"Comparison of {counted(sum(len(arm.members) for arm in arms), 'run')}",
        names=listed([arm.name for arm in arms]),
        labels=tuple(MatrixLabel(name, class_slot(name, k)) for k, name in enumerate(labels)),
        facts=_facts(arms),
        story=compared.story,
        notes=compared.notes,
        claims=claims_table(compared.judged) if compared.judged else None,
        pairing=pairing([arm for arm in arms if arm.kind is Kind.RL]),
        ranking=ranking_svg(tested, compared.baselines),
        map=run_map(arms),
        snapshot=snapshot_table(
            [(arm.name, _systems(arm, compared)) for arm in same],
            compared.baselines,
            labels,
            "Selected checkpoints on the test split; mean over seeds, each above its 95 % interval over seeds and "
            "papers. With one seed the interval is about that one trained model.",
        ),
        views=arm_views(tested, labels),
        progress=progress_plates(arms),
        shares=share_plates(arms),
        informative=informative_plates(arms),
        lost=compared.lost,
        alarms=_alarms(arms),
        matrices=_matrices(same),
        runs=_runs(arms),
    )


def _facts(arms: Sequence[Arm]) -> tuple[tuple[str, str], ...]:
    runs = [member.run for arm in arms for member in arm.members]
    return (
        ("Runs", str(len(runs))),
        ("Experiments", str(len(arms))),
        ("Models", listed(sorted({run.config.model_name or "not stated" for run in runs}))),
        ("Tasks", listed(sorted({run.config.task.name or "not stated" for run in runs}))),
        ("Papers", listed(sorted({papers_words(run) for run in runs}))),
    )


def _systems(arm: Arm, compared: Compared) -> list[System]:
    found: list[System] = []
    for words, figures, split in (
        ("Sampled", compared.tested, Split.TEST),
        ("Greedy", compared.greedy, Split.TEST_GREEDY),
        ("With logit offsets", compared.offset, Split.TEST_OFFSET),
    ):
        one = figures.get(arm.name)
        if one is None and figures is compared.offset:
            continue
        measures = one.measures if one else {}
        what = (
            arm.seed_words(split)
            if one
            else f"{arm.seed_words()}; it has no answers to the test split"
        )
        found.append(
            System(
                name=words, what=what, num_items=one.num_items if one else None, measures=measures
            )
        )
    return found


def _alarms(arms: Sequence[Arm]) -> Table | None:
    rows = [
        TableRow(
            name=text(arm.name, f"seed {member.run.config.seed}"),
            cells=(
                text(alarm.message or f"{alarm.kind} {alarm.label or ''}".strip()),
                whole(alarm.step, "not stated"),
                number(alarm.value, "not stated"),
                number(alarm.threshold, "not stated"),
            ),
        )
        for arm in arms
        for member in arm.members
        for alarm in member.run.alarms
    ]
    if not rows:
        return None
    heads = (text("Run"), text("What was seen"), column("step"), column("value"), column("limit"))
    return Table(caption="", heads=heads, rows=tuple(rows))


def _matrices(arms: Sequence[Arm]) -> list[Matrix]:
    found: list[Matrix] = []
    for arm in arms:
        for split in (Split.TEST, Split.TEST_GREEDY):
            answers = arm.answers(split)
            if answers is not None:
                over = "" if answers.num_seeds == 1 else f", {answers.num_seeds} seeds together"
                caption = f"{arm.name}: {SPLIT_WORDS[split]}{over}"
                found.append(matrix(caption, arm.labels, answers.counts().sum(axis=0)))
    return found


def _runs(arms: Sequence[Arm]) -> Table:
    rows = [
        TableRow(
            name=text(arm.name, f"seed {member.run.config.seed}"),
            cells=(
                text(member.run.folder.name),
                text(f"{status_words(member.run)}, {steps_words(member.run)}"),
                text(_short(member.run.config.identity_sha256)),
                text(_short(_hash(member.run, "weights_sha256"))),
                text(_short(_hash(member.run, "rollouts_sha256"))),
                whole(sum(member.gathered.failures.values())),
            ),
        )
        for arm in arms
        for member in arm.members
    ]
    heads = ("Run", "Folder", "Status", "Identity", "Weights", "Rollouts")
    return Table(
        caption="The first 16 digits of each SHA-256; each run's own page has them whole.",
        heads=(*(text(head) for head in heads), column("failed rollouts")),
        rows=tuple(rows),
    )


def _hash(run: Run, name: str) -> str:
    return (run.manifest.hashes.get(name) or "") if run.manifest else ""


def _short(digest: str) -> str:
    return digest[:16] or "missing"
