"""/v1/responses, through OpenAI's SDK and its agents."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from scripted import CALL, NOW, OK, SCHEMA, replies, text_of

from loopback import KEY, MODEL, Running
from running import HANG_S
from tinsmith.server.responses.items import Item, turns_of

pytestmark = pytest.mark.whole

TOOLS: list[Any] = [
    {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False},
    {"type": "function", "name": "now", "parameters": None, "strict": None},
]


@pytest.fixture(scope="module")
def client(tooled: Running) -> Iterator[OpenAI]:
    with tooled.client() as own:
        yield own


def create(client: OpenAI, **given: Any) -> Any:
    requests = {"model": MODEL, "input": "Weather?", "max_output_tokens": 64, **given}
    return client.responses.create(**requests)


def told(response: Any) -> dict[str, Any]:
    """A response without what no two have in common."""
    dumped = response.model_dump(
        exclude={"id", "created_at", "completed_at", "parsed", "output_parsed"}, exclude_none=True
    )
    for item in dumped["output"]:
        item.pop("id")
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return dumped


def test_a_response_is_the_chat_s_reply(client: OpenAI) -> None:
    response = create(client, temperature=0, max_output_tokens=12)
    chat = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Weather?"}], temperature=0, max_tokens=12
    )
    assert response.output_text == chat.choices[0].message.content
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    assert response.usage.output_tokens == chat.usage.completion_tokens
    assert (response.object, response.store, response.temperature) == ("response", False, 0.0)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        ("Just words.", ["message"]),
        (CALL + " ", ["function_call"]),
        (f"I look.\n{CALL}\n{NOW}\nSo.", ["message", "function_call", "function_call", "message"]),
        ("", []),
    ],
)
def test_items_are_told_whole_and_streamed(client: OpenAI, reply: str, kinds: list[str], cut: bool, size: int) -> None:
    if cut and not reply:
        return
    given: dict[str, Any] = {"model": MODEL, "input": "Weather?", "tools": TOOLS}
    with replies(reply, size=size, cut=cut):
        whole = create(client, tools=TOOLS)
        events = list(create(client, tools=TOOLS, stream=True))
        if not cut:
            with client.responses.stream(**given, max_output_tokens=64) as stream:
                assert told(stream.get_final_response())["output"] == told(whole)["output"]
    assert [item.type for item in whole.output] == kinds
    assert whole.status == ("incomplete" if cut else "completed")
    assert events[-1].type == f"response.{whole.status}"
    assert told(events[-1].response) == told(whole)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == events[-1].response.output
    if cut:
        assert whole.incomplete_details.reason == "max_output_tokens"
        assert whole.output[-1].status == ("incomplete" if kinds[-1] == "message" else "completed")


def test_a_stream_is_the_sequence_of_events_that_openai_tells(client: OpenAI) -> None:
    with replies(f"I look.\n{CALL}", size=1000):
        events = list(create(client, tools=TOOLS, stream=True))
    assert [event.type.removeprefix("response.") for event in events] == [
        *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done", "output_item.added"),
        *("function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"),
    ]
    assert {event.output_index for event in events[2:8]} == {0}
    assert {event.output_index for event in events[8:12]} == {1}
    assert json.loads(events[10].arguments) == {"city": "Oslo"}


def test_a_loop_of_calls_is_read_as_the_template_prints_it(client: OpenAI) -> None:
    with replies(f"I look.\n{CALL}\n{NOW}"):
        first = create(client, tools=TOOLS)
    given = [
        {"role": "developer", "content": "Always."},
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        *(item.model_dump() for item in first.output),
        *({"type": "function_call_output", "call_id": item.call_id, "output": item.name} for item in first.output[1:]),
    ]
    with replies("a") as request:
        create(client, input=given, instructions="Be brief.")
    assert text_of(request[0]) == (
        "<|system|>\nBe brief.<|end|>\n<|system|>\nAlways.<|end|>\n<|user|>\nWeather?<|end|>\n"
        f"<|assistant|>\nI look.\n{CALL}\n{NOW}<|end|>\n"
        "<|user|>\n<tool_response>\nweather\n</tool_response>\n<tool_response>\nnow\n</tool_response><|end|>\n"
        "<|assistant|>\n"
    )


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_a_required_call_is_made(client: OpenAI, choice: Any) -> None:
    made = 0
    for _ in range(3):
        response = create(client, tools=TOOLS, tool_choice=choice, max_output_tokens=150, parallel_tool_calls=False)
        if response.status == "incomplete":
            continue
        (item,) = response.output
        made += 1
        if item.name == "weather":
            assert json.loads(item.arguments)["city"] in ("Oslo", "Rome")
    assert made


@pytest.mark.parametrize(
    "form", [{"type": "json_object"}, {"type": "json_schema", "name": "a", "strict": True, "schema": OK}]
)
def test_a_format_is_the_form_of_the_text(client: OpenAI, form: dict[str, Any]) -> None:
    response = create(client, text={"format": form}, max_output_tokens=300)
    assert response.status == "incomplete" or isinstance(json.loads(response.output_text), dict)
    if form["type"] == "json_schema":
        assert isinstance(json.loads(response.output_text)["ok"], bool)


def test_what_means_nothing_is_taken(client: OpenAI) -> None:
    with replies("a") as question:
        create(client)
        response = create(
            client,
            store=False,
            include=[],
            truncation="disabled",
            text={"format": {"type": "text"}, "verbosity": "medium"},
            metadata={"a": "b"},
            user="u",
            background=False,
            parallel_tool_calls=True,
            reasoning={},
        )
    assert question[0] == question[1]
    assert response.metadata == {"a": "b"}


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("previous_response_id", {"previous_response_id": "resp_1"}),
        ("store", {"store": True}),
        ("background", {"background": True}),
        ("reasoning", {"reasoning": {"effort": "low"}}),
        ("include", {"include": ["reasoning.encrypted_content"]}),
        ("truncation", {"truncation": "auto"}),
        ("conversation", {"conversation": "c"}),
        ("tools[0].type", {"tools": [{"type": "web_search"}]}),
        ("tool_choice", {"tools": TOOLS, "tool_choice": {"type": "file_search"}}),
        ("tool_choice", {"tools": TOOLS, "tool_choice": {"type": "function", "name": "other"}}),
        ("text.verbosity", {"text": {"verbosity": "high"}}),
        ("text.format.type", {"text": {"format": {"type": "grammar"}}}),
        ("input[0].type", {"input": [{"type": "item_reference", "id": "r"}]}),
        ("input[0].type", {"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}]}),
        ("input[0].encrypted_content", {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "a"}]}),
        ("input[0].summary[0].type", {"input": [{"type": "reasoning", "summary": [{"type": "text", "text": "a"}]}]}),
        ("input[0].role", {"input": [{"role": "tool", "content": "a"}]}),
        (
            "input[0].content[0].type",
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}]},
        ),
        ("input[0].arguments", {"input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "[]"}]}),
        ("input", {"input": []}),
        ("max_output_tokens", {"max_output_tokens": 100_000}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_served_is_refused_by_name(client: OpenAI, param: str, given: dict[str, Any], stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, stream=stream, **given)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_an_unknown_model_names_those_that_are_served(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=MODEL):
        create(client, model="gpt-5")


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool_and_answers(tooled: Running, stream: bool) -> None:
    agents = pytest.importorskip("agents")
    given: list[str] = []

    async def weather(city: str) -> str:
        """Tell the weather of a city."""
        given.append(city)
        return "4 degrees"

    async def run(text: str) -> str:
        async with openai.AsyncOpenAI(base_url=f"{tooled.url}/v1", api_key=KEY, max_retries=0, timeout=HANG_S) as own:
            agents.set_tracing_disabled(True)
            model = agents.OpenAIResponsesModel(model=MODEL, openai_client=own)
            agent = agents.Agent(name="a", instructions="Help.", model=model, tools=[agents.function_tool(weather)])
            agent = agent.clone(tool_use_behavior="stop_on_first_tool")
            with replies(text):
                if not stream:
                    return str((await agents.Runner.run(agent, "Weather?")).final_output)
                streamed = agents.Runner.run_streamed(agent, "Weather?")
                async for _ in streamed.stream_events():
                    pass
                return str(streamed.final_output)

    assert asyncio.run(run(CALL)) == "4 degrees"
    assert asyncio.run(run("Just words.")) == "Just words."
    assert given == ["Oslo"]


def _item(kind: str, **given: object) -> Item:
    return Item.model_validate({"type": kind, **given})


def test_a_reasoning_belongs_to_the_reply_or_the_call_after_it() -> None:
    lines = [{"type": "reasoning_text", "text": "full"}]
    short = [{"type": "summary_text", "text": "short"}, {"type": "summary_text", "text": "er"}]
    call = {"call_id": "1", "name": "f", "arguments": "{}"}
    turns = turns_of(
        [
            _item("message", role="user", content="a"),
            _item("reasoning", id="r", summary=short, content=lines, encrypted_content=None),
            _item("message", role="assistant", content="b"),
            _item("function_call", **call),
            _item("function_call_output", call_id="1", output="c"),
            _item("reasoning", summary=short),
            _item("function_call", **call),
            _item("message", role="user", content="d"),
            _item("reasoning", summary=[]),
            _item("message", role="user", content="e"),
        ]
    )
    assert [turn.reasoning for turn in turns] == [None, "full", None, "shorter", None, None]
    assert [len(turn.calls) for turn in turns] == [0, 1, 0, 1, 0, 0]
