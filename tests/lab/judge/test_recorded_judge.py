"""A judge that answers from a run's record."""

import json
from pathlib import Path

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import FailureCause
from tinsmith.lab.user_task.judge_choice import RecordedJudge


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
    asked = [("yes", ("short", "polite")), ("no", ("short", "polite")), ("yes", ("true",))]
    known, unknown, failed = judge.judge_all(
        [JudgeRequest(task="", response=text, criteria=criteria) for text, criteria in asked]
    )
    assert [(one.passed, one.rationale) for one in known.value] == [(True, "is"), (False, "")]
    assert known.spent.calls == 0
    assert not any(one.passed for one in unknown.value)
    assert (failed.cause, failed.detail) == (FailureCause.TIMED_OUT, "no answer in 60 s")
