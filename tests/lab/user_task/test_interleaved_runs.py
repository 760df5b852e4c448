"""Whole runs with batches of what is aside between those of a task: the steps that were said, and the same resumed."""

from pathlib import Path

from own_task import lines

from command_line import Run

TASK = """\
from tinsmith import Task

task = Task(
    items=[{"id": f"item-{n}", "n": n} for n in range(12)],
    prompt="Item {n}:",
    held_out=[{"id": "held-1", "n": 100}, {"id": "held-2", "n": 101}],
    aside=lambda item: item["n"] % 3 == 0,
    reward=lambda item, text: len(text) / 100,
)
"""
QUICK = {"eval_every": "0", "max_tokens": "5"}
ASIDE = {f"item-{n}" for n in range(0, 12, 3)}


def trained_on(folder: Path) -> list[set[str]]:
    found: dict[int, set[str]] = {}
    for line in lines(folder, "rollouts.jsonl"):
        if line["split"] == "train":
            found.setdefault(line["step"], set()).add(line["prompt_id"])
    return [found[step] for step in sorted(found)]


def test_every_third_batch_is_aside_and_a_resumed_run_takes_the_same(run: Run, tmp_path: Path) -> None:
    assert run(**QUICK, log_path="whole", interleave="2:1").code == 0
    assert run(**QUICK, log_path="parts", interleave="2:1", stop_after="2").code == 0
    assert run(**QUICK, log_path="parts", interleave="2:1").code == 0
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for file in ("metrics.jsonl", "rollouts.jsonl"):
        assert (whole / file).read_bytes() == (parts / file).read_bytes()
    taken = trained_on(whole)
    assert [items <= ASIDE for items in taken] == [False, False, True]
    assert all(items <= ASIDE or not items & ASIDE for items in taken)
    messages = [row["train/aside"] for row in lines(whole, "metrics.jsonl")[:3]]
    assert messages == [0.0, 0.0, 1.0]


def test_without_a_ratio_nothing_that_is_aside_is_trained_on(run: Run, tmp_path: Path) -> None:
    assert run(**QUICK, log_path="none", steps="1").code == 0
    assert not set().union(*trained_on(tmp_path / "none")) & ASIDE
    assert "train/aside" not in lines(tmp_path / "none", "metrics.jsonl")[0]
