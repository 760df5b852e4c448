"""Contents of endpoints' bodies: texts, refusals, token counts, and errors of every shape."""

import gzip
import json
import logging
from typing import Any

import pytest
from scripted_judge import YES, Say, ScriptedJudge, asks, ratings, refused

from tinsmith.lab.judge.endpoint import Reply, Usage, read_completion, read_error
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, FailureCause, JudgeFailure
from tinsmith.types.errors import DataError
from tinsmith.types.http_answers import BoundedBody

USED = {"prompt_tokens": 1000, "completion_tokens": 500}


def answered(message: dict[str, object], finish: str | None = "stop", usage: object = USED) -> str:
    return json.dumps({"choices": [{"finish_reason": finish, "message": message}], "usage": usage})


def judged(script: list[Say], **settings: Any) -> tuple[Any, ScriptedJudge]:
    server = ScriptedJudge(script)
    return asks(server, [JudgeRequest("Name a bird.", "A rook.", ("Is short.",))], **settings)[0], server


PART = {"type": "text", "text": "Yes"}
NO_TEXTS: list[tuple[dict[str, object], str | None, FailureCause]] = [
    ({"content": None}, "stop", FailureCause.NO_CONTENT),
    ({"content": None}, "length", FailureCause.CUT_OFF),
    ({"content": None}, "content_filter", FailureCause.FILTERED),
    ({"content": None, "refusal": "I cannot."}, "stop", FailureCause.DECLINED),
    ({"content": "", "refusal": "I cannot."}, "stop", FailureCause.DECLINED),
    ({"content": [{"type": "refusal", "refusal": "No."}]}, "stop", FailureCause.DECLINED),
    ({"content": [{"type": "thinking", "thinking": "..."}]}, None, FailureCause.NO_CONTENT),
    ({"content": None, "tool_calls": []}, "tool_calls", FailureCause.NO_CONTENT),
    ({"content": 3}, "stop", FailureCause.NO_CONTENT),
]


@pytest.mark.parametrize(("message", "finish", "cause"), NO_TEXTS)
def test_an_answer_without_a_text_has_its_cause_and_is_billed(
    message: dict[str, object], finish: str | None, cause: FailureCause
) -> None:
    found = read_completion(answered(message, finish).encode())
    assert (found.cause, found.usage) == (cause, Usage(1000, 500))
    result, server = judged([Say(body=answered(message, finish))] * 2, judge_max_retries=1)
    assert result.cause is cause
    calls = len(server.requests)
    assert calls == (2 if cause in (FailureCause.NO_CONTENT, FailureCause.CUT_OFF) else 1)
    assert (result.spent.calls, result.spent.prompt_tokens, result.spent.completion_tokens, result.spent.estimated) == (
        calls, 1000 * calls, 500 * calls, False,
    )  # fmt: skip


def test_a_text_in_parts_is_joined() -> None:
    found = read_completion(answered({"content": [{"type": "thinking", "thinking": "?"}, PART, PART]}).encode())
    assert found == Reply("YesYes", Usage(1000, 500))


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_text_that_ends_early_has_that_as_its_cause(finish: str) -> None:
    cut = answered({"content": '{"ratings": [{"rating": "Y'}, finish)
    result, _ = judged([Say(body=cut)] * 2, judge_max_retries=1)
    assert result.cause is (FailureCause.CUT_OFF if finish == "length" else FailureCause.FILTERED)
    whole, _ = judged([Say(body=answered({"content": ratings("Yes")}, finish))])
    assert isinstance(whole, Answered)


@pytest.mark.parametrize("body", ['{"choices": []}', "{}", "[]", "null", '{"choices": [3]}', '{"choices": {}}', "\x00"])
def test_a_body_without_choices_is_no_content(body: str) -> None:
    found = read_completion(body.encode())
    assert found.cause is FailureCause.NO_CONTENT


def test_an_error_inside_an_answer_counts_as_its_status() -> None:
    inside = Say(body=json.dumps({"error": {"code": 429, "message": "slow down"}}))
    result, server = judged([inside, YES])
    assert isinstance(result, Answered)
    assert len(server.requests) == 2
    result, _ = judged([Say(body=json.dumps({"error": {"code": 404, "message": "no such model"}}))])
    assert result.cause is FailureCause.REFUSED
    assert "no such model" in result.detail


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, Usage(10, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 214}, Usage(10, 204)),
        ({"prompt_tokens": 10, "total_tokens": 12}, Usage(10, 2)),
        ({"prompt_tokens": 10.0, "completion_tokens": 4}, Usage(10, 4)),
        ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
        ({"prompt_tokens": 10**30, "completion_tokens": "4"}, Usage()),
    ],
)
def test_token_counts_are_as_reported_or_unknown(usage: object, expected: Usage) -> None:
    found = read_completion(answered({"content": None}, "stop", usage).encode())
    assert found.usage == expected
    result, _ = judged([Say(body=answered({"content": None}, "stop", usage))], judge_max_retries=0)
    assert result.spent.estimated == (None in (expected.prompt_tokens, expected.completion_tokens))
    assert result.spent.prompt_tokens > 0


@pytest.mark.parametrize(
    ("body", "message", "fields"),
    [
        ({"error": {"message": "no such model", "param": "model"}}, "no such model", {"model"}),
        ({"error": "no such model"}, "no such model", set()),
        ({"detail": "no such model"}, "no such model", set()),
        ({"message": "no such model"}, "no such model", set()),
        ([{"error": {"message": "no such model"}}], "no such model", set()),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two", set()),
        ({"error": {"message": "bad", "param": "response_format.json_schema"}}, "bad", {"response_format"}),
        ({"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}, "body.seed: extra", {"seed"}),
        ({"detail": [{"loc": ["body", 0], "msg": "extra"}]}, "body: extra", set()),
        ({"code": 7}, '{"code": 7}', set()),
        ("no such model", "no such model", set()),
    ],
)
def test_errors_of_every_shape_are_read(body: object, message: str, fields: set[str]) -> None:
    assert read_error(json.dumps(body).encode()) == (message, fields)


def test_texts_and_pages_are_errors_too() -> None:
    assert read_error(b"no such\nmodel")[0] == "no such model"
    page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
    assert read_error(page)[0] == "502 Bad Gateway"
    assert read_error(b"<p>gone</p>")[0] == "gone"
    assert read_error(b"")[0] == ""
    assert read_error(b'{"a":' * 5000)[0].startswith('{"a":')


DROPS: list[tuple[int, object, str]] = [
    (422, {"detail": [{"loc": ["body", "response_format"], "msg": "Extra inputs"}]}, "response_format"),
    (400, {"message": "temperature is not supported"}, "temperature"),
    (400, {"error": "unknown field max_completion_tokens"}, "max_completion_tokens"),
]


@pytest.mark.parametrize(("status", "body", "field"), DROPS)
def test_a_field_that_an_endpoint_names_is_dropped_once_and_said_once(
    status: int, body: object, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    no = Say(status, json.dumps(body))
    result, server = judged([no, YES], judge_max_tokens=9)
    assert isinstance(result, Answered)
    assert [field in request for request in server.requests] == [True, False]
    assert server.requests[-1].get("max_tokens") == (9 if field == "max_completion_tokens" else None)
    assert [record.getMessage() for record in caplog.records if field in record.getMessage()].__len__() == 1
    result, server = judged([no, no, no], judge_max_tokens=9)
    assert isinstance(result, JudgeFailure)
    assert len(server.requests) == 2


def test_a_refusal_that_repeats_a_response_drops_no_field_and_its_detail_does_not_hold_it() -> None:
    response = "the temperature is 5 and the response_format odd"
    refusal = refused(400, f"Content policy violation in: {response[:40]}")
    [result] = asks(ScriptedJudge([refusal]), [JudgeRequest("Say how warm it is.", response, ("Is short.",))])
    assert (result.cause, result.spent.calls) == (FailureCause.REFUSED, 1)
    assert "temperature" not in result.detail
    assert "Content policy violation" in result.detail
    short = refused(400, "Not allowed: temperature")
    [result] = asks(ScriptedJudge([short]), [JudgeRequest("Say one word.", "temperature", ("Is short.",))])
    assert (result.cause, result.spent.calls) == (FailureCause.REFUSED, 1)


@pytest.mark.parametrize("status", [301, 308, 400, 401, 403, 404])
def test_a_call_that_repeating_cannot_mend_is_sent_once(status: int) -> None:
    result, server = judged([refused(status, "no", None, "Location: https://new.example/v1")])
    assert len(server.requests) == 1
    assert (result.spent.prompt_tokens, result.spent.estimated) == (0, False)
    assert ("new.example" in result.detail) == (status in (301, 308))


def test_an_answer_without_an_end_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinsmith.lab.judge.endpoint._LARGEST_ANSWER", 1000)
    result, server = judged([Say(body="x" * 2000)])
    assert result.cause is FailureCause.NO_CONTENT
    assert "larger" in result.detail
    assert len(server.requests) == 1


def test_a_compressed_body_is_decoded_no_further_than_its_bound() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    body = BoundedBody("gzip", 1000)
    with pytest.raises(DataError, match="larger"):
        body.add(bomb)
    whole = BoundedBody("gzip", 5)
    for byte in gzip.compress(b"hello"):
        whole.add(bytes([byte]))
    assert whole.whole() == b"hello"
    for encoding, raw in (("gzip", b"no gzip"), ("br", b"x")):
        with pytest.raises(DataError):
            BoundedBody(encoding, 10).add(raw)
    part = BoundedBody("gzip", 100)
    part.add(gzip.compress(b"hello")[:-9])
    with pytest.raises(DataError, match="early"):
        part.whole()
