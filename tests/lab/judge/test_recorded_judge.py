"""A judge that answers from a run's record."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tinsmith import Conversation, Failed, Scored, Task, judged
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import FailureCause
from tinsmith.lab.judge.rules import RulesOnly
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.user_task import judge_choice, run_data
from tinsmith.lab.user_task.entry import open_task
from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.judge_choice import RecordedJudge
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.subject import UserSubject


def _written(file: Path, *lines: object) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_verdicts_are_those_of_the_record_and_an_unknown_response_has_none(tmp_path: Path) -> None:
    _written(
        tmp_path / "tasks.jsonl",
        {"task_id": "one", "criteria": ["short", "polite"]},
        {"task_id": "two", "criteria": ["true"]},
    )
    row = {"step": 0, "split": "train"}
    _written(
        tmp_path / "rollouts.jsonl",
        row | {"prompt_id": "one", "text": "yes", "verdicts": [{"passed": True, "rationale": "is"}, {"passed": False}]},
        row | {"prompt_id": "two", "failure": {"where": "judge", "what": "timed_out: no answer in 60 s"}},
    )
    judge = RecordedJudge(tmp_path)
    requests = [("yes", ("short", "polite")), ("no", ("short", "polite")), ("yes", ("true",))]
    known, unknown, failed = judge.judge_all(
        [JudgeRequest(task="", response=text, criteria=criteria) for text, criteria in requests]
    )
    assert [(one.passed, one.rationale) for one in known.value] == [(True, "is"), (False, "")]
    assert known.spent.calls == 0
    assert not any(one.passed for one in unknown.value)
    assert (failed.cause, failed.detail) == (FailureCause.TIMED_OUT, "no answer in 60 s")


@pytest.mark.parametrize(("where", "text"), [("score", ""), ("score", "odd"), ("reward", ""), ("metric", "")])
def test_an_answer_that_was_lost_after_its_verdicts_is_lost_again(tmp_path: Path, where: str, text: str) -> None:
    criteria = ("short", "polite")
    _written(tmp_path / "tasks.jsonl", {"task_id": "one", "prompt": "p", "criteria": criteria})
    row = {"step": 0, "split": "train", "prompt_id": "one"}
    lost = {"where": where, "what": "ZeroDivisionError: division by zero"}
    _written(
        tmp_path / "rollouts.jsonl",
        row | ({"text": text} if text else {}) | {"failure": lost},
        row | {"text": "yes", "verdicts": [{"passed": True}, {"passed": False}]},
        row | {"failure": {"where": "parse", "what": "no number"}},
    )
    ledger: list[Any] = []
    reward = judged(lambda _: criteria, lambda _: "p", score=lambda _, passed: 1 / (2 - sum(passed)))
    opened = reward.opened(RecordedJudge(tmp_path), lambda *line: ledger.append(line))
    answers = [Conversation(item=None, replies=(one,), text=one) for one in ("odd", "yes")]
    failed, scored = opened(answers)
    assert failed == Failed(where, lost["what"])
    assert isinstance(scored, Scored)
    assert opened(answers[:1]) == [failed]
    assert [counts["failed"] for counts, _ in ledger] == [0, 0]


def test_a_verdict_is_of_the_prompt_that_was_judged_and_tested_items_have_theirs(tmp_path: Path) -> None:
    reward = judged(lambda _: ["The answer is right."], lambda item: f"Is it right of {item}?")
    task = Task(items=["2+2", "2+3"], held_out=["3+3"], tested=["1+3"], prompt="{item}", reward=reward)
    split = split_items(task, Path(), 0)
    run_data.write_tasks(reward, split, tmp_path / "tasks.jsonl")
    every = {one.prompt: one.prompt_id for one in (*split.train, *split.tested)}
    _written(
        tmp_path / "rollouts.jsonl",
        *(
            {"step": 0, "split": "train", "prompt_id": every[prompt], "text": "4", "verdicts": [{"passed": passed}]}
            for prompt, passed in (("2+2", True), ("2+3", False), ("1+3", True))
        ),
    )
    request = [
        JudgeRequest(task=reward.prompt(item), response="4", criteria=tuple(reward.criteria(item))) for item in every
    ]
    verdicts = RecordedJudge(tmp_path).judge_all(request)
    assert dict(zip(every, [one.value[0].passed for one in verdicts], strict=True)) == {
        "2+2": True,
        "2+3": False,
        "1+3": True,
    }


def test_a_control_of_the_test_has_the_judge_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = RulesOnly()
    monkeypatch.setattr(judge_choice, "open_judge", lambda *_: judge)
    monkeypatch.setattr(run_data, "renderer_for", lambda _: None)
    task = Task(items=["a", "b"], held_out=["c"], prompt="{item}", reward=judged(lambda _: ["It is short."], str))
    alike, other = (Task(items=["a"], prompt="LOUD {item}", reward=each) for each in (task.reward, judged(list, str)))
    task = replace(task, controls={"test_loud": alike, "test_other": other})
    plan = open_task(task_value(task), {"judge_model": "x", "judge_base_url": "http://127.0.0.1:1/v1"})
    course = run_data.data_of_task(plan).course(cast(Any, None), RunFolder(tmp_path), cast(Any, None))
    rewards = [cast(UserSubject, one).task.reward for one in (course.subject, *course.controls.values())]
    assert rewards[0] is rewards[1]
    assert [isinstance(one, JudgedReward) and one.judge is judge for one in rewards] == [True] * 3
