"""Tasks with rubrics as the matter of a run: the built-in ones or a file's, dealt out once, and who judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, model_minutes, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.model_pace import Lengths
from tinsmith.lab.judge.prices import load_prices
from tinsmith.lab.papers.estimate import CHARACTERS_PER_TOKEN
from tinsmith.lab.progress import Told
from tinsmith.lab.runs.files import LEDGER, TASKS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.watch import ResponseWatch
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.rubrics.base import RubricBaseRecipe, rubric_base
from tinsmith.studies.rubrics.builtin import BuiltinTasks, builtin_dataset
from tinsmith.studies.rubrics.dataset import RubricDataset, read_dataset
from tinsmith.studies.rubrics.frame import Asking, RubricFrame
from tinsmith.studies.rubrics.judge_choice import JUDGE_NAME, is_own, open_judge, require_judge
from tinsmith.studies.rubrics.judged_tasks import Asked, JudgedTasks, Judgement
from tinsmith.studies.rubrics.judging_cost import cost_lines, ledger_line
from tinsmith.studies.rubrics.records import write_tasks
from tinsmith.studies.rubrics.settings_record import asking_circumstances
from tinsmith.studies.rubrics.splitting import RubricSplit, split_tasks
from tinsmith.studies.rubrics.task import RubricTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BUILTIN: Final[Mapping[str, BuiltinTasks]] = MappingProxyType(
    {
        "nano": BuiltinTasks.FEW_WORDS,
        "small": BuiltinTasks.EVERYDAY,
        "seed": BuiltinTasks.FEW_WORDS,
    }
)
"""The tasks that a place asks where no file is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricMatter:
    """See Matter; its methods are described there."""

    plan: Plan
    frame: RubricFrame
    asking: Asking
    dataset: RubricDataset
    split: RubricSplit

    def identity(self) -> Mapping[str, object]:
        """See Matter; where a file lies does not matter, and how often a call is tried neither."""
        return {"data": {"sha256": self.split.sha256, "rows": self._rows()}}

    def config(self) -> Mapping[str, object]:
        """See Matter."""
        return {
            "task": {"name": "rubrics"},
            "reward": {"name": "rubrics", "judge": self.frame.judge_model},
            "data": {"fingerprint": self.split.sha256, **self._rows()},
        }

    def _rows(self) -> dict[str, int]:
        both = (*self.split.train, *self.split.test)
        return {
            "train": len(self.split.train),
            "test": len(self.split.test),
            "rubrics": sum(len(task.rubrics) for task in both),
        }

    def circumstances(self) -> Mapping[str, object]:
        """See Matter."""
        return {
            **asking_circumstances(self.asking),
            "control_characters": self.dataset.control_characters,
            "without_rubrics": self.dataset.without_rubrics,
        }

    def nano_base(self, told: Told) -> Path:
        """See Matter."""
        return rubric_base(RubricBaseRecipe(), told)

    def models(self) -> Mapping[str, str]:
        """Return the judge where it is a model of this machine: the run's own server serves it too."""
        if not is_own(self.plan, self.frame, self.asking):
            return {}
        return {JUDGE_NAME: self.frame.judge_model}

    def before(self) -> Sequence[str]:
        """Return what was read, and what judging will take."""
        read = f"{len(self.dataset.tasks)} tasks, {self.dataset.rubric_count} rubrics"
        mended = self.dataset.control_characters, self.dataset.without_rubrics
        if any(mended):
            read += f"; {mended[0]} raw control characters kept, {mended[1]} records without rubrics left out"
        return [read, *cost_lines(self.plan, self.frame, self.asking, self.split)]

    def begin(self, folder: RunFolder) -> None:
        """See Matter; a report shows the prompts, and says by their texts which rubrics hold."""
        write_tasks(self.split, folder.path / TASKS)

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[RubricTask, Judgement]:
        """See Matter."""
        prices = load_prices(self.asking.prices)

        def paid(asked: Asked) -> None:
            line = ledger_line(asked, prices.dollars(self.frame.judge_model, asked.spent))
            folder.append(LEDGER, [line])

        subject = JudgedTasks(
            split=self.split,
            renderer=renderer_for(tokenizer),
            judge=open_judge(self.plan, self.frame, self.asking, connection),
            paid=paid,
        )
        return Course(
            subject=subject,
            settings=self.plan.settings,
            watch=ResponseWatch(),
            samples=self.frame.eval_samples,
        )


def rubric_matter(plan: Plan) -> RubricMatter:
    """Read the tasks that a plan names, and deal them out.

    Raises:
        ConfigError: there is no such file, or the judge cannot judge what is in it.
        DataError: the file cannot be read.
    """
    frame, asking = plan.frame, plan.asking
    assert isinstance(frame, RubricFrame)
    assert isinstance(asking, Asking)
    path = asking.data_path
    dataset = builtin_dataset(BUILTIN[frame.at.value]) if path is None else read_dataset(path)
    require_judge(plan, frame, asking, dataset)
    load_prices(asking.prices)  # what it refuses is told before anything is built
    split = split_tasks(dataset.tasks, train_ratio=frame.train_ratio, data_seed=frame.data_seed)
    return RubricMatter(plan=plan, frame=frame, asking=asking, dataset=dataset, split=split)


_TEMPLATE_TOKENS, _ANSWERED = 35, 0.7
"""What a chat template adds to an instruction, and the share of max_tokens that an answer to one takes."""


def rubric_forecast(plan: Plan) -> list[str]:
    """Return what a run on rubrics would take: its tasks, the judge's calls and their price, the time.

    Raises:
        ConfigError, DataError: the tasks or the judge cannot be had.
    """
    matter = rubric_matter(plan)
    split, frame = matter.split, matter.frame
    tasks = (*split.train, *split.test)
    characters = sum(len(task.prompt) for task in tasks) / len(tasks)
    lengths = Lengths(
        prompt=_TEMPLATE_TOKENS + characters / CHARACTERS_PER_TOKEN[frame.at],
        answer=_ANSWERED * plan.settings.max_tokens,
        examined=min(plan.settings.eval_items, len(split.test or split.train)),
        eval_samples=frame.eval_samples,
    )
    taken = model_minutes(plan, lengths)
    time = [] if taken is None else [f"time: {time_and_disk(taken, RUN_MEGABYTES)}"]
    return [*matter.before(), *time]
