"""The page of a run on two labels: how often both are right, and each label as on the page of a run on it alone."""

from __future__ import annotations

from tinsmith.reports.arms import Arm, Member
from tinsmith.reports.claim_tables import claims_block
from tinsmith.reports.curves import Chart
from tinsmith.reports.document import (
    Callout,
    Document,
    Heading,
    Pairs,
    Plate,
    Plates,
    Section,
    Story,
    kept,
    missing,
    note,
)
from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.joint_gathering import read_joint_run
from tinsmith.reports.joint_story import joint_story
from tinsmith.reports.joint_tables import (
    baselines_of,
    best_constant,
    both_table,
    models_of,
    prior_guess,
)
from tinsmith.reports.judging import judge_alone
from tinsmith.reports.matrices import confusion_blocks, evaluated_matrices
from tinsmith.reports.palette import INK, Mark, series_mark
from tinsmith.reports.run_details import alarms_table, failures_section, run_document
from tinsmith.reports.run_figures import class_plates, last_values, line, plate
from tinsmith.reports.run_map import papers_words
from tinsmith.reports.run_story import run_story
from tinsmith.reports.snapshot import model_systems, snapshot_blocks
from tinsmith.runs.run_records import Run
from tinsmith.tasks.label_reward import JointTerms

NEVER = "Missing: nothing was evaluated."


def joint_document(run: Run) -> Document:
    """Return the page of a run on two labels; the same folder, the same page."""
    read = read_joint_run(run)
    models, baselines = models_of(read), baselines_of(read)
    constant = best_constant(models[0].evaluation) if models else None
    table = both_table(models, baselines, constant, prior_guess(read))
    return run_document(
        run,
        kind="Report of one run on two labels",
        facts=_facts(run),
        story=joint_story(read, models, baselines, constant),
        notes=read.notes,
        alarms=None,
        sections=(
            Section("both", "Both labels", (table or missing(NEVER), Plates(_plates(run)))),
            *(_label(name, member) for name, member in read.tasks.items()),
            failures_section(failures_table(read.failures)),
        ),
    )


def _facts(run: Run) -> Pairs:
    config = run.config
    reward = str(config.reward.get("name", "without a name")) if config.reward else "none"
    return (
        ("Reward of either label", reward),
        ("Model", config.model_name or "not stated"),
        ("Task", f"both labels, prompt {config.task.prompt}, contract {config.task.contract}"),
        ("Papers", papers_words(run)),
    )


def _label(name: str, member: Member) -> Section:
    run, gathered = member.run, member.gathered
    arm = Arm(name=f"{run.config.title}, {name}", members=(member,))
    systems, judged = model_systems(run, gathered), judge_alone(arm)
    _, *story = run_story(run, systems, judged)  # what was asked stands at the top of the page
    alarms = alarms_table(run)
    return Section(
        name,
        name.capitalize(),
        kept(
            Story(story),
            alarms and Callout("Alarms of this label's collapse monitor", [alarms], alarm=True),
            *snapshot_blocks(run, systems),
            Heading("Claims"),
            note("The claims of one label are one family, corrected apart from the other label's."),
            claims_block(judged),
            Heading("Over the steps"),
            Plates(class_plates(run, f"{name}-")),
            Heading("Confusion"),
            *confusion_blocks(evaluated_matrices(gathered), NEVER),
        ),
    )


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
