"""RL with verifiable rubrics: instructions, and a judge that says which criteria of its rubric a response fulfils.

    tinsmith run rlvr [at=small] [data_path=tasks.json judge_model=gpt-5-mini] [key=value ...]

The share of criteria that hold, or the score of a rubric's weights or tree where the data give one, is the reward.

The nano base reads short instructions with answers, few of which do what they are asked: it knows how answers look and
seldom gives the one that is asked for, which is what is left to reinforce. Every second instruction asks for its own
words instead: without these a small model never finds out that an answer may depend on the words of its prompt, and
rewards then teach it little but the text that passes most rubrics whatever is asked. No prompt of the built-in tasks is
among the demonstrations, which are made by the same kinds of instructions (`templates.toml`).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.base_recipe import BaseRecipe, Conversation
from tinsmith.lab.user_task.judged import judged
from tinsmith.lab.user_task.task import Base, Task, Value
from tinsmith.pages.measures import counted
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.rubrics.dataset import BuiltinTasks, RubricDataset, builtin_dataset, read_dataset, split_tasks
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits

Words = tuple[str, str, str]  # Three words that differ; a template uses the first ones it needs.
_TIMES: Final = ("two", "three", "four")


class Template(msgspec.Struct, frozen=True):
    """An instruction, the rules for its answer, and an answer that obeys every one."""

    prompt: str
    rules: tuple[str, ...]
    answer: str

    def filled(self, words: Words, number: int) -> Template:
        """Return it with words, the `number`-th of its kind, its rules as criteria carry them."""
        place = number % len(_TIMES)
        values = dict(zip("abc", words, strict=True), n=place + 2, times=_TIMES[place])
        values["repeated"] = " ".join([words[0]] * (place + 2))
        rules = tuple(f"rule: {each.format(**values)}" for each in self.rules)
        return Template(self.prompt.format(**values), rules, self.answer.format(**values))


class _File(msgspec.Struct, frozen=True):
    lexicon: str
    families: dict[str, Template]


_FILE: Final = msgspec.convert(
    tomllib.loads(resources.files("tinsmith.studies.rubrics").joinpath("templates.toml").read_text("utf-8")), _File
)
LEXICON: Final = tuple(_FILE.lexicon.split())  # Every word that the built-in tasks ask for.
FAMILIES: Final = tuple(_FILE.families.items())  # Templates by the name of their kind.


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricBaseRecipe(BaseRecipe):
    """Recipe of a base from demonstrations of the kinds of instruction that the built-in tasks are of."""

    vocab_size: int = 512
    max_positions: int = 256
    steps: int = 1500
    learning_rate: float = 3e-3
    count: int = 24_000  # Demonstrations; as many steps as these read each of them twice.
    obeying: float = 0.15  # Share of them that do all that is asked on purpose; a few others do by chance.
    reading_every: int = 2  # Every so many-th asks for the words of its instruction instead; 0: none.


def rubric_conversations(recipe: RubricBaseRecipe) -> list[Conversation]:
    """Make one conversation a demonstration."""
    seed = derive(recipe.seed, "demonstrations")
    conversations: list[Conversation] = []
    for i, (prompt, answer) in enumerate(demonstrations(recipe.count, seed=seed, obeying=recipe.obeying)):
        if recipe.reading_every and i % recipe.reading_every == 0:
            named = [word for word in re.findall(r"\w+", prompt) if word in LEXICON]
            prompt, answer = f"{prompt}\nReturn words.", " ".join(named)
        asked = Message(role=Role.USER, content=prompt)
        conversations.append((asked, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


_RAMBLES: Final = (5, 6, 7)  # Words of the lexicon in a ramble; with what joins them, 13 to 19 words.


def demonstrations(count: int, *, seed: int, obeying: float = 0.2) -> tuple[tuple[str, str], ...]:
    """Make `count` prompts, each with an answer; the i-th is the same whatever the count.

    A share `obeying` does what is asked. Of the others, a half answers some instruction or other
    with other words, and a half rambles.
    """
    if count < 0:
        raise ConfigError("at least none", field="count", value=count)
    if not 0 <= obeying <= 1:
        raise ConfigError("a share", field="obeying", value=obeying, allowed="0 <= obeying <= 1")
    taken = frozenset(task.prompt for task in builtin_dataset().tasks)
    return tuple(_demonstration(derive(seed, "demonstration", i), obeying, taken) for i in range(count))


def _demonstration(seed: int, obeying: float, taken: frozenset[str]) -> tuple[str, str]:
    attempt = 0
    while True:  # every family has far more prompts than the built-in tasks use
        bits = [int(word) for word in random_bits(derive(seed, attempt), 5)]
        _, template = FAMILIES[bits[0] % len(FAMILIES)]
        sheet = template.filled(_three(bits[1]), bits[2] % len(LEXICON))
        if sheet.prompt not in taken:
            break
        attempt += 1
    if (bits[3] >> 11) * 2.0**-53 < obeying:
        return sheet.prompt, sheet.answer
    if bits[3] % 2:
        _, other = FAMILIES[bits[4] % len(FAMILIES)]
        return sheet.prompt, other.filled(_three(bits[4] // len(FAMILIES)), 0).answer
    return sheet.prompt, " and the ".join(_shuffled(bits[4])[: _RAMBLES[bits[2] % len(_RAMBLES)]])


def _three(seed: int) -> Words:
    first, second, third, *_ = _shuffled(seed)
    return first, second, third


def _shuffled(seed: int) -> list[str]:
    keys = random_bits(seed, len(LEXICON))
    return [LEXICON[i] for i in sorted(range(len(LEXICON)), key=lambda i: int(keys[i]))]


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

_LATER_STEPS: Final = {"small": 0.39}
"""Of 60 steps of SmolLM2: answers of 26 tokens become 12, and in a third of the groups all earn alike."""


def rlvr(at: str = "nano", data_path: Path = Path(), train_ratio: float = 0.0, data_seed: int = 42) -> Task:
    """Return instructions whose responses are judged by rubrics.

    data_path: A file of tasks with rubrics (JSON, JSONL, CSV, TSV, Parquet or Arrow); without it the built-in ones.
    train_ratio: Share of the tasks that are trained on; the others are held out; 0: 0.75, at=small 0.67, at=seed 0.9.
    data_seed: The random seed of that split.
    """
    everyday = BuiltinTasks.EVERYDAY if at == "small" else BuiltinTasks.FEW_WORDS
    data = read_dataset(data_path) if data_path != Path() else builtin_dataset(everyday)
    plain = not any(one.tree is not None or one.is_weighted for one in data.tasks)
    split = split_tasks(data.tasks, train_ratio=train_ratio or _TRAIN.get(at, 0.9), data_seed=data_seed)
    return Task(
        name="rlvr",
        question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
        items=split.train,
        held_out=split.test or 0.0,
        items_sha256=split.sha256,
        item_id=lambda task: task.task_id,
        prompt=lambda task: task.prompt,
        reward=judged(
            lambda one: one.criteria, lambda one: one.prompt, None if plain else lambda one, passed: one.score(passed)
        ),
        base=Base(RubricBaseRecipe(), lambda: rubric_conversations(RubricBaseRecipe())),
        keys=_KEYS,
        later_steps=_LATER_STEPS.get(at),
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
