"""Whole runs on tasks that others keep: evaluated, drawn, resumed, replayed and compared like any other."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed_environments import GUESSES, SUMS
from own_task import KEYS, lines, whole

from command_line import Ran, command
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection

NANO = "tinsmith/nano"
BYTES = ("metrics.jsonl", "rollouts.jsonl", "task.json")
SMALL = {**KEYS, "steps": "2", "max_tokens": "5", "items": "12", "held_out_items": "4"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    state = tmp_path_factory.mktemp("kept-tasks") / "state"
    connection = open_connection(None, EmbeddedSettings(models={NANO: NANO}, state=state, seed=5))
    yield connection
    connection.close()


Run = Callable[..., Ran]


@pytest.fixture
def run(
    server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run a task on the shared server, in a folder with two environments that can be imported."""
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TINKER_API_KEY", str(server.key))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums_env.py").write_text(SUMS)
    (tmp_path / "guess_env.py").write_text(GUESSES)
    monkeypatch.syspath_prepend(tmp_path)

    def run(name: str, **changes: str) -> Ran:
        few = SMALL if name in TASKS else {**KEYS, "max_tokens": "5"}
        keys = {**few, "base_url": str(server.base_url), "model_name": NANO, **changes}
        if changes.get("kind") == "task_sft":  # which draws no groups
            keys = {key: one for key, one in keys.items() if not key.startswith("group")}
        given = (f"{key.replace('__', '.')}={value}" for key, value in keys.items())
        return command(capsys, "run", name, *given)

    yield run
    for name in ("sums_env", "guess_env"):
        sys.modules.pop(name, None)


TASKS = {
    "reasoning_gym": ({"task": "chain_sum", "config__max_terms": "2"}, {"score"}, "chain_sum"),
    "instructions": ({"held_out": "kinds"}, {"strict", "loose"}, "By kind of instruction"),
    "verifiers:guess_env": ({"env__player__max_turns": "2"}, {"found", "soon"}, "A number."),
}


@pytest.mark.parametrize("name", list(TASKS))
def test_a_run_is_evaluated_drawn_replayed_and_compared(
    name: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, terms, words = TASKS[name]
    ran = run(name, log_path="run", **changes)
    assert ran.code == 0, ran
    folder = tmp_path / "run"
    metrics = lines(folder, "metrics.jsonl")
    for term in terms:
        assert {f"eval/reward/{term}", f"eval_greedy/reward/{term}"} <= set(metrics[0])
        assert f"train/reward/{term}" in metrics[1]
    assert all(set(one["terms"]) == terms for one in lines(folder, "rollouts.jsonl"))
    assert words in (folder / "report.html").read_text()
    config = whole(folder, "config.json")
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    assert changed.items() <= {key: str(one) for key, one in config["overrides"].items()}.items()
    assert command(capsys, "replay", "run", "--steps", "1").code == 0
    if name.startswith("verifiers"):  # an environment's own code plays the turns
        assert run(name, log_path="parts", stop_after="1", **changes).code == 0
        assert run(name, log_path="parts", behavior_if_log_dir_exists="resume", **changes).code == 0
        for file in BYTES:
            assert (folder / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
        assert command(capsys, "diff", "run", "parts").code == 0


def test_an_order_is_recomputed_for_each_epoch_and_a_loop_is_tested(run: Run, tmp_path: Path) -> None:
    changes = {"kind": "task_sft", "order": "recomputed", "steps": "2", "batch_size": "221", "tested_items": "2"}
    assert run("porter", log_path="whole", **changes).code == 0
    metrics = lines(tmp_path / "whole", "metrics.jsonl")
    assert [one["order/epoch"] for one in metrics if "order/epoch" in one] == [0.0, 1.0]
    assert {"test/metric/sound", "test_revised/tokens/answer", "test_blind/tokens/answer"} <= metrics[-1].keys()


def test_an_environment_that_changed_is_refused_by_a_replay(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verifiers:sums_env", log_path="run", steps="1").code == 0
    (tmp_path / "sums_env.py").write_text(SUMS + "# another\n")
    refused = command(capsys, "replay", "run", code=2)
    assert "sums_env.py" in refused.err


def test_a_checker_that_always_fails_ends_the_run(run: Run) -> None:
    lost = run("verifiers:sums_env", log_path="run", args__task__broken="always")
    assert lost.code == 3
    assert "the checker is not there" in lost.err


def test_a_base_can_be_built_from_what_a_task_demonstrates(capsys: pytest.CaptureFixture[str], run: Run) -> None:
    for name in TASKS:
        ran = command(capsys, "run", name, "dry_run=true", code=0)
        assert "first a small base" in ran.out
    del run


def test_instructions_are_trained_by_example_and_what_has_no_answer_is_named(run: Run, tmp_path: Path) -> None:
    by_example = {"kind": "task_sft", "batch_size": "4"}
    ran = run("instructions", log_path="right", **by_example)
    assert ran.code == 0, ran
    assert lines(tmp_path / "right", "metrics.jsonl")
    lost = run("instructions", log_path="none", suite="ifbench", draw_seed="1", **by_example)
    assert lost.code == 3
    assert "suite=ifeval" in lost.err
