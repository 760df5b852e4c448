"""Whole runs with batches of what is aside between those of a task: the steps that were said, and the same resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from own_task import KEYS, Ran, command, lines

from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection

NANO = "tinsmith/nano"
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
ASIDE = {f"item-{n}" for n in range(0, 12, 3)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    state = tmp_path_factory.mktemp("interleaved") / "state"
    connection = open_connection(None, EmbeddedSettings(models={NANO: NANO}, state=state, seed=5))
    yield connection
    connection.close()


@pytest.fixture
def run(
    server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TINKER_API_KEY", str(server.key))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TASK)

    def run(**changes: str) -> Ran:
        keys = {**KEYS, "base_url": str(server.base_url), "model_name": NANO, "steps": "3"}
        every = {**keys, "eval_every": "0", "save_every": "1", **changes}
        return command(capsys, "run", "mine.py", *(f"{key}={value}" for key, value in every.items()))

    return run


def trained_on(folder: Path) -> list[set[str]]:
    found: dict[int, set[str]] = {}
    for line in lines(folder, "rollouts.jsonl"):
        if line["split"] == "train":
            found.setdefault(line["step"], set()).add(line["prompt_id"])
    return [found[step] for step in sorted(found)]


def test_every_third_batch_is_aside_and_a_resumed_run_takes_the_same(run: Callable[..., Ran], tmp_path: Path) -> None:
    assert run(log_path="whole", interleave="2:1").code == 0
    assert run(log_path="parts", interleave="2:1", stop_after="2").code == 0
    assert run(log_path="parts", interleave="2:1").code == 0
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for file in ("metrics.jsonl", "rollouts.jsonl"):
        assert (whole / file).read_bytes() == (parts / file).read_bytes()
    taken = trained_on(whole)
    assert [items <= ASIDE for items in taken] == [False, False, True]
    assert all(items <= ASIDE or not items & ASIDE for items in taken)
    told = [row["train/aside"] for row in lines(whole, "metrics.jsonl")[:3]]
    assert told == [0.0, 0.0, 1.0]


def test_without_a_ratio_nothing_that_is_aside_is_trained_on(run: Callable[..., Ran], tmp_path: Path) -> None:
    assert run(log_path="none", steps="1").code == 0
    assert not set().union(*trained_on(tmp_path / "none")) & ASIDE
    assert "train/aside" not in lines(tmp_path / "none", "metrics.jsonl")[0]
