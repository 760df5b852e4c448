"""The trace of a run: one line an optimizer step, the same bytes after a resume, and nothing from other servers."""

import dataclasses
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_study import RL as SHORT_RL
from small_study import PaperRun, open_run

from tinsmith.lab.rl import train as train_run
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import METRICS, ROLLOUTS, TRACE, IfExists
from tinsmith.lab.service import facts as server_facts
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import TraceReader
from tinsmith.types.errors import BackendError
from tinsmith.types.sketches import distance

RL = dataclasses.replace(SHORT_RL, num_substeps=2, eval_items=3)


def opened(connection: Connection, folder: Path, if_exists: IfExists = IfExists.RAISE) -> PaperRun:
    def traced(run: PaperRun) -> None:
        run.connection = connection
        run.__post_init__()

    return open_run(connection, folder, RL, if_exists=if_exists, changed=traced)


def train(run: PaperRun) -> None:
    train_run(run)
    run.folder.close()


def lines(folder: Path, name: str = TRACE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("traced") / "run"
    train(opened(connection, out))
    return out


def test_every_optimizer_step_has_a_line_that_names_every_tensor(folder: Path) -> None:
    trace = lines(folder)
    learned = [line["step"] for line in lines(folder, METRICS) if "optim/loss" in line]
    assert learned
    assert [(line["step"], line["substep"]) for line in trace] == [
        (step, substep) for step in learned for substep in range(2)
    ]
    names = sorted(trace[0]["weights"])
    for before, line in pairwise(trace):
        assert list(line) == ["step", "substep", "gradient", "weights"]
        assert list(line["gradient"]) == list(line["weights"]) == names
        assert line["weights"] != before["weights"]
    for mark in (*trace[-1]["gradient"].values(), *trace[-1]["weights"].values()):
        assert list(mark) == ["sha256", "norm", "sketch"]
        assert len(mark["sha256"]) == 16
        assert distance(mark["sketch"], [0.0] * 8) <= 8**0.5 * 8 * mark["norm"]


def test_rollouts_tell_the_samplers_log_probabilities_exactly(folder: Path) -> None:
    for line in lines(folder, ROLLOUTS):
        messages = np.array(line["logprobs"], np.float64)
        assert len(messages) == len(line["tokens"])
        assert (messages.astype(np.float32) == messages).all()
        assert (messages <= 0).all()


def test_a_resumed_run_leaves_the_same_trace(
    connection: Connection, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "killed"
    run = opened(connection, out)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "checkpoint", interrupted_at(2))
        with pytest.raises(KeyboardInterrupt):
            train(run)
    run.folder.close()
    assert {line["step"] for line in lines(out)} == {0, 1}
    resumed = opened(connection, out, IfExists.RESUME)
    assert resumed.step == 1
    train(resumed)
    assert (out / TRACE).read_bytes() == (folder / TRACE).read_bytes()


def interrupted_at(step: int) -> Callable[[PaperRun, int], None]:
    """`Run.checkpoint`, but ended by the user instead of a checkpoint at `step`."""
    original = Run.checkpoint

    def checkpoint(run: PaperRun, at: int) -> None:
        if at == step:
            raise KeyboardInterrupt
        original(run, at)

    return checkpoint


def test_a_server_that_tells_no_trace_leaves_none(connection: Connection) -> None:
    assert TraceReader(connection, "no-such-model:train:0").new() == []
    # A port that nothing listens on: the loop itself says that the server is gone.
    nowhere = dataclasses.replace(connection, base_url="http://127.0.0.1:9")
    assert TraceReader(nowhere, "a:train:0").new() == []


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ([{"steps": []}, None], "no longer reports"),
        ([{"steps": [{"step": 5}]}, {"steps": [{"step": 7}]}], "has forgotten optimizer step 6"),
    ],
)
def test_a_trace_with_a_hole_is_not_written(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any] | None], complaint: str
) -> None:
    remaining = iter([*answers, {"steps": [{"step": 6}]}])

    def ask(*asked: object) -> dict[str, Any] | None:
        del asked
        return next(remaining)

    monkeypatch.setattr(server_facts, "ask", ask)
    reader = TraceReader(connection, "a:train:0")
    reader.new()
    with pytest.raises(BackendError, match=complaint):
        reader.new()
    assert reader.new() == [{"step": 6}]  # it asks again
