"""Uses of `litellm`, case by case and by both providers; prints what came of it.

python with_litellm.py CASE        # and SERVER, OPENAI_API_KEY
"""

import json
import os
import sys
from typing import Any

import litellm

PROVIDERS = ("openai", "hosted_vllm")
ASKED = [{"role": "user", "content": "What is 19 + 23?"}]
ADD = {
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
OPTIONS: dict[str, Any] = {
    "api_base": f"{os.environ['SERVER']}/v1",
    "api_key": os.environ["OPENAI_API_KEY"],
    "num_retries": 0,
}


def chat(provider: str) -> Any:
    model = f"{provider}/tests/talker"
    options: Any = {"model": model, "messages": ASKED, "max_tokens": 16, "seed": 1, **OPTIONS}
    whole = litellm.completion(**options).choices[0].message.content
    pieces = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **options)]
    return {"whole": whole, "streamed": "".join(pieces)}


def tools(provider: str) -> Any:
    model = f"{provider}/tests/talker"
    done = litellm.completion(model=model, messages=ASKED, tools=[ADD], max_tokens=32, **OPTIONS)
    [call] = done.choices[0].message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]


def text(provider: str) -> Any:
    kind = "text-completion-openai" if provider == "openai" else provider
    done = litellm.text_completion(model=f"{kind}/tinsmith/nano", prompt="One", max_tokens=4, temperature=0, **OPTIONS)
    return done.choices[0].text


if __name__ == "__main__":
    print(json.dumps({provider: globals()[sys.argv[1]](provider) for provider in PROVIDERS}))
