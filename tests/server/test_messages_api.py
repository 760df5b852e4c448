"""Anthropic's /v1/messages, through its own SDK."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic
from scripted import CALL, NOW, OK, SCHEMA, replies, text_of

from loopback import KEY, MODEL, Running
from running import HANG_S
from tinsmith.models.presets import PRESETS

pytestmark = pytest.mark.whole

ASK: list[Any] = [{"role": "user", "content": "Weather?"}]
TOOLS: list[Any] = [
    {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA},
    {"name": "now", "input_schema": {"type": "object"}, "type": "custom"},
]
DOCUMENT = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "document"}]}


def client_of(tooled: Running, key: str = KEY) -> Anthropic:
    return Anthropic(base_url=tooled.url, api_key=key, max_retries=0, timeout=HANG_S)


@pytest.fixture(scope="module")
def client(tooled: Running) -> Iterator[Anthropic]:
    with client_of(tooled) as own:
        yield own


def create(client: Anthropic, **given: Any) -> Any:
    return client.messages.create(**asking(given))


def streamed(client: Anthropic, **given: Any) -> Any:
    with client.messages.stream(**asking(given)) as stream:
        return stream.get_final_message()


def asking(given: dict[str, Any]) -> dict[str, Any]:
    """A request's arguments; this SDK has no words for how tokens are drawn, though the protocol has."""
    extra = {name: given[name] for name in ("temperature", "top_k", "top_p") if name in given}
    known = {name: value for name, value in given.items() if name not in extra}
    body = {**extra, **known.pop("extra_body", {})}
    return {"model": MODEL, "messages": ASK, "max_tokens": 64, **known, "extra_body": body}


def told(message: Any) -> dict[str, Any]:
    return message.model_dump(exclude={"id"}, exclude_none=True)


def test_a_message_is_the_chat_s_reply(tooled: Running, client: Anthropic) -> None:
    message = create(client, top_k=1, max_tokens=12)
    with tooled.client() as other:
        chat = other.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_tokens=12)
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    assert "".join(block.text for block in message.content) == chat.choices[0].message.content
    assert message.usage.input_tokens == chat.usage.prompt_tokens
    assert message.usage.output_tokens == chat.usage.completion_tokens
    reasons = {"stop": "end_turn", "length": "max_tokens"}
    assert message.stop_reason == reasons[chat.choices[0].finish_reason]


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("reply", "kinds", "reason"),
    [
        ("Just words.", ["text"], "end_turn"),
        (CALL, ["tool_use"], "tool_use"),
        (f"I look.\n{CALL}\n{NOW}\nSo.", ["text", "tool_use", "tool_use", "text"], "tool_use"),
        ("", [], "end_turn"),
    ],
)
def test_blocks_are_told_whole_and_streamed(
    client: Anthropic, reply: str, kinds: list[str], reason: str, size: int
) -> None:
    with replies(reply, size=size):
        whole = create(client, tools=TOOLS)
        assert told(streamed(client, tools=TOOLS)) == told(whole)
    assert [block.type for block in whole.content] == kinds
    assert (whole.stop_reason, whole.stop_sequence) == (reason, None)
    for block in whole.content:
        if block.type == "tool_use" and block.name == "weather":
            assert block.input == {"city": "Oslo"}
            assert block.id.startswith("toolu_")


def test_a_stream_is_the_sequence_of_events_that_anthropic_tells(client: Anthropic) -> None:
    with replies(f"I look.\n{CALL}", size=1000):
        events = list(create(client, tools=TOOLS, stream=True))
    kinds = [event.type for event in events]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert [event.index for event in events if hasattr(event, "index")] == [0, 0, 0, 1, 1, 1]
    assert events[0].message.stop_reason is None
    assert events[4].content_block.input == {}
    assert json.loads(events[5].delta.partial_json) == {"city": "Oslo"}
    assert events[-2].usage.output_tokens > 0


def test_events_carry_their_names(tooled: Running) -> None:
    connection = http.client.HTTPConnection(tooled.url.removeprefix("http://"))
    body = {"model": MODEL, "messages": ASK, "max_tokens": 4, "stream": True}
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    connection.request("POST", "/v1/messages?beta=true", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.read().decode().split("\n\n")
    connection.close()
    assert events[-1] == ""
    for event in events[:-1]:
        named, data = event.split("\n")
        assert json.loads(data.removeprefix("data: "))["type"] == named.removeprefix("event: ")


def test_a_stop_sequence_is_named(client: Anthropic) -> None:
    requests = {"top_k": 1, "max_tokens": 24}
    text = create(client, **requests).content[0].text
    stop = text[4:7]
    requests["stop_sequences"] = ["never there", stop]
    for message in (create(client, **requests), streamed(client, **requests)):
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
        assert "".join(block.text for block in message.content) == text[: text.index(stop)]


def test_a_loop_of_calls_is_read_as_the_template_prints_it(client: Anthropic) -> None:
    with replies(f"I look.\n{CALL}\n{NOW}"):
        message = create(client, tools=TOOLS)
    results = [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": [{"type": "text", "text": block.name}] if i else block.name,
            "is_error": bool(i),
        }
        for i, block in enumerate(message.content[1:])
    ]
    cached = {"type": "ephemeral"}
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": cached}]},
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "Well?"}]},
    ]
    system = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    with replies("a") as request:
        create(client, messages=talk, system=system)
    assert text_of(request[0]) == (
        f"<|system|>\nBe brief.<|end|>\n<|user|>\nWeather?<|end|>\n<|assistant|>\nI look.\n{CALL}\n{NOW}<|end|>\n"
        "<|user|>\n<tool_response>\nweather\n</tool_response>\n<tool_response>\nnow\n</tool_response><|end|>\n"
        "<|user|>\nWell?<|end|>\n<|assistant|>\n"
    )


def test_a_last_reply_is_gone_on_with(client: Anthropic) -> None:
    talk = [*ASK, {"role": "assistant", "content": "It is ("}]
    with replies("B)") as question:
        assert create(client, messages=talk).content[0].text == "B)"
    assert text_of(question[0]).endswith("<|assistant|>\nIt is (")


def test_a_model_that_is_told_not_to_think_is_told_so_where_its_template_knows(client: Anthropic) -> None:
    with replies("a") as calls:
        create(client, thinking={"type": "disabled"})
    assert text_of(calls[0]).endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_required_call_is_made(client: Anthropic, choice: dict[str, Any]) -> None:
    choice["disable_parallel_tool_use"] = True
    made = 0
    for _ in range(3):
        message = create(client, tools=TOOLS, tool_choice=choice, max_tokens=150)
        if message.stop_reason == "max_tokens":
            continue
        (block,) = message.content
        assert message.stop_reason == "tool_use"
        made += block.name == "weather" and block.input["city"] in ("Oslo", "Rome")
        made += block.name == "now"
    assert made


def test_a_schema_is_the_form_of_the_text(client: Anthropic) -> None:
    message = create(client, output_config={"format": {"type": "json_schema", "schema": OK}})
    assert isinstance(json.loads(message.content[0].text)["ok"], bool)


def test_tokens_are_counted_as_the_prompt_has_them(client: Anthropic) -> None:
    with replies("a"):
        message = create(client, tools=TOOLS, system="Rules.")
    counted = client.messages.count_tokens(model=MODEL, messages=ASK, tools=TOOLS, system="Rules.")
    assert counted.input_tokens == message.usage.input_tokens


def test_a_prompt_that_fills_the_context_is_counted(client: Anthropic) -> None:
    def count(letters: int) -> int:
        words: list[Any] = [{"role": "user", "content": "q" * letters}]
        return client.messages.count_tokens(model=MODEL, messages=words).input_tokens

    around, context = count(1) - 1, PRESETS["nano"].max_positions
    assert count(context - around) == context
    with pytest.raises(anthropic.BadRequestError):
        count(context - around + 1)


def test_unseeded_messages_differ_and_remarks_change_nothing(client: Anthropic) -> None:
    with replies("a") as asked:
        create(client)
        create(client, metadata={"user_id": "u"}, service_tier="auto", temperature=1.0)
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("thinking.type", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("container", {"extra_body": {"container": "c"}}),
        ("output_config.effort", {"output_config": {"effort": "low"}}),
        ("tools[0].type", {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
        ("tools[0].defer_loading", {"tools": [{**TOOLS[0], "defer_loading": True}]}),
        ("tool_choice", {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}}),
        ("tool_choice.name", {"tools": TOOLS, "tool_choice": {"type": "tool"}}),
        ("tool_choice", {"tool_choice": {"type": "any"}}),
        ("messages", {"messages": []}),
        ("messages[0].role", {"messages": [{"role": "tool", "content": "a"}]}),
        ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
        ("messages[0].content[0].content[0].type", {"messages": [{"role": "user", "content": [DOCUMENT]}]}),
        ("max_tokens", {"max_tokens": 100_000}),
        ("temperature", {"temperature": -1.0}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_served_is_refused_by_name_in_anthropic_s_shape(
    client: Anthropic, field: str, given: dict[str, Any], stream: bool
) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(client, stream=stream, **given)
    assert caught.value.body["type"] == "error"
    error = caught.value.body["error"]
    assert error["type"] == "invalid_request_error"
    assert f"field: {field} " in error["message"].replace("sampling_params.", "") + " "
    assert error["message"].count("\n") <= 4


def test_a_message_without_a_length_is_refused(tooled: Running) -> None:
    with tooled.http() as http_client:
        answer = http_client.post("/v1/messages", json={"model": MODEL, "messages": ASK})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "max_tokens" in answer.json()["error"]["message"]


def test_an_unknown_model_and_a_wrong_key_are_told_in_anthropic_s_shape(tooled: Running, client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match=MODEL) as missing:
        create(client, model="claude")
    assert missing.value.body["error"]["type"] == "not_found_error"
    with client_of(tooled, "tml-wrong") as stranger, pytest.raises(anthropic.AuthenticationError) as refused:
        create(stranger)
    assert refused.value.body["error"]["type"] == "authentication_error"


def test_a_full_queue_is_told_in_anthropic_s_shape(
    client: Anthropic, tooled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tooled.service, "max_queue", 0)
    with pytest.raises(anthropic.RateLimitError) as caught:
        create(client)
    assert caught.value.body["error"]["type"] == "rate_limit_error"
