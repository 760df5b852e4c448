"""The page of a run on two labels: how often both are right, and each task as on the page of a run on it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.reports.claim_tables import claims_table
from tinsmith.reports.curves import Chart
from tinsmith.reports.document import ClaimTable, Matrix, Plate
from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.joint_gathering import JointRun, TaskView, read_joint_run
from tinsmith.reports.joint_story import joint_story
from tinsmith.reports.joint_tables import (
    baselines_of,
    best_constant,
    both_table,
    models_of,
    prior_guess,
)
from tinsmith.reports.judging import judge_alone
from tinsmith.reports.matrices import matrix
from tinsmith.reports.page import render
from tinsmith.reports.palette import INK, Mark, series_mark
from tinsmith.reports.run_details import alarms_table, details
from tinsmith.reports.run_figures import class_plates, last_values, line, plate
from tinsmith.reports.run_map import KIND_WORDS, papers_words, status_words, steps_words
from tinsmith.reports.run_story import run_story
from tinsmith.reports.snapshot import lenient_words, model_systems, snapshot_table
from tinsmith.reports.tables import Table
from tinsmith.runs.run_records import SPLIT_WORDS, Run, Split
from tinsmith.tasks.label_reward import JointTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPart:
    """What the page says of one task."""

    name: str
    story: tuple[str, ...]
    alarms: Table | None
    snapshot: Table
    lenient: str
    claims: ClaimTable | None
    plates: Sequence[Plate]
    matrices: Sequence[Matrix]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPage:
    """What the template `joint.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    notes: tuple[str, ...]
    both: Table | None
    plates: Sequence[Plate]
    parts: tuple[TaskPart, ...]
    failures: Table | None
    pairs: Sequence[tuple[str, Sequence[tuple[str, str]]]]


def joint_html(run: Run) -> str:
    """Return the page of a run on two labels; the same folder, the same bytes."""
    return render("joint.html", _page(read_joint_run(run)), script=False)


def _page(read: JointRun) -> JointPage:
    run, models, baselines = read.run, models_of(read), baselines_of(read)
    constant = best_constant(models[0].evaluation) if models else None
    return JointPage(
        title=run.config.title,
        question=run.config.question,
        facts=_facts(run),
        story=joint_story(read, models, baselines, constant),
        notes=read.notes,
        both=both_table(models, baselines, constant, prior_guess(read)),
        plates=_plates(run),
        parts=tuple(_part(view) for view in read.tasks),
        failures=failures_table(read.failures),
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
        ("Reward of either label", reward),
        ("Model", config.model_name or "not stated"),
        ("Task", f"both labels, prompt {config.task.prompt}, contract {config.task.contract}"),
        ("Papers", papers_words(run)),
    )


def _part(view: TaskView) -> TaskPart:
    run, gathered = view.run, view.gathered
    systems, judged = model_systems(run, gathered), judge_alone(view.arm)
    _, *story = run_story(run, systems, judged)  # what was asked stands at the top of the page
    return TaskPart(
        name=view.name,
        story=tuple(story),
        alarms=alarms_table(run),
        snapshot=snapshot_table(
            [("This run", systems)],
            run.baselines,
            run.labels,
            "Each figure stands above its 95 % interval. Sampled: at the training temperature.",
        ),
        lenient=lenient_words(run),
        claims=claims_table(judged) if judged else None,
        plates=class_plates(run, f"{view.name}-"),
        matrices=_matrices(view),
    )


def _matrices(view: TaskView) -> list[Matrix]:
    tests = [split for split in (Split.TEST, Split.TEST_GREEDY) if view.gathered.last(split)]
    found: list[Matrix] = []
    for split in tests or (Split.EVAL, Split.EVAL_GREEDY):
        evaluation = view.gathered.last(split)
        if evaluation is not None:
            confusion, words = evaluation.confusion(), SPLIT_WORDS[split]
            caption = f"{words[0].upper()}{words[1:]}, {confusion.num_items:,} papers"
            found.append(matrix(caption, confusion.labels, confusion.counts))
    return found


def _plates(run: Run) -> list[Plate]:
    matches = [
        line(run, "eval/exact_match", "validation, sampled", series_mark(0)),
        line(run, "eval_greedy/exact_match", "validation, greedy", series_mark(1)),
        line(run, "train/exact_match", "training rollouts", series_mark(2)),
    ]
    rewards = [line(run, "train/reward/total", "total", Mark(INK, "-", "o"))]
    rewards += [
        line(run, f"train/reward/{name}", name, series_mark(place))
        for place, name in enumerate(JointTerms.names())
    ]
    return [
        plate(
            "Both labels right",
            "Share of answers.",
            Chart(
                name="both",
                label=f"Share of answers with both labels right over steps: {last_values(matches)}.",
                lines=matches,
                shares=True,
            ),
            "Missing: nothing was ever answered.",
        ),
        plate(
            "Reward by term",
            "Mean over the training rollouts of a step; of each label's term half is in the total.",
            Chart(
                name="rewards",
                label=f"Mean reward by term over steps: {last_values(rewards)}.",
                lines=rewards,
                unit="reward",
            ),
            "Missing: no step has a reward.",
        ),
    ]
