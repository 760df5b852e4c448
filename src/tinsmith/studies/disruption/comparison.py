"""The page of a comparison: runs side by side, seeds together, and the claims with the reason for each verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.baselines.report import TargetReport
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.results.arms import Arm, Member, arms_of_members
from tinsmith.lab.results.claim_tables import claim_blocks
from tinsmith.lab.results.comparison_figures import (
    arm_views,
    informative_plates,
    progress_plates,
    ranking_svg,
    share_plates,
)
from tinsmith.lab.results.gathering import disagreements, gather
from tinsmith.lab.results.judging import BOOTSTRAP, Judged, judge_arms, pairing
from tinsmith.lab.results.matrices import confusion_blocks, matrix
from tinsmith.lab.results.pooled import Pooled, pooled
from tinsmith.lab.results.run_map import by_descent, papers_words, run_map, status_words, steps_words
from tinsmith.lab.results.snapshot import System, snapshot_table
from tinsmith.lab.results.standings import Standing, standings
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import SPLIT_WORDS, Run, Split
from tinsmith.pages.document import (
    Block,
    Document,
    Fold,
    Heading,
    Label,
    Legend,
    Matrix,
    Pairs,
    Plates,
    Section,
    Size,
    Story,
    Words,
    drawn,
    kept,
    missing,
    note,
    summary,
)
from tinsmith.pages.palette import class_slot
from tinsmith.pages.tables import Table, TableRow, column, number, text, whole
from tinsmith.pages.wording import counted, listed
from tinsmith.stats.gate.claim import ClaimKind
from tinsmith.studies.disruption.headline import headline
from tinsmith.studies.disruption.joint.gathering import label_alone
from tinsmith.studies.disruption.lost_classes import LostClass, lost_classes, lost_table
from tinsmith.studies.disruption.story import comparison_story
from tinsmith.types.errors import ConfigError, DataError


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
        return comparison_story(self.arms, self.tested, self.baselines, self.lost, self.judged, self.stood)

    @property
    def headline(self) -> tuple[str, ...]:
        """What happened, in plain sentences."""
        return headline(self.arms, self.tested, self.baselines, self.lost, self.stood)


def compare_labels(folders: Sequence[Path], task: Subject | None = None) -> Compared:
    """Read runs, put seeds together, and judge the claims.

    Args:
        folders: of the runs.
        task: the label that is compared; runs on two labels take part with what they say of it.

    Raises:
        DataError: a folder holds no run.
        ConfigError: a run on two labels and no task, or one on another label than the task.
    """
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
    return label_alone(run, task)


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
        for note in (*member.run.notes, *member.gathered.notes, *disagreements(member.run, member.gathered))
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
                told.append(f"{arm.name}: seed {seed} is there {len(there)} times, and counts once: not {others}.")
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


def comparison_document(compared: Compared) -> Document:
    """Return the page of runs on the labels of papers."""
    arms = compared.arms
    labels = arms[0].labels
    same = tuple(arm for arm in arms if arm.labels == labels)
    tested = {arm.name: compared.tested[arm.name] for arm in same if arm.name in compared.tested}
    untested = "Missing: no run has answers to the test split."
    return Document(
        kind="Report of several runs",
        title=f"Comparison of {counted(sum(len(arm.members) for arm in arms), 'run')}",
        question=listed([arm.name for arm in arms]),
        facts=_facts(arms),
        sections=(
            summary(
                compared.headline,
                *_collapse_at_a_glance(arms),
                Fold("The same in figures, and which claims hold", [Story(compared.story)]),
                drawn(ranking_svg(tested, compared.baselines), untested),
                notes=compared.notes,
            ),
            Section("claims", "Claims", _claims(compared)),
            Section("map", "Run map", [run_map(arms)]),
            Section("snapshot", "Evaluation snapshot", [_snapshot(compared, same)], "Snapshot"),
            Section(
                "views",
                "Three views",
                (
                    Words(
                        "Is the contract kept, are the classes in balance, how often is an answer invalid: selected "
                        "checkpoints, sampled, on the test split. Bars are 95\u00a0% intervals."
                    ),
                    drawn(arm_views(tested, labels), untested),
                ),
            ),
            Section("steps", "Over the steps", _steps(arms)),
            Section("lost", "Lost classes", _lost(compared)),
            Section("confusion", "Confusion", confusion_blocks(_matrices(same), untested, "answers")),
            Section("runs", "Runs", [_runs(arms)]),
        ),
    )


def _collapse_at_a_glance(arms: Sequence[Arm]) -> tuple[Block, ...]:
    labels = [Label(name, class_slot(name, k)) for k, name in enumerate(arms[0].labels)]
    return (
        Heading("Share of each answer over the steps"),
        Legend(labels),
        Plates(share_plates(arms), Size.SMALL),
        note(
            "Validation split, sampled. The horizontal line is the limit above which an alarm is raised; red dotted "
            "lines are those alarms, of the first seed."
        ),
    )


def _claims(compared: Compared) -> tuple[Block, ...]:
    words = (
        "Whether it beats another is asked of every RL run, held against its parent and every SFT run; whether it "
        "learned something is asked of every RL run by itself. Missing evidence refuses a claim as a failed check "
        "does. "
    )
    empty = {
        ClaimKind.BEATS: "No claim is judged: that takes an RL run and its parent or an SFT run.",
        ClaimKind.LEARNED: "No claim is judged: that takes an RL run.",
    }
    by_rl = pairing([arm for arm in compared.arms if arm.kind is Kind.RL])
    return Words(words + by_rl), *claim_blocks(compared.judged, empty=empty)


def _snapshot(compared: Compared, arms: Sequence[Arm]) -> Table:
    return snapshot_table(
        [(arm.name, _systems(arm, compared)) for arm in arms],
        compared.baselines,
        arms[0].labels,
        "Selected checkpoints on the test split; mean over seeds, each above its 95 % interval over seeds and "
        "papers. With one seed the interval is about that one trained model.",
    )


def _steps(arms: Sequence[Arm]) -> tuple[Block, ...]:
    labels = [Label(name, class_slot(name, k)) for k, name in enumerate(arms[0].labels)]
    informative = informative_plates(arms)
    return kept(
        Plates(progress_plates(arms)),
        Heading("Informative groups by class"),
        note("Share of the groups whose rewards differ; a class without any teaches nothing more."),
        Legend(labels, invalid=False) if informative else None,
        Plates(informative, Size.SMALL) if informative else missing("Missing: there is no RL run."),
    )


def _lost(compared: Compared) -> tuple[Block, ...]:
    return (
        note(
            "A class whose recall is below the collapse monitor's limit at the end of training. The analyser computes "
            "what the reward makes optimal on the greedy answers of the SFT run; the control trains on the exact "
            "gradient of the same reward."
        ),
        lost_table(compared.lost) or Words("No RL run ends with a class below the limit."),
        Heading("Alarms"),
        _alarms(compared.arms) or Words("No alarm was raised."),
    )


def _facts(arms: Sequence[Arm]) -> Pairs:
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
        what = arm.seed_words(split) if one else f"{arm.seed_words()}; it has no answers to the test split"
        found.append(System(name=words, what=what, num_items=one.num_items if one else None, measures=measures))
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
