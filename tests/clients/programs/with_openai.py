"""Uses of the `openai` SDK, case by case; prints what came of it.

python with_openai.py CASE        # and OPENAI_BASE_URL, OPENAI_API_KEY
"""

import json
import sys
from typing import Any, Literal

import openai
from openai import OpenAI
from pydantic import BaseModel

NANO, TALKER = "tinsmith/nano", "tests/talker"
client = OpenAI(max_retries=0)
ASKED: list[Any] = [{"role": "user", "content": "What is 19 + 23?"}]
ADD: Any = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


class Verdict(BaseModel):
    """An answer of known length."""

    right: bool
    mark: Literal["high", "low"]


def chat() -> Any:
    def ask(seed: int) -> Any:
        return client.chat.completions.create(model=NANO, messages=ASKED, max_completion_tokens=12, seed=seed)

    first, again, other = ask(1), ask(1), ask(2)
    texts = [each.choices[0].message.content for each in (first, again, other)]
    return {"texts": texts, "reason": first.choices[0].finish_reason, "usage": first.usage.model_dump()}


def stream() -> Any:
    options: Any = {"model": NANO, "messages": ASKED, "max_tokens": 24, "seed": 3}
    whole = client.chat.completions.create(**options).choices[0].message.content
    text, usage = "", None
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **options):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    return {"whole": whole, "streamed": text, "tokens": usage and usage.completion_tokens}


def logprobs() -> Any:
    done = client.chat.completions.create(
        model=NANO, messages=ASKED, max_tokens=4, seed=1, logprobs=True, top_logprobs=3
    )
    content = done.choices[0].logprobs.content
    return [{"logprob": t.logprob, "top": [each.logprob for each in t.top_logprobs]} for t in content]


def completions() -> Any:
    options: Any = {"model": NANO, "max_tokens": 6, "temperature": 0}
    texts = client.completions.create(prompt=["One", "Two"], n=2, **options)
    tokens = client.completions.create(prompt=[[20, 21, 22], [23, 24]], **options)
    return {"texts": [c.text for c in texts.choices], "tokens": [c.index for c in tokens.choices]}


def echo() -> Any:
    prompt = [20, 21, 22, 23]
    options: Any = {"model": NANO, "prompt": prompt, "echo": True, "logprobs": 1, "seed": 1}
    alone = client.completions.create(max_tokens=0, **options).choices[0]
    more = client.completions.create(max_tokens=2, **options).choices[0]
    return {
        "alone": alone.logprobs.token_logprobs,
        "more": more.logprobs.token_logprobs,
        "begins": more.text.startswith(alone.text),
    }


def extras() -> Any:
    neutral = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    options: Any = {"model": NANO, "messages": ASKED, "max_tokens": 8, "seed": 1}
    plain = client.chat.completions.create(**options)
    same = client.chat.completions.create(**options, extra_body=neutral)
    best = client.chat.completions.create(**options, extra_body={"top_k": 1})
    greedy = client.chat.completions.create(**{**options, "temperature": 0})
    return [each.choices[0].message.content for each in (plain, same, best, greedy)]


def ids() -> Any:
    extra = {"return_token_ids": True}
    chat = client.chat.completions.create(
        model=NANO, messages=ASKED, max_tokens=4, seed=1, extra_body=extra
    ).model_dump()
    plain = client.completions.create(model=NANO, prompt="One", max_tokens=4, seed=1, extra_body=extra).model_dump()
    return {
        "chat": [len(chat["prompt_token_ids"]) == chat["usage"]["prompt_tokens"], len(chat["choices"][0]["token_ids"])],
        "plain": [bool(plain["choices"][0]["prompt_token_ids"]), len(plain["choices"][0]["token_ids"])],
    }


def tools() -> Any:
    options: Any = {"model": TALKER, "tools": [ADD], "max_tokens": 32, "seed": 1}
    first = client.chat.completions.create(messages=ASKED, **options).choices[0]
    [call] = first.message.tool_calls
    given = json.loads(call.function.arguments)
    words: list[Any] = [
        *ASKED,
        first.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": str(given["a"] + given["b"])},
    ]
    last = client.chat.completions.create(messages=words, **options).choices[0]
    return {
        "name": call.function.name,
        "given": given,
        "reasons": [first.finish_reason, last.finish_reason],
        "answer": last.message.content,
    }


def tools_streamed() -> Any:
    name, given, reason = "", "", None
    for chunk in client.chat.completions.create(
        model=TALKER, messages=ASKED, tools=[ADD], max_tokens=32, seed=1, stream=True
    ):
        for choice in chunk.choices:
            for call in choice.delta.tool_calls or ():
                name += call.function.name or ""
                given += call.function.arguments or ""
            reason = choice.finish_reason or reason
    return {"name": name, "given": json.loads(given), "reason": reason}


def roles() -> Any:
    developer: list[Any] = [{"role": "developer", "content": "Be brief."}, {**ASKED[0], "name": "Ann"}]
    answer = client.chat.completions.create(model=TALKER, messages=developer, max_tokens=16, seed=1)
    begun: list[Any] = [*ASKED, {"role": "assistant", "content": "41"}]
    extra = {"continue_final_message": True, "add_generation_prompt": False}
    gone_on = client.chat.completions.create(model=TALKER, messages=begun, max_tokens=16, seed=1, extra_body=extra)
    return [each.choices[0].message.content for each in (answer, gone_on)]


def schema() -> Any:
    done = client.chat.completions.parse(model=NANO, messages=ASKED, max_tokens=200, seed=1, response_format=Verdict)
    return done.choices[0].message.parsed.model_dump()


def json_object() -> Any:
    done = client.chat.completions.create(
        model=TALKER, messages=ASKED, max_tokens=400, seed=1, response_format={"type": "json_object"}
    ).choices[0]
    return {"reason": done.finish_reason, "text": done.message.content}


def responses() -> Any:
    options: Any = {"model": TALKER, "input": "What is 19 + 23?", "max_output_tokens": 16, "temperature": 0}
    whole = client.responses.create(**options)
    events = list(client.responses.create(stream=True, **options))
    tool: Any = {"type": "function", **ADD["function"]}
    called = client.responses.create(tools=[tool], **{**options, "max_output_tokens": 32})
    [call] = [item for item in called.output if item.type == "function_call"]
    return {
        "status": whole.status,
        "text": whole.output_text,
        "streamed": "".join(e.delta for e in events if e.type == "response.output_text.delta"),
        "last": events[-1].type,
        "call": [call.name, json.loads(call.arguments)],
    }


def models() -> Any:
    listed = {model.id: model.model_dump() for model in client.models.list()}
    return listed[NANO].get("max_model_len")


def refusals() -> Any:
    """Return the answers to an unknown model, an unserved route and a mistaken value."""
    lines: list[Any] = []
    for ask in (
        lambda: client.chat.completions.create(model="gpt-5", messages=ASKED),
        lambda: client.embeddings.create(model=NANO, input="One"),
        lambda: client.chat.completions.create(model=NANO, messages=ASKED, temperature=-1),
    ):
        try:
            ask()
        except openai.APIStatusError as error:
            lines.append([error.status_code, isinstance(error.body, dict), error.message])
    return lines


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
