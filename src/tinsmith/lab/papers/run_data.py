"""Papers with labels as the data of a run: a slice, or papers that Python handed over."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.slices.reader import Slice
from tinsmith.lab.course import Course, Tested
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers
from tinsmith.lab.labels.rewards import make_label_reward
from tinsmith.lab.labels.scores import LabelGradient, tested_with_offset
from tinsmith.lab.labels.watch import LabelWatch
from tinsmith.lab.papers.compute_spent import LabelCourse
from tinsmith.lab.papers.estimate import best_policy_lines, minutes
from tinsmith.lab.papers.labels import on_papers, task_asked
from tinsmith.lab.papers.worlds import PaperBaseRecipe, nano_base, papers_of, slice_identity
from tinsmith.lab.runs.files import BASELINES
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import CommonSettings, Gradient, RlSettings, SftSettings
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    import tinker
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperData:
    """Papers of a run, and what the files of its folder say of them."""

    plan: Plan
    papers: Papers
    data: Mapping[str, object]  # Which papers these are, wherever they lie; `sha256` is over all of them.
    source: Slice | None  # Where the papers are from, with its baselines; None: they were handed over.
    base: Path | None = None  # A nano base that reads these papers well enough; None: the one of their own.

    def identity(self) -> Mapping[str, object]:
        """Return what decides results, beside the plan's own keys; `data` says which data these are."""
        return {"prompt_sha256": task_asked(self.plan).prompt_sha256, "data": dict(self.data)}

    def config(self) -> Mapping[str, object]:
        """Return what `config.json` says of it: `task`, `reward`, `data`."""
        asked, rewards = on_papers(self.plan), self.plan.reward_settings
        task = asked.asked
        return {
            "task": {
                "name": task.name,
                "labels": list(task.labels),
                "prompt": task.prompt,
                "contract": task.contract.name,
                "with_metadata": task.with_metadata,
                "shuffle_labels": asked.shuffle_labels,
                **({"prompt_lines": list(task.prompt_lines)} if task.prompt_lines else {}),
            },
            "reward": None if self.plan.frame.kind is Kind.SFT else {"name": asked.reward, **rewards},
            "data": {
                "fingerprint": self.data["sha256"],
                "train": len(self.papers.train),
                "validation": len(self.papers.validation),
                "test": len(self.papers.test),
            },
        }

    def circumstances(self) -> Mapping[str, object]:
        """Return where it was found."""
        where, source = self.plan.circumstances.data, self.source
        return {
            "data": None if where is None else str(where.absolute()),
            "data_folder": None if source is None else str(source.folder.absolute()),
        }

    def nano_base(self, say: Say) -> Path:
        """Return the small base. It reads papers and no labels: one serves a control with shuffled ones too.

        Nor does it read lines that a search put before them.
        """
        if self.base is not None:
            return self.base
        task = replace(task_asked(self.plan), prompt_lines=())
        return nano_base(PaperBaseRecipe(), task, self.papers, say)

    def models(self) -> Mapping[str, str]:
        """Return what an embedded server serves beside the model that is trained: nothing."""
        return {}

    def before(self) -> Sequence[str]:
        """Return what naming the commonest pair of labels would get, and what the reward makes optimal."""
        lines: list[str] = []
        if len(task_asked(self.plan).subjects) > 1:
            papers, pairs = len(self.papers.train), Counter(item.golds for item in self.papers.train)
            pair, count = max(pairs.items(), key=lambda each: (each[1], each[0]))
            has = f"the commonest pair, {' and '.join(pair)}, has {count / papers:.3f} of them"
            lines.append(f"{papers} training papers with both labels; {has}")
        return lines if self.source is None else lines + best_policy_lines(self.plan, self.source)

    def begin(self, folder: RunFolder) -> None:
        """Copy the slice's baselines, and what they answer."""
        for name in (BASELINE_ANSWERS, BASELINES):
            if self.source is not None and (file := self.source.folder / name).exists():
                fresh = folder.path / f".{name}.new"
                shutil.copyfile(file, fresh)
                os.replace(fresh, folder.path / name)

    def course(self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection) -> LabelCourse:
        """Return how it is trained on."""
        del folder, connection
        plan, task = self.plan, task_asked(self.plan)
        named = plan.entry.named_reward
        study = LabelledPapers(
            task=task,
            papers=self.papers,
            renderer=renderer_for(tokenizer),
            tokenizer=tokenizer,
            reward=make_label_reward(on_papers(plan).reward, task, **plan.reward_settings) if named else None,
        )
        return label_course(study, plan.settings)

    def minutes(self) -> float | None:
        """Return how long the run takes on two cores; None: nothing is known of the model."""
        return minutes(self.plan)


def data_of(plan: Plan, source: Slice) -> PaperData:
    """Return a slice's papers, labelled for the plan's task."""
    return PaperData(
        plan=plan,
        papers=papers_of(source, task_asked(plan), shuffle_seed=shuffle_seed(plan)),
        data=slice_identity(source),
        source=source,
    )


def shuffle_seed(plan: Plan) -> int | None:
    """Return the seed to shuffle a plan's training labels with; None: they stay where they are."""
    return plan.settings.seed if on_papers(plan).shuffle_labels else None


def label_course(study: LabelledPapers, settings: CommonSettings) -> LabelCourse:
    """Return how a run trains on papers, and tests the chosen policy and the last one."""

    def exact() -> LabelGradient:
        assert isinstance(settings, RlSettings)
        assert study.reward is not None, "nothing is rewarded"
        (reward,) = study.reward.rewards  # both labels in one answer have no exact gradient
        return LabelGradient(study=study, paid=reward.per_label(), group_size=settings.group_size)

    def with_offset(chosen: tinker.SamplingClient, step: int) -> Tested:
        validation = subset(study.papers.validation, settings.eval_items)
        return tested_with_offset(chosen, study, validation, subset(study.papers.test, settings.test_items), step)

    computed = isinstance(settings, RlSettings) and settings.gradient is Gradient.EXACT
    offset = isinstance(settings, SftSettings) and settings.logit_offset
    return Course(
        subject=study,
        settings=settings,
        watch=LabelWatch(study, settings.select_by),
        exact=exact if computed else None,
        tests_last=True,
        also_tested=with_offset if offset else None,
    )
