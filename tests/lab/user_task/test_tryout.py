"""A task's functions on one made-up answer: what each gave, and a mistake in one before anything is computed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.estimate import dry_run
from tinsmith.lab.user_task.items import named_item
from tinsmith.lab.user_task.learned_reward import LearnedReward
from tinsmith.lab.user_task.reward_check import tried
from tinsmith.lab.user_task.task import Spawn, Task, Turns


def right(item: dict[str, int], text: str) -> float:
    return float(text == str(item["a"]))


def eighths(item: dict[str, int], number: int) -> float:
    return number / (2 * item["a"])


def again(item: dict[str, int], read: Sequence[int]) -> str | None:
    return None if read[1:] else f"again, {item['a']}?"


TASK = Task(items=[{"a": 4}], prompt="{a}?", reward=right, answer=lambda item: str(item["a"]))
ONE = named_item(TASK, {"a": 4})


def test_a_right_answer_is_tried_and_its_reward_told() -> None:
    first, last = tried(TASK, ONE)
    assert '"4"' in first
    assert "its right answer" in first
    assert last == "  reward 1 (right 1)"


def test_what_the_base_is_shown_is_named_as_such_and_the_right_answer_is_tried_too() -> None:
    lines = tried(replace(TASK, demonstrate=lambda *_: "5", baselines={"four": lambda _: "4"}), ONE)
    assert [line.partition(", ")[2] for line in lines[::2]] == [
        'what the base is shown, right or not: "5"',
        'its right answer: "4"',
    ]
    assert lines[1::2] == ["  reward 0 (right 0)", "  reward 1 (right 1)"]


def test_a_reward_that_fails_is_a_warning_with_its_cause() -> None:
    task = replace(TASK, reward=lambda item, text: item["b"] == text)
    assert "KeyError: 'b'" in tried(task, ONE)[-1]
    assert "warning" in tried(task, ONE)[-1]


def test_parse_and_every_turn_are_told() -> None:
    task = replace(TASK, parse=int, reward=eighths, reply=again)
    lines = tried(task, ONE)
    assert [line for line in lines if "again, 4?" in line] == ['  then the model reads: "again, 4?"']
    assert '  parse gave "4"' in lines
    assert lines[-1].startswith("  reward 0.5 (")


def test_without_any_answer_of_the_task_one_is_made_up_that_parse_may_refuse() -> None:
    task = replace(TASK, answer=None, parse=int)
    lines = tried(task, ONE)
    assert "made-up" in lines[0]
    assert "parse failed" in lines[-1]
    assert "ValueError" in lines[-1]


def test_of_a_learned_reward_the_label_is_told_and_features_are_called_once() -> None:
    learned = LearnedReward(label=right, features=lambda item, text: f"{item['a']} {text}")
    lines = tried(replace(TASK, reward=learned, metrics={"letters": lambda _, text: len(text)}), ONE)
    assert "  reward 1 (label 1, letters 1)" in lines
    assert "label" in lines[-1]
    failing = replace(learned, features=lambda item, _: item["b"])
    assert "KeyError: 'b'" in tried(replace(TASK, reward=failing), ONE)[-1]
    scalar = replace(learned, features=lambda *_: 4.0)
    assert "features failed" in tried(replace(TASK, reward=scalar), ONE)[-1]


def test_what_is_spawned_is_answered_as_the_task_shows_it() -> None:
    def reply(*_: object) -> Spawn:
        return Spawn([{"a": 7}, {"a": 8}], lambda answers: f"heard {answers[0]} and {answers[1]}")

    lines = tried(replace(TASK, turns=Turns(reply=reply, most=2, deepest=1)), ONE)
    assert '  then the model reads: "heard 7 and 8"' in lines
    assert lines[-1] == "  reward 1 (right 1)"


@pytest.mark.parametrize(("judge", "asked"), [("rules", True), ("gpt-5-mini", False)])
def test_a_judge_is_asked_where_it_is_no_model(judge: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    lines = dry_run(plan_of("rlvr", {"judge_model": judge, "dry_run": "true"}))
    assert any(line.startswith("  reward ") for line in lines) == asked
    assert any("which a dry run does not call" in line for line in lines) != asked
