"""The published page of what packaged rewards pay: rows are what a check gives now."""

from pathlib import Path

import pytest

from tinsmith.cli.registered import source_of
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.reward_check import Tried, check_reward

PAGE = Path(__file__).parents[2] / "docs" / "results" / "check-reward.md"
ROWS = {row.split("`")[1]: row.split(" | ")[2:8] for row in PAGE.read_text("utf-8").splitlines() if row[:3] == "| `"}


@pytest.mark.parametrize("name", ["crossroads", "handbook", "reasons", "sandbagger"])
def test_a_row_is_what_the_check_gives(name: str) -> None:
    source = source_of(name, {})
    assert source is not None
    task = source.make({key.name: key.read(None) for key in source.keys})
    found = check_reward(task, split_items(task, source.folder, 0).train)
    cells = [(len(found.as_much(how)), found.of(how)) for how in Tried]
    assert ROWS[name] == [f"{much}, {sum(one.reward > 0 for one in some)} of {len(some)}" for much, some in cells]
