"""A run whose reward is refitted to the state of its base as it goes on: stopped and resumed, to the same bytes."""

from pathlib import Path

import pytest
from own_task import lines

from command_line import Run

TASK = """\
from tinsmith import LearnedReward, Task


def length(item, text):
    return len(text) / 10


task = Task(
    items=[{"id": f"item-{n}", "n": n} for n in range(12)],
    prompt="Item {n}:",
    held_out=0.5,
    reward=LearnedReward(label=length, features=lambda item, text: f"Item {item['n']}: {text}", every=1, decay=0.5),
)
"""
pytestmark = pytest.mark.usefixtures("place")


def test_a_reward_that_is_refitted_goes_on_to_the_same_bytes(run: Run, tmp_path: Path) -> None:
    few = {"steps": "4", "max_tokens": "5", "eval_every": "0"}
    assert run(log_path="whole", **few).code == 0
    assert run(log_path="parts", **few, stop_after="2").code == 0
    assert run(log_path="parts", **few).code == 0
    for file in ("metrics.jsonl", "rollouts.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()
    metrics = lines(tmp_path / "whole", "metrics.jsonl")
    assert "train/overrated" not in metrics[0]
    assert all(one["train/overrated"] != 0.0 for one in metrics[1:4])
    learned = [one for one in lines(tmp_path / "whole", "rollouts.jsonl") if one["split"] == "train" and one["step"]]
    assert len({one["total"] for one in learned}) > 3
    assert all(one["total"] == one["predicted"] for one in learned)
