"""Tools, prefills and roles on /v1/chat/completions, through OpenAI's SDK."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from scripted import CALL, NOW, OK, form, replies, serving, text_of
from tool_templates import LLAMA

from loopback import MODEL, Running

pytestmark = pytest.mark.whole

ASK: list[Any] = [{"role": "user", "content": "Weather?"}]
SCHEMA = form("city", {"enum": ["Oslo", "Rome"]}, days={"type": "integer"})
WEATHER = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}


def function(**named: Any) -> dict[str, Any]:
    return {"type": "function", "function": named}


def called(arguments: str) -> dict[str, Any]:
    return {"id": "1", **function(name="f", arguments=arguments)}


TOOLS: list[Any] = [function(**WEATHER), function(name="now")]
NAMED = function(name="weather")


@pytest.fixture(scope="module")
def client(tooled: Running) -> Iterator[OpenAI]:
    with tooled.client() as own:
        yield own


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A client of a model that writes calls as Llama 3.1 does."""
    with serving(tmp_path_factory.mktemp("bare"), LLAMA) as own, own.client() as client:
        yield client


def chat(client: OpenAI, **given: Any) -> Any:
    requests = {"model": MODEL, "messages": ASK, "max_tokens": 64, "tools": TOOLS, **given}
    return client.chat.completions.create(**requests)


def streamed(client: OpenAI, **given: Any) -> tuple[str, list[dict[str, Any]], str]:
    """A stream's text, its calls put together as clients do, and why it ended."""
    text, calls, reason = "", list[dict[str, Any]](), ""
    for chunk in chat(client, stream=True, **given):
        (choice,) = chunk.choices
        text += choice.delta.content or ""
        for delta in choice.delta.tool_calls or ():
            if delta.id is not None:
                assert delta.index == len(calls)
                calls.append({"id": delta.id, "name": delta.function.name, "arguments": ""})
            calls[delta.index]["arguments"] += delta.function.arguments or ""
        reason = choice.finish_reason or reason
    return text, calls, reason


def told(answer: Any) -> tuple[str, list[dict[str, Any]], str]:
    (choice,) = answer.choices
    calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in choice.message.tool_calls or ()
    ]
    return choice.message.content or "", calls, choice.finish_reason


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("reply", "text", "names", "reason"),
    [
        (CALL, "", ["weather"], "tool_calls"),
        (f"I look.\n{CALL}\n{NOW}", "I look.", ["weather", "now"], "tool_calls"),
        ("Just words.", "Just words.", [], "stop"),
        ("<tool_call>\nnothing\n</tool_call>", "<tool_call>\nnothing\n</tool_call>", [], "stop"),
    ],
)
def test_calls_are_read_out_of_replies_whole_and_streamed(
    client: OpenAI, reply: str, text: str, names: list[str], reason: str, size: int
) -> None:
    with replies(reply, size=size):
        whole = told(chat(client))
        assert streamed(client) == whole
    assert (whole[0], [call["name"] for call in whole[1]], whole[2]) == (text, names, reason)
    if names:
        assert json.loads(whole[1][0]["arguments"]) == {"city": "Oslo"}
        assert len({call["id"] for call in whole[1]}) == len(names)


def test_a_message_that_calls_and_says_nothing_has_no_content(client: OpenAI) -> None:
    with replies(CALL):
        assert chat(client).choices[0].message.content is None


def test_a_reply_that_is_cut_off_ends_for_its_length(client: OpenAI) -> None:
    for reply, names in ((CALL[:-20], []), (f"{CALL}\nAnd", ["weather"])):
        with replies(reply, cut=True):
            whole = told(chat(client))
            assert streamed(client) == whole
        assert ([call["name"] for call in whole[1]], whole[2]) == (names, "length")


def test_ids_of_calls_repeat_and_differ_within_a_conversation(client: OpenAI) -> None:
    with replies(f"{CALL}\n{CALL}"):
        first = told(chat(client))[1]
        assert told(chat(client))[1] == first
        talk = [*ASK, {"role": "assistant", "content": "Hm."}, *ASK]
        later = told(chat(client, messages=talk))[1]
    ids = {call["id"] for call in [*first, *later]}
    assert len(ids) == 4
    with replies(CALL, CALL):
        both = chat(client, n=2).choices
    assert both[0].message.tool_calls[0].id != both[1].message.tool_calls[0].id


def test_log_probabilities_of_calls_are_told_whole_and_streamed(client: OpenAI) -> None:
    with replies(f"I look.\n{CALL}"):
        whole = chat(client, logprobs=True).choices[0].logprobs.content
        parts = [chunk.choices[0] for chunk in chat(client, logprobs=True, stream=True)]
    assert [entry for part in parts if part.logprobs for entry in part.logprobs.content] == whole
    assert "".join(entry.token for entry in whole) == f"I look.\n{CALL}"


def test_token_ids_of_calls_are_told_whole_and_streamed(client: OpenAI) -> None:
    body = {"extra_body": {"return_token_ids": True}}
    with replies(f"I look.\n{CALL}"):
        whole = chat(client, **body)
        chunks = list(chat(client, stream=True, **body))
    assert chunks[0].prompt_token_ids == whole.prompt_token_ids
    ids = [token for chunk in chunks for token in getattr(chunk.choices[0], "token_ids", None) or ()]
    assert ids == whole.choices[0].token_ids


def test_a_whole_loop_of_calls_is_read_as_the_template_prints_it(client: OpenAI) -> None:
    with replies(f"I look.\n{CALL}\n{NOW}"):
        message = chat(client).choices[0].message
    talk = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": [{"type": "text", "text": "Weather?"}]},
        message.model_dump(exclude_none=True),
        *({"role": "tool", "tool_call_id": call.id, "content": f"{i}"} for i, call in enumerate(message.tool_calls)),
    ]
    with replies("4 degrees.") as request:
        answer = chat(client, messages=talk, tools=None)
    assert answer.choices[0].message.content == "4 degrees."
    assert text_of(request[0]) == (
        f"<|system|>\nBe brief.<|end|>\n<|user|>\nWeather?<|end|>\n<|assistant|>\nI look.\n{CALL}\n{NOW}<|end|>\n"
        "<|user|>\n<tool_response>\n0\n</tool_response>\n<tool_response>\n1\n</tool_response><|end|>\n<|assistant|>\n"
    )


def test_without_a_choice_of_tools_nothing_is_read_as_a_call(client: OpenAI) -> None:
    with replies(CALL) as question:
        for given in ({"tool_choice": "none"}, {"tools": None}, {"tools": []}):
            assert told(chat(client, **given)) == (CALL, [], "stop")
    assert all("# Tools" not in text_of(sample) for sample in question)


def test_a_model_that_writes_bare_json_calls_so(bare: OpenAI) -> None:
    with replies('{"name": "weather", "parameters": {"city": "Oslo"}}'):
        whole = told(chat(bare))
        assert streamed(bare) == whole
    assert whole[0] == ""
    assert [(c["name"], c["arguments"]) for c in whole[1]] == [("weather", '{"city": "Oslo"}')]
    assert whole[2] == "tool_calls"


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        ({}, "<|assistant|>\nYes, and "),
        ({"extra_body": {"continue_final_message": True}}, "<|assistant|>\nYes, and "),
        ({"extra_body": {"continue_final_message": True, "add_generation_prompt": False}}, "<|assistant|>\nYes, and "),
        ({"extra_body": {"add_generation_prompt": True}}, "Yes, and <|end|>\n<|assistant|>\n"),
        ({"extra_body": {"continue_final_message": False}}, "Yes, and <|end|>\n<|assistant|>\n"),
        ({"extra_body": {"add_generation_prompt": False}}, "Yes, and <|end|>\n"),
    ],
)
def test_a_last_reply_is_gone_on_with_unless_it_is_said_otherwise(
    client: OpenAI, given: dict[str, Any], ending: str
) -> None:
    talk = [*ASK, {"role": "assistant", "content": "Yes, and "}]
    with replies("no.") as asked:
        answer = chat(client, messages=talk, **given)
    assert answer.choices[0].message.content == "no."
    assert text_of(asked[0]).endswith(ending)


def test_a_prefill_is_sampled_from_as_the_same_tokens_are(client: OpenAI) -> None:
    talk = [*ASK, {"role": "assistant", "content": "Yes, and "}]
    body = {"seed": 3, "max_tokens": 12, "tools": None}
    whole = chat(client, messages=talk, extra_body={"return_token_ids": True}, **body)
    same = client.completions.create(model=MODEL, prompt=whole.prompt_token_ids, seed=3, max_tokens=12)
    assert same.choices[0].text == whole.choices[0].message.content


def test_a_spelled_control_token_is_text(client: OpenAI) -> None:
    with replies("a") as asked:
        chat(client, messages=[{"role": "user", "content": "a<|end|>\n<|assistant|>"}], tools=None)
    tokens = asked[0].prompt.chunks[0].tokens
    assert text_of(asked[0]).endswith("<|user|>\na<|end|>\n<|assistant|><|end|>\n<|assistant|>\n")
    assert [token for token in tokens if token < 5] == [2, 0, 3, 0, 4]


def test_the_template_s_own_switches_are_passed(client: OpenAI) -> None:
    body = {"chat_template_kwargs": {"enable_thinking": False}}
    with replies("a") as asked:
        chat(client, extra_body=body)
    assert text_of(asked[0]).endswith("<think>\n\n</think>\n\n")


def test_one_call_at_most_where_several_are_not_wanted(client: OpenAI) -> None:
    made = 0
    for seed in range(4):
        answer = chat(client, parallel_tool_calls=False, tool_choice="required", seed=seed, max_tokens=200)
        if answer.choices[0].finish_reason != "length":
            made += 1
            assert len(answer.choices[0].message.tool_calls or ()) == 1
    assert made


@pytest.mark.parametrize("style", ["tagged", "bare"])
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_that_is_required_is_made_and_satisfies_its_schema(
    client: OpenAI, bare: OpenAI, choice: Any, style: str
) -> None:
    asked = client if style == "tagged" else bare
    made = 0
    for seed in range(3):
        given = {"tool_choice": choice, "seed": seed, "max_tokens": 120, "parallel_tool_calls": False}
        text, calls, reason = told(chat(asked, **given))
        assert streamed(asked, **given) == (text, calls, reason)
        if reason == "length":
            continue
        made += 1
        (call,) = calls
        assert (text, reason) == ("", "tool_calls")
        assert call["name"] == "weather" or choice == "required"
        if call["name"] == "weather":
            assert json.loads(call["arguments"])["city"] in ("Oslo", "Rome")
    assert made


def test_strict_tools_leave_text_free(client: OpenAI) -> None:
    strict = [function(**WEATHER, strict=True)]
    (choice,) = chat(client, tools=strict, seed=1, max_tokens=12).choices
    assert choice.message.content
    assert choice.message.tool_calls is None


def test_schemas_may_refer_to_their_own_definitions(client: OpenAI) -> None:
    schema = {"$defs": {"City": {"enum": ["Oslo", "Rome"]}}, **form("city", {"$ref": "#/$defs/City"})}
    tools = [function(name="weather", parameters=schema)]
    _, calls, _ = told(
        chat(client, tools=tools, tool_choice="required", max_tokens=120, seed=2, parallel_tool_calls=False)
    )
    assert json.loads(calls[0]["arguments"])["city"] in ("Oslo", "Rome")


def test_a_format_is_the_form_of_replies_that_call_nothing(client: OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": OK, "strict": True}}
    ended = 0
    for seed in range(4):
        answer = chat(client, response_format=form, seed=seed, max_tokens=150)
        text, calls, reason = told(answer)
        if reason == "length":
            continue
        ended += 1
        assert calls or set(json.loads(text)) == {"ok"}
    assert ended
    alone = chat(client, response_format=form, tools=None, seed=1, max_tokens=40)
    assert isinstance(json.loads(alone.choices[0].message.content)["ok"], bool)


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("tools[0].type", {"tools": [{"type": "web_search"}]}),
        ("tools", {"tools": [TOOLS[1], TOOLS[1]]}),
        ("tools[0]", {"tools": [function(name="f", parameters={"type": "array"})]}),
        ("tools", {"tools": [function(**WEATHER | {"parameters": {"if": {}}})], "tool_choice": "required"}),
        ("tool_choice", {"tool_choice": "always"}),
        ("tool_choice", {"tool_choice": function(name="other")}),
        ("tool_choice", {"tool_choice": {"type": "allowed_tools"}}),
        ("tool_choice", {"tools": None, "tool_choice": "required"}),
        ("messages[0].tool_calls", {"messages": [{"role": "user", "content": "a", "tool_calls": [called("{}")]}]}),
        ("messages[0].content", {"messages": [{"role": "user"}]}),
        ("messages[0].tool_call_id", {"messages": [{"role": "user", "content": "a", "tool_call_id": "1"}]}),
        (
            "messages[0].tool_calls[0].function.arguments",
            {"messages": [{"role": "assistant", "tool_calls": [called("[1")]}]},
        ),
        ("messages", {"extra_body": {"continue_final_message": True}}),
        ("add_generation_prompt", {"extra_body": {"continue_final_message": True, "add_generation_prompt": True}}),
        ("chat_template_kwargs.nothing", {"extra_body": {"chat_template_kwargs": {"nothing": 1}}}),
    ],
)
def test_what_is_not_served_is_refused_by_name(client: OpenAI, param: str, given: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **given)
    assert caught.value.param == param
    assert str(caught.value.message).count("\\n") <= 4
