"""Uses of the `anthropic` SDK, case by case; prints what came of it.

python with_anthropic.py CASE        # and ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY
"""

import json
import sys
from typing import Any

import anthropic

NANO, TALKER = "tinsmith/nano", "tests/talker"
client = anthropic.Anthropic(max_retries=0)
ASKED: list[Any] = [{"role": "user", "content": "What is 19 + 23?"}]
GREEDY = {"temperature": 0}
"""This SDK has no argument for it any more."""
ADD: Any = {
    "name": "add",
    "description": "Adds two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def message() -> Any:
    parts: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "What is 19 + 23?"}]}]
    done = client.messages.create(model=TALKER, messages=parts, system="Be brief.", max_tokens=16)
    cut = client.messages.create(model=TALKER, messages=ASKED, max_tokens=2)
    stopped = client.messages.create(model=TALKER, messages=ASKED, max_tokens=16, stop_sequences=["sum"])
    return {
        "text": done.content[0].text,
        "reasons": [each.stop_reason for each in (done, cut, stopped)],
        "tokens": [done.usage.input_tokens, cut.usage.output_tokens],
        "sequence": stopped.stop_sequence,
    }


def stream() -> Any:
    with client.messages.stream(model=TALKER, messages=ASKED, max_tokens=16, extra_body=GREEDY) as events:
        streamed = "".join(events.text_stream)
        last = events.get_final_message()
    whole = client.messages.create(model=TALKER, messages=ASKED, max_tokens=16, extra_body=GREEDY)
    return {"streamed": streamed, "whole": whole.content[0].text, "reason": last.stop_reason}


def tools() -> Any:
    options: Any = {"model": TALKER, "tools": [ADD], "max_tokens": 32, "extra_body": GREEDY}
    first = client.messages.create(messages=ASKED, **options)
    [use] = [block for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": str(use.input["a"] + use.input["b"])}
    blocks = [block.model_dump(exclude_none=True) for block in first.content]
    words: list[Any] = [*ASKED, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    last = client.messages.create(messages=words, **options)
    with client.messages.stream(messages=ASKED, **options) as events:
        streamed = events.get_final_message()
    return {
        "name": use.name,
        "given": use.input,
        "reasons": [first.stop_reason, last.stop_reason, streamed.stop_reason],
        "answer": last.content[0].text,
        "streamed": [block.input for block in streamed.content if block.type == "tool_use"],
    }


def refusals() -> Any:
    lines: list[Any] = []
    for changed in (
        {"model": "claude-5"},
        {"extra_body": {"temperature": -1.0}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ):
        options: Any = {"model": TALKER, "messages": ASKED, "max_tokens": 2048, **changed}
        try:
            client.messages.create(**options)
        except anthropic.APIStatusError as error:
            lines.append([error.status_code, error.body["type"], error.body["error"]["type"]])
    return lines


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
