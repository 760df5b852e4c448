"""Chat templates of served models: failures told with their line, endless ones ended, earlier reasoning shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from made_tokenizers import TEMPLATE, byte_level, model_folder

from loopback import Running, start, stop

REASONED = (
    "{%- for m in messages -%}{{- '<|' + m.role + '|>' -}}{%- if m.reasoning_content -%}"
    "{{- '<think>' + m.reasoning_content + '</think>' -}}{%- endif -%}{{- m.content + '<|end|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
LONG = (
    "{%- if messages | length > 2 -%}{%- for i in range(99999) -%}{%- for j in range(99999) -%}{%- endfor -%}"
    "{%- endfor -%}{%- endif -%}"
)
STRICT = "{%- if messages[0].role == 'system' -%}\n{{- messages[0].nothing.there -}}{%- endif -%}"
CHATML = (
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
MARKED = byte_level(special=["<|endoftext|>"], added=["<|im_start|>", "<|im_end|>"], template=CHATML)
END = MARKED.convert_tokens_to_ids("<|im_end|>")
TOKENIZERS = {
    "reasoned": byte_level(template=REASONED),
    "long": byte_level(template=LONG + TEMPLATE),
    "strict": byte_level(template=STRICT + TEMPLATE),
    "endless": byte_level(template=LONG.replace("> 2", "> 0") + TEMPLATE),
    "marked": MARKED,
}
ASKED = [{"role": "user", "content": "a"}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    models = {
        name: str(model_folder(folder / name, made, end_tokens=(END,) if name == "marked" else (0,)))
        for name, made in TOKENIZERS.items()
    }
    own = start(folder / "state", models)
    yield own
    stop(own)


@pytest.fixture(scope="module")
def http(served: Running) -> Iterator[httpx.Client]:
    with served.http() as client:
        yield client


def chat(http: httpx.Client, model: str, messages: Any, **more: Any) -> httpx.Response:
    return http.post("/v1/chat/completions", json={"model": model, "messages": messages, "max_tokens": 2, **more})


@pytest.mark.parametrize("model", ["long", "endless"])
def test_a_template_without_an_end_is_a_400_and_others_are_answered_meanwhile(http: httpx.Client, model: str) -> None:
    assert chat(http, "reasoned", ASKED).status_code == 200
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(chat, http, model, ASKED * 3) for _ in range(4)]
        assert http.post("/tokenize", json={"model": "reasoned", "messages": ASKED}).status_code == 200
        assert not all(one.done() for one in waiting)
        answers = [one.result() for one in waiting]
    assert {answer.status_code for answer in answers} == {400}
    assert all("come to an end" in answer.json()["error"]["message"] for answer in answers)
    assert chat(http, model, ASKED).status_code == (200 if model == "long" else 400)


def test_what_fails_in_a_template_is_told_in_every_protocols_shape(http: httpx.Client) -> None:
    system = [{"role": "system", "content": "s"}, *ASKED]
    error = chat(http, "strict", system).json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "messages")
    assert "line 2" in error["message"]
    error = http.post("/v1/responses", json={"model": "strict", "input": system}).json()["error"]
    assert error["param"] == "input"
    body = {"model": "strict", "messages": ASKED, "system": "s", "max_tokens": 2}
    answer = http.post("/v1/messages", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "line 2" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_earlier_reasoning_reaches_a_template_that_reads_it(http: httpx.Client, name: str) -> None:
    turns = [*ASKED, {"role": "assistant", "content": "yo", name: "abc"}, {"role": "user", "content": "and?"}]
    tokens = http.post("/tokenize", json={"model": "reasoned", "messages": turns}).json()["tokens"]
    told: Any = [{**turn, "reasoning_content": "abc"} if turn["role"] == "assistant" else turn for turn in turns]
    wanted = TOKENIZERS["reasoned"].apply_chat_template(told, add_generation_prompt=True, return_dict=False)
    assert tokens == wanted
    thought = [{"type": "thinking", "thinking": "abc", "signature": "x"}, {"type": "text", "text": "yo"}]
    body = {"model": "reasoned", "messages": [turns[0], {"role": "assistant", "content": thought}, turns[2]]}
    assert http.post("/v1/messages/count_tokens", json=body).json() == {"input_tokens": len(wanted)}


def test_reasoning_belongs_to_replies_and_has_one_text(http: httpx.Client) -> None:
    asked = {**ASKED[0], "reasoning_content": "abc"}
    assert chat(http, "reasoned", [asked]).json()["error"]["param"] == "messages[0].reasoning_content"
    both = {"role": "assistant", "content": "yo", "reasoning_content": "abc", "reasoning": "xyz"}
    assert chat(http, "reasoned", [*ASKED, both, *ASKED]).json()["error"]["param"] == "messages[1].reasoning"


def test_an_end_that_is_no_special_token_ends_a_reply(http: httpx.Client) -> None:
    choice = chat(http, "marked", ASKED, logit_bias={str(END): 1000.0}).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "")


def test_errors_name_what_the_client_sent(http: httpx.Client) -> None:
    long = [{"role": "user", "content": "a" * 600}]
    for path, body, name in (
        ("/v1/chat/completions", {"model": "none", "messages": ASKED}, "model"),
        ("/v1/chat/completions", {"model": "reasoned", "messages": ASKED, "n": 0}, "n"),
        ("/v1/chat/completions", {"model": "reasoned", "messages": long}, "messages"),
        ("/v1/completions", {"model": "reasoned", "prompt": "a", "logprobs": 5000}, "logprobs"),
        ("/v1/responses", {"model": "reasoned", "input": "a", "max_output_tokens": 9999}, "max_output_tokens"),
    ):
        error = http.post(path, json=body).json()["error"]
        assert error["param"] == name
        assert f"field: {name}" in error["message"]
    body = {"model": "none", "messages": ASKED, "max_tokens": 2}
    error = http.post("/v1/messages", json=body).json()["error"]
    assert error["type"] == "not_found_error"
    assert "field: model" in error["message"]
    for path in ("/v1/chat/completions", "/v1/messages"):
        refused = http.post(path, json=body, headers={"x-api-key": "wrong"})
        assert (refused.status_code, "api_key" in refused.json()["error"]["message"]) == (401, True)
