"""RL with verifiable rubrics: instructions, and a judge that says which criteria of its rubric a response fulfils.

    tinsmith run rlvr [at=small] [data_path=tasks.json judge_model=gpt-5-mini] [key=value ...]

The share of criteria that hold, or the score of a rubric's weights or tree where the data give one, is the reward.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.lab.user_task.judged import judged
from tinsmith.lab.user_task.task import Base, Task, Value
from tinsmith.pages.wording import counted
from tinsmith.studies.rubrics.base import RubricBaseRecipe, rubric_conversations
from tinsmith.studies.rubrics.dataset import BuiltinTasks, RubricDataset, builtin_dataset, read_dataset
from tinsmith.studies.rubrics.splitting import split_tasks

_TRAIN: Final = {"nano": 0.75, "small": 0.67}
"""Share of the tasks to train on by size; 0.9 at others."""
_KEYS: Final[dict[str, dict[str, Value]]] = {
    "nano": {
        "steps": 120, "learning_rate": 6e-4, "lora_rank": 16, "group_size": 8, "groups_per_batch": 8, "max_tokens": 32,
        "eval_samples": 8, "eval_items": 256, "eval_every": 40, "save_every": 40,
    },
    "small": {
        "steps": 60, "learning_rate": 3e-4, "lora_rank": 16, "group_size": 8, "groups_per_batch": 16,
        "grad_clip_norm": 1.0, "max_tokens": 40, "eval_samples": 2, "eval_items": 100, "eval_every": 20,
        "save_every": 20, "watch_forgetting": False,
    },
    "seed": {
        "steps": 31, "learning_rate": 4e-5, "lora_rank": 32, "group_size": 8, "groups_per_batch": 32,
        "max_tokens": 2048, "judge_model": "gpt-5-mini", "model_name": "meta-llama/Llama-3.1-8B", "eval_samples": 1,
        "eval_items": 256, "eval_every": 10, "save_every": 20, "watch_forgetting": False,
    },
}  # fmt: skip
"""By size; those of `at=seed` are the table of the recipe, whose 31 batches see 900 tasks about once."""


def rlvr(at: str = "nano", data_path: Path = Path(), train_ratio: float = 0.0, data_seed: int = 42) -> Task:
    """Return instructions whose responses are judged by rubrics.

    data_path: A file of tasks with rubrics (JSON, JSONL, CSV, TSV, Parquet or Arrow); without it the built-in ones.
    train_ratio: Share of the tasks that are trained on; the others are held out; 0: 0.75, at=small 0.67, at=seed 0.9.
    data_seed: The random seed of that split.

    Raises:
        ConfigError: the share is not allowed.
        DataError: the file cannot be read.
    """
    everyday = BuiltinTasks.EVERYDAY if at == "small" else BuiltinTasks.FEW_WORDS
    data = read_dataset(data_path) if data_path != Path() else builtin_dataset(everyday)
    split = split_tasks(data.tasks, train_ratio=train_ratio or _TRAIN.get(at, 0.9), data_seed=data_seed)
    return Task(
        name="rlvr",
        question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
        items=split.train,
        held_out=split.test or 0.0,
        items_sha256=split.sha256,
        item_id=lambda task: task.task_id,
        prompt=lambda task: task.prompt,
        reward=judged(lambda task: task.criteria, lambda task: task.prompt, lambda task, passed: task.score(passed)),
        base=Base(RubricBaseRecipe(), lambda: rubric_conversations(RubricBaseRecipe())),
        keys=_KEYS,
        notes=(_read(data), *weight_lines(data)),
    )


def _read(data: RubricDataset) -> str:
    """Return what was read."""
    read = f"{len(data.tasks)} tasks, {data.rubric_count} rubrics"
    if data.control_characters or data.without_rubrics:
        read += f"; {data.control_characters} raw control characters kept"
        read += f", {data.without_rubrics} records without rubrics left out"
    return read


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
