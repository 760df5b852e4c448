"""Generators of reasoning_gym as tasks: their settings are keys, sides share no question, their own scorer rewards."""

from typing import Any

import pytest

from command_line import command
from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.reasoning import HASHED, RAISING, config_keys, dataset, generator_keys, reasoning_gym, task_names
from tinsmith.types.errors import ConfigError


def made(task: str = "chain_sum", **changes: Any) -> Task:
    named = {name.replace("__", "."): one for name, one in changes.items()}
    return reasoning_gym(task, **{"items": 20, "held_out_items": 5, **named})


def sides(task: Task) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    assert isinstance(task.items, list)
    assert isinstance(task.held_out, list)
    return task.items, task.held_out


def test_items_repeat_and_no_held_out_question_is_trained_on() -> None:
    train, held_out = sides(made())
    assert (len(train), len(held_out)) == (20, 5)
    assert sides(made()) == (train, held_out)
    requests = {one["question"] for one in train}
    assert len(requests) == 20
    assert requests.isdisjoint(one["question"] for one in held_out)
    other, kept = sides(made(train_seed=1))
    assert kept == held_out
    assert requests.isdisjoint(one["question"] for one in other), "seeds beside each other share nothing"
    assert sides(made(held_out_seed=1))[1] != held_out


def test_where_there_are_few_questions_held_out_ones_are_taken_first() -> None:
    small = {"config__max_terms": 2, "config__max_digits": 1}
    train, held_out = sides(made(items=2000, held_out_items=100, **small))
    assert len(held_out) == 100
    assert 0 < len(train) < 2000
    assert {one["question"] for one in train}.isdisjoint(one["question"] for one in held_out)
    with pytest.raises(ConfigError, match="different items"):
        made(held_out_items=2000, **small)


def test_the_generators_own_scorer_rewards() -> None:
    task = made(config__max_terms=3)
    one = sides(task)[0][0]
    assert task.rewards["score"](one, f" {one['answer']}\n") == 1.0  # type: ignore[operator]
    assert task.metrics["solved"](one, one["answer"]) == 1.0  # type: ignore[operator]
    assert task.rewards["score"](one, "no idea") < 1.0  # type: ignore[operator]
    assert callable(task.prompt) or "{question}" in task.prompt


@pytest.mark.parametrize("name", sorted(RAISING))
def test_an_answer_that_the_scorer_raises_on_is_wrong_and_counted(name: str) -> None:
    task = made(name, items=2, held_out_items=1)
    one = sides(task)[1][0]
    found = score_group(task, one, [[str(one["answer"])], ["I do not know"], ["{}"], ["1"]])
    assert all(isinstance(each, Earned) for each in found)
    earned = [each for each in found if isinstance(each, Earned)]
    assert earned[0].total == (0.0 if name == "boxnet" else 1.0), "boxnet names no right answer"
    assert earned[0].metrics["malformed"] == 0.0
    assert max(each.total for each in earned[1:]) < 1.0
    assert sum(each.metrics["malformed"] for each in earned) > 0.0


def test_settings_of_a_generator_are_keys_of_their_types() -> None:
    keys = {key.name: key for key in config_keys("complex_arithmetic")}
    assert keys["config.operations"].read('["+"]') == '["+"]'
    few = {"config.operations": '["+"]', "config.operations_weights": "[1.0]"}
    assert dataset("complex_arithmetic", few, seed=1, size=3).config.operations == ("+",)
    assert "config.seed" not in keys
    assert {key.kind for key in config_keys("chain_sum")} == {int, bool}
    (kinds,) = (key for key in config_keys("aiw") if key.name == "config.task_types")
    assert len(dataset("aiw", {kinds.name: '["siblings"]'}, seed=1, size=2).config.task_types) == 1
    with pytest.raises(ConfigError, match="max_terms"):
        made(config__min_terms=9)
    with pytest.raises(ConfigError, match="chain_sum"):
        generator_keys({"task": "chain_sun"})


@pytest.mark.parametrize("name", sorted(HASHED))
def test_what_hangs_on_the_hash_seed_wants_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with pytest.raises(ConfigError, match="PYTHONHASHSEED=0"):
        generator_keys({"task": name})
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert generator_keys({"task": name})


def test_every_generator_has_settings_that_a_command_line_can_say() -> None:
    for name in task_names():
        for key in config_keys(name):
            assert key.read(None) == key.default
            assert isinstance(key.default, str | int | float | bool), key


def test_a_missing_package_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def gone(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", gone)
    for name in ("reasoning_gym", "instructions", "verifiers:any"):
        ran = command(capsys, "run", name)
        assert (ran.code, len(ran.err.splitlines())) == (2, 3), ran.err
        assert "tinsmith[env]" in ran.err


@pytest.mark.parametrize(
    ("read", "reply", "score"),
    [
        ("text", "The sum is {}.", None),
        ("number", "3 + 4 = 9, so the sum is {}.", 1.0),
        ("number", "The sum is {:+,}", 1.0),
        ("number", "none", 0.0),
        ("tag", "<answer>0</answer> or <answer> {} </answer>", 1.0),
        ("tag", "{}", 0.0),
    ],
)
def test_what_of_a_reply_is_scored_is_a_key(read: str, reply: str, score: float | None) -> None:
    task = made(read=read)
    one = sides(task)[0][0]
    words = reply.format(int(one["answer"]))
    seen = words if task.parse is None else task.parse(words)
    earned = task.rewards["score"](one, seen)  # type: ignore[operator]
    assert 0.0 < earned < 1.0 if score is None else earned == score
    right = task.answer(one)  # type: ignore[misc]
    seen = right if task.parse is None else task.parse(right)
    assert task.rewards["score"](one, seen) == 1.0  # type: ignore[operator]
    assert ("<answer>" in str(task.prompt)) == (read == "tag")
