"""What counts as an answer with verdicts."""

from __future__ import annotations

import pytest
from scripted_judge import ratings

from tinsmith.lab.judge.tree import pass_rate
from tinsmith.lab.judge.verdicts import FailureCause, Judged, JudgeFailure, ParseFailure, Spent, Verdict, parse_verdicts
from tinsmith.types.errors import JudgeError


def test_each_criterion_has_its_verdict_in_order() -> None:
    verdicts = parse_verdicts(ratings("Yes", "No", "Yes"), 3)
    assert verdicts == (Verdict(True, "Yes."), Verdict(False, "No."), Verdict(True, "Yes."))
    assert not isinstance(verdicts, ParseFailure)
    judged = Judged(verdicts=verdicts, spent=Spent(calls=2, prompt_tokens=7), from_cache=False)
    assert pass_rate([v.passed for v in judged.verdicts]) == 2 / 3
    assert (judged.spent.calls, judged.spent.prompt_tokens, judged.spent.completion_tokens) == (2, 7, 0)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("", ParseFailure.NOT_JSON),
        ("Yes, Yes", ParseFailure.NOT_JSON),
        (f"```json\n{ratings('Yes', 'No')}\n```", ParseFailure.NOT_JSON),
        (ratings("Yes", "No")[:-1], ParseFailure.NOT_JSON),
        ("[" * 100_000, ParseFailure.NOT_JSON),
        ("[]", ParseFailure.BAD_SHAPE),
        ('{"ratings": {}}', ParseFailure.BAD_SHAPE),
        ('{"ratings": [], "note": 1}', ParseFailure.BAD_SHAPE),
        ('{"ratings": [1, 2]}', ParseFailure.BAD_SHAPE),
        ('{"ratings": [{"rating": "Yes"}, {"rating": "Yes"}]}', ParseFailure.BAD_SHAPE),
        (ratings("Yes"), ParseFailure.SHORT),
        ('{"ratings": []}', ParseFailure.SHORT),
        (ratings("Yes", "Yes", "Yes"), ParseFailure.LONG),
        (ratings("Yes", "yes"), ParseFailure.BAD_RATING),
        (ratings("Yes", "Maybe"), ParseFailure.BAD_RATING),
        (ratings("Yes", "No").replace('"No"', "false"), ParseFailure.BAD_RATING),
        (ratings("Yes", "No").replace('"No."', "null"), ParseFailure.BAD_SHAPE),
        (
            '{"ratings": [{"rating": "No", "rating": "Yes", "rationale": ""}, {"rating": "Yes", "rationale": ""}]}',
            ParseFailure.BAD_SHAPE,
        ),
    ],
)
def test_anything_else_is_a_failure_with_its_reason(text: str, failure: ParseFailure) -> None:
    assert parse_verdicts(text, 2) is failure


def test_a_failure_becomes_an_error_of_few_lines() -> None:
    failure = JudgeFailure(cause=FailureCause.TIMED_OUT, detail="no answer in 60 s", spent=Spent(calls=4))
    error = failure.error()
    assert isinstance(error, JudgeError)
    assert "60 s" in str(error)
    assert len(str(error).splitlines()) <= 5
    assert "pass_rate" not in dir(failure)


def test_what_was_spent_adds_up() -> None:
    one = Spent(calls=1, prompt_tokens=2, completion_tokens=3)
    assert one + Spent(calls=1, estimated=True) == Spent(calls=2, prompt_tokens=2, completion_tokens=3, estimated=True)
