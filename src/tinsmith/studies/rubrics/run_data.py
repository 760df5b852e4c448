"""Tasks with rubrics as the data of a run: the built-in ones or a file's, dealt out once, and who judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, model_minutes, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.model_pace import Lengths
from tinsmith.lab.judge.prices import load_prices
from tinsmith.lab.live.progress import Say
from tinsmith.lab.live.watch import ResponseWatch
from tinsmith.lab.papers.estimate import CHARACTERS_PER_TOKEN
from tinsmith.lab.runs.files import LEDGER, TASKS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.pages.wording import counted
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.rubrics.base import RubricBaseRecipe, rubric_base
from tinsmith.studies.rubrics.dataset import BuiltinTasks, RubricDataset, builtin_dataset, read_dataset
from tinsmith.studies.rubrics.frame import Asking, RubricFrame, asking_circumstances, parts_of
from tinsmith.studies.rubrics.judge_choice import JUDGE_NAME, is_own, open_judge, require_judge
from tinsmith.studies.rubrics.judged_tasks import Asked, JudgedTasks, Judgement
from tinsmith.studies.rubrics.records import write_tasks
from tinsmith.studies.rubrics.splitting import RubricSplit, split_tasks
from tinsmith.studies.rubrics.task import RubricTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


from tinsmith.lab.judge.prices import estimate_spent, shown
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.lab.settings import RlSettings
from tinsmith.studies.rubrics.records import RULES

BUILTIN: Final[Mapping[str, BuiltinTasks]] = {
    "nano": BuiltinTasks.FEW_WORDS,
    "small": BuiltinTasks.EVERYDAY,
    "seed": BuiltinTasks.FEW_WORDS,
}
"""The tasks that a place asks where no file is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricData:
    """See RunData; its methods are described there."""

    plan: Plan
    dataset: RubricDataset
    split: RubricSplit

    @property
    def frame(self) -> RubricFrame:
        """Its keys."""
        return parts_of(self.plan)[0]

    @property
    def asking(self) -> Asking:
        """How its judge is asked."""
        return parts_of(self.plan)[1]

    def identity(self) -> Mapping[str, object]:
        """See RunData; where a file lies does not matter, and how often a call is tried neither."""
        return {"data": {"sha256": self.split.sha256, "rows": self._rows()}}

    def config(self) -> Mapping[str, object]:
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
        return {
            **asking_circumstances(self.asking),
            "control_characters": self.dataset.control_characters,
            "without_rubrics": self.dataset.without_rubrics,
        }

    def nano_base(self, say: Say) -> Path:
        return rubric_base(RubricBaseRecipe(), say)

    def models(self) -> Mapping[str, str]:
        """Return the judge where it is a model of this machine: the run's own server serves it too."""
        if not is_own(self.plan):
            return {}
        return {JUDGE_NAME: self.frame.judge_model}

    def before(self) -> Sequence[str]:
        """Return what was read, and what judging will take."""
        read = f"{len(self.dataset.tasks)} tasks, {self.dataset.rubric_count} rubrics"
        mended = self.dataset.control_characters, self.dataset.without_rubrics
        if any(mended):
            read += f"; {mended[0]} raw control characters kept, {mended[1]} records without rubrics left out"
        return [read, *weight_lines(self.dataset), *cost_lines(self.plan, self.split)]

    def begin(self, folder: RunFolder) -> None:
        """See RunData; a report shows the prompts, and says by their texts which rubrics hold."""
        write_tasks(self.split, folder.path / TASKS)

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[RubricTask, Judgement]:
        prices = load_prices(self.asking.prices)

        def paid(asked: Asked) -> None:
            line = ledger_line(asked, prices.dollars(self.frame.judge_model, asked.spent))
            folder.append(LEDGER, [line])

        subject = JudgedTasks(
            split=self.split, renderer=renderer_for(tokenizer), judge=open_judge(self.plan, connection), paid=paid
        )
        return Course(
            subject=subject, settings=self.plan.settings, watch=ResponseWatch(), samples=self.frame.eval_samples
        )


def rubric_data(plan: Plan) -> RubricData:
    """Read the tasks that a plan names, and deal them out."""
    frame, asking = parts_of(plan)
    path = asking.data_path
    dataset = builtin_dataset(BUILTIN[frame.at.value]) if path is None else read_dataset(path)
    require_judge(plan, dataset)
    load_prices(asking.prices)  # what it refuses is told before anything is built
    split = split_tasks(dataset.tasks, train_ratio=frame.train_ratio, data_seed=frame.data_seed)
    return RubricData(plan=plan, dataset=dataset, split=split)


_TEMPLATE_TOKENS, _ANSWERED = 35, 0.7
"""What a chat template adds to an instruction, and the share of max_tokens that an answer to one takes."""


def rubric_forecast(plan: Plan) -> list[str]:
    """Return what a run on rubrics would take: its tasks, the judge's calls and their price, the time."""
    run_data = rubric_data(plan)
    split, frame = run_data.split, run_data.frame
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
    return [*run_data.before(), *time]


def weight_lines(dataset: RubricDataset) -> list[str]:
    """Return how weights enter the reward, where they do."""
    weighted = [task for task in dataset.tasks if task.is_weighted]
    if not weighted:
        return []
    negative = sum(weight < 0 for task in weighted for weight in task.weights)
    penalties = f"; {counted(negative, 'rubric')} with a negative weight lower it" if negative else ""
    return [
        f"{counted(len(weighted), 'task')} with unequal weights: the reward is the weight of what holds over the "
        f"sum of the positive weights, clipped to 0 to 1{penalties}"
    ]


def cost_lines(plan: Plan, split: RubricSplit) -> list[str]:
    """Return calls, tokens and money of a whole run, for a person."""
    frame, asking = parts_of(plan)
    trained, examined = responses(plan, split)
    total = trained + examined
    told = f"{total:,} responses to judge: {trained:,} in training, {examined:,} in evaluations"
    if frame.judge_model == RULES:
        return [f"{told}; rules judge them: no calls, no cost"]
    spent = _spent(plan, split.train, trained) + _spent(plan, split.test or split.train, examined)
    dollars = load_prices(asking.prices).dollars(frame.judge_model, spent)
    return [
        told,
        f"about {spent.calls:,} calls of {frame.judge_model}, {spent.prompt_tokens / 1e6:.2f} M tokens read, "
        f"{spent.completion_tokens / 1e6:.2f} M written: {shown(dollars)} "
        "(prices are in a table that prices=FILE replaces; what is in the cache is free)",
    ]


def responses(plan: Plan, split: RubricSplit) -> tuple[int, int]:
    """Return how many responses a whole run has judged: in training and in examinations."""
    settings = plan.settings
    assert isinstance(settings, RlSettings)
    samples = parts_of(plan)[0].eval_samples + 1
    trained = settings.steps * settings.groups_per_batch * settings.group_size
    held_out = min(len(split.test) or len(split.train), settings.eval_items)
    before = -(-settings.steps // settings.eval_every) if settings.eval_every else 0
    return trained, (before + 1) * held_out * samples


def _spent(plan: Plan, tasks: Sequence[RubricTask], count: int) -> Spent:
    """Estimate `count` judgings spread evenly over tasks; every response is taken to be as long as it may be."""
    once = estimate_spent(
        (JudgeRequest(task=one.prompt, response="", criteria=one.criteria) for one in tasks),
        response_tokens=plan.settings.max_tokens,
    )
    share = count / len(tasks)
    return Spent(
        calls=count,
        prompt_tokens=round(once.prompt_tokens * share),
        completion_tokens=round(once.completion_tokens * share),
        estimated=True,
    )


def ledger_line(asked: Asked, dollars: float | None) -> dict[str, object]:
    """Return what one asking took, as LedgerRecord; `dollars` is None where the price is not known."""
    counts = {"judged": asked.judged, "failed": asked.failed, "from_cache": asked.from_cache}
    return {**counts, **asdict(asked.spent), "dollars": dollars}
