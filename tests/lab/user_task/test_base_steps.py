"""How long the small base of a task is trained is the task's to say; unsaid, it is what it has always been."""

from random import Random
from typing import Any

import pytest

from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, base_minutes, recipe_of
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError

ITEMS = [{"a": a} for a in range(10)]


def earned(item: Any, text: str) -> float:
    return float(text == str(item["a"]))


def shown(item: Any, random: Random) -> str:
    return str(random.randrange(item["a"] + 1))


def task(**changes: Any) -> Task:
    parts: dict[str, Any] = {"items": ITEMS, "prompt": "{a}?", "reward": earned, "demonstrate": shown}
    return Task(**{**parts, **changes})


def test_unsaid_it_is_the_laboratorys_own_recipe() -> None:
    assert recipe_of(task()) == TaskBaseRecipe()


def test_a_task_says_how_many_steps_and_changes_nothing_else(tmp_path: Any) -> None:
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
