"""Items that a task's small base reads, where not those trained on, and its steps: the task says both."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.items import items_of_base, split_items
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, base_minutes, recipe_of, task_conversations
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError, DataError

READ = [{"a": 10 + a, "shown": "b"} for a in range(4)]


def earned(item: Any, text: str) -> float:
    return float(text == str(item["a"]))


def shown(item: Any, random: Random) -> str:
    del random
    return str(item.get("shown"))


def task(**changes: Any) -> Task:
    parts: dict[str, Any] = {
        "items": [{"a": a} for a in range(10)],
        "prompt": "{a}?",
        "reward": earned,
        "demonstrate": shown,
    }
    return Task(**{**parts, **changes})


def test_unsaid_the_base_reads_the_items_to_train_on(tmp_path: Path) -> None:
    assert items_of_base(task(), tmp_path) is None


def test_it_reads_items_of_its_own_with_their_own_prompts(tmp_path: Path) -> None:
    one = task(base_items=READ)
    read = items_of_base(one, tmp_path)
    assert [each.prompt for each in read] == ["10?", "11?", "12?", "13?"]
    told = task_conversations(one, read, recipe_of(one))
    assert {each[-1].content for each in told} == {"b"}


def test_they_are_part_of_what_a_task_is_and_nothing_where_they_are_unsaid() -> None:
    unsaid = task_value(task()).sha256
    first, second = (task_value(task(base_items=READ)).sha256, task_value(task(base_items=READ[1:])).sha256)
    assert len({str(one) for one in (unsaid, first, second)}) == 3


def test_they_need_demonstrations_and_are_some(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="base_items"):
        task(demonstrate=None, base_items=READ)
    with pytest.raises(DataError):
        items_of_base(task(base_items=[]), tmp_path)


def test_unsaid_it_is_the_laboratorys_own_recipe() -> None:
    assert recipe_of(task()) == TaskBaseRecipe()


def test_a_task_says_how_many_steps_and_changes_nothing_else(tmp_path: Path) -> None:
    one = task(base_steps=100)
    assert recipe_of(one) == TaskBaseRecipe(steps=100)
    items = split_items(one, tmp_path, 0).train
    assert base_minutes(one, items) == pytest.approx(base_minutes(task(), items) / 10)


@pytest.mark.parametrize("steps", [-1, True, 2.5])
def test_what_is_no_number_of_steps_is_refused(steps: Any) -> None:
    with pytest.raises(ConfigError, match="base_steps"):
        task(base_steps=steps)


def test_without_demonstrations_there_is_nothing_to_train_on() -> None:
    with pytest.raises(ConfigError, match="demonstrate="):
        task(demonstrate=None, base_steps=5)
