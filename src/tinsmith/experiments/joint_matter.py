"""Papers with both labels as the matter of a run: a slice cut for both, and the answers that name both at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tinsmith.data.slice_reader import Slice
from tinsmith.data.splits import Split
from tinsmith.experiments.base_model import cached_base
from tinsmith.experiments.forecast import forecast_of
from tinsmith.experiments.joint_frame import JointFrame
from tinsmith.experiments.paper_base import PaperBaseRecipe, joint_conversations
from tinsmith.experiments.paper_matter import copy_baselines, named_slice
from tinsmith.experiments.plan import Plan
from tinsmith.experiments.worlds import JOINT_WORLD, Told, shuffled_places, slice_identity
from tinsmith.renderers.choose import renderer_for
from tinsmith.runs.run_folder import RunFolder
from tinsmith.tasks.joint import JointItem, JointTask, joint_items_of
from tinsmith.tasks.joint_rewards import make_joint_reward
from tinsmith.training.connect import Connection
from tinsmith.training.joint_course import JointCourse
from tinsmith.training.joint_ground import JointGround, JointPapers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMatter:
    """See Matter; its methods are described there."""

    plan: Plan
    frame: JointFrame
    task: JointTask
    papers: JointPapers
    source: Slice

    def identity(self) -> Mapping[str, object]:
        """See Matter."""
        return {"prompt_sha256": self.task.prompt_sha256, "data": slice_identity(self.source)}

    def config(self) -> Mapping[str, object]:
        """See Matter."""
        task, rewards = self.task, self.plan.reward_settings
        return {
            "task": {
                "name": task.name,
                "labels": [label for subject in task.subjects for label in subject.labels],
                "prompt": task.prompt,
                "contract": task.contract.name,
                "with_metadata": task.with_metadata,
                "shuffle_labels": self.frame.shuffle_labels,
            },
            "reward": {"name": self.frame.reward, **rewards},
            "data": {
                "fingerprint": self.source.card.sha256,
                "train": len(self.papers.train),
                "validation": len(self.papers.validation),
                "test": len(self.papers.test),
            },
        }

    def circumstances(self) -> Mapping[str, object]:
        """See Matter."""
        where = self.plan.circumstances.data
        return {
            "data": None if where is None else str(where.absolute()),
            "data_folder": str(self.source.folder.absolute()),
        }

    def nano_base(self, told: Told) -> Path:
        """See Matter. It reads papers and neither label: a control with shuffled ones has the same base."""
        recipe = PaperBaseRecipe()
        return cached_base(recipe, joint_conversations(recipe, self.task, self.papers.train), told)

    def models(self) -> Mapping[str, str]:
        """See Matter."""
        return {}

    def before(self) -> Sequence[str]:
        """Return what naming the commonest pair would get, and what the reward makes optimal for either label."""
        pairs = Counter(item.golds for item in self.papers.train)
        pair, count = max(pairs.items(), key=lambda each: (each[1], each[0]))
        lines = [
            f"{len(self.papers.train)} training papers with both labels; the commonest pair, {' and '.join(pair)}, "
            f"has {count / len(self.papers.train):.3f} of them"
        ]
        for task in self.task.tasks:
            asked = replace(task, with_metadata=self.frame.with_metadata)
            told = forecast_of(asked, self.frame.reward, self.plan.reward_settings, self.source)
            lines += [f"{task.name}: {line}" for line in told]
        return lines

    def begin(self, folder: RunFolder) -> None:
        """Copy the slice's baselines, which are there for either label."""
        copy_baselines(self.source, folder)

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> JointCourse:
        """See Matter."""
        del folder, connection
        return JointCourse(
            ground=JointGround(
                task=self.task, renderer=renderer_for(tokenizer), tokenizer=tokenizer
            ),
            papers=self.papers,
            settings=self.plan.settings,
            reward=make_joint_reward(self.frame.reward, self.task, **self.plan.reward_settings),
        )


def joint_matter(plan: Plan, frame: JointFrame, told: Told) -> JointMatter:
    """Find or build the slice that a plan names; where it names none, that of the synthetic world, cut for both labels.

    Raises:
        DataError: it cannot be used, or a paper of it lacks a label.
    """
    source = named_slice(plan, told, JOINT_WORLD)
    task = frame.asked()
    items = {split: joint_items_of(source.rows(split), task) for split in Split}
    train = items[Split.TRAIN]
    if frame.shuffle_labels:
        places = shuffled_places(len(train), plan.settings.seed)
        train = [
            _with_labels_of(item, train[place]) for item, place in zip(train, places, strict=True)
        ]
    papers = JointPapers(train=train, validation=items[Split.VALIDATION], test=items[Split.TEST])
    return JointMatter(plan=plan, frame=frame, task=task, papers=papers, source=source)


def _with_labels_of(item: JointItem, other: JointItem) -> JointItem:
    """Both labels move together: what one tells of the other stays as it was."""
    return replace(item, golds=other.golds)
