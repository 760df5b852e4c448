"""Items that a task's small base reads, where not those trained on, and its steps: the task says both."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tinsmith.lab.experiment.estimate import dry_run
from tinsmith.lab.user_task.entry import open_task
from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, data_of_task, recipe_of, task_conversations
from tinsmith.lab.user_task.task import Base, Task
from tinsmith.renderers.renderer import Message, Role
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


def missing(one: Task) -> Mapping[Path, float]:
    return data_of_task(open_task(task_value(one), {})).missing_base()


def test_unsaid_the_base_reads_the_items_to_train_on(tmp_path: Path) -> None:
    assert items_of_base(task(), tmp_path) is None


def test_it_reads_items_of_its_own_with_their_own_prompts(tmp_path: Path) -> None:
    one = task(base_items=READ)
    read = items_of_base(one, tmp_path)
    assert [each.prompt for each in read] == ["10?", "11?", "12?", "13?"]
    lines = task_conversations(one, read, recipe_of(one))
    assert {each[-1].content for each in lines} == {"b"}


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


@pytest.mark.usefixtures("own_home")
def test_a_task_says_how_many_steps_and_changes_nothing_else() -> None:
    one = task(base_steps=100)
    assert recipe_of(one) == TaskBaseRecipe(steps=100)
    (shorter,), (usual,) = (missing(each).values() for each in (one, task()))
    assert usual / 10 < shorter < usual / 5  # texts are prepared for both alike


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("own", [False, True])
def test_a_dry_run_counts_a_base_that_is_not_cached_a_task_s_own_too(own: bool) -> None:
    base = Base(
        TaskBaseRecipe(steps=10),
        lambda: [(Message(role=Role.USER, content="1?"), Message(role=Role.ASSISTANT, content="2"))],
    )
    one = task(demonstrate=None, base=base) if own else task()

    def first() -> list[str]:
        return [line for line in dry_run(open_task(task_value(one), {})) if line.startswith("first ")]

    assert len(first()) == 1
    next(iter(missing(one))).mkdir(parents=True)
    assert first() == []


@pytest.mark.parametrize("steps", [-1, True, 2.5])
def test_what_is_no_number_of_steps_is_refused(steps: Any) -> None:
    with pytest.raises(ConfigError, match="base_steps"):
        task(base_steps=steps)


def test_without_demonstrations_there_is_nothing_to_train_on() -> None:
    with pytest.raises(ConfigError, match="demonstrate="):
        task(demonstrate=None, base_steps=5)
