"""The page of a run on two labels: how often both are right, and each label as on the page of a run on it alone."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.results.arms import Arm, Member
from tinsmith.lab.results.claim_tables import claim_blocks
from tinsmith.lab.results.drawn_metrics import Drawn, drawn_plates
from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.judging import judge_alone
from tinsmith.lab.results.matrices import confusion_blocks, evaluated_matrices
from tinsmith.lab.results.run_details import alarms_table, failures_section, run_document
from tinsmith.lab.results.run_figures import class_plates
from tinsmith.lab.results.run_map import papers_words
from tinsmith.lab.results.run_story import run_story
from tinsmith.lab.results.snapshot import model_systems, snapshot_blocks
from tinsmith.lab.rewards.label_reward import JointTerms
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Callout, Document, Heading, Pairs, Plates, Section, Story, kept, missing, note
from tinsmith.studies.disruption.joint.gathering import read_joint_run
from tinsmith.studies.disruption.joint.story import joint_story
from tinsmith.studies.disruption.joint.tables import baselines_of, best_constant, both_table, models_of, prior_guess

NEVER = "Missing: nothing was evaluated."


_DRAWN: Final = (
    Drawn(
        name="both",
        title="Both labels right",
        note="Share of answers.",
        told="Share of answers with both labels right",
        lines=(
            ("eval/exact_match", "validation, sampled"),
            ("eval_greedy/exact_match", "validation, greedy"),
            ("train/exact_match", "training rollouts"),
        ),
        marks=(0, 1, 2),
        shares=True,
        missing="Missing: nothing was ever answered.",
    ),
    Drawn(
        name="rewards",
        title="Reward by term",
        note="Mean over the training rollouts of a step; of each label's term half is in the total.",
        told="Mean reward by term",
        lines=(("train/reward/total", "total"), *((f"train/reward/{name}", name) for name in JointTerms.names())),
        marks=(None, *range(len(JointTerms.names()))),
        unit="reward",
        missing="Missing: no step has a reward.",
    ),
)


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
            Section("both", "Both labels", (table or missing(NEVER), Plates(drawn_plates(run, _DRAWN)))),
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
            *claim_blocks(judged),
            Heading("Over the steps"),
            Plates(class_plates(run, f"{name}-")),
            Heading("Confusion"),
            *confusion_blocks(evaluated_matrices(gathered), NEVER),
        ),
    )
