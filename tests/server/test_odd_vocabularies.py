"""Models whose tokenizers differ from their rows, leave out spaces, or add words; templates that fail or reason."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from made_tokenizers import TEMPLATE, byte_level, model_folder, sentence_piece

from loopback import Running, start, stop

WORDS = ("straße", "đem", "日本")
TOKENIZERS = {
    "spaces": sentence_piece(["▁Hello", "▁world"]),
    "metaspace": sentence_piece(["▁Hello", "▁world"], metaspace=True),
    "unnamed": sentence_piece(["▁Hello", "▁world"], named=False),
    "words": byte_level(added=WORDS),
    "padded": byte_level(added=["<pad>"]),
    "more_rows": byte_level(),
}
ROWS = {"padded": len(TOKENIZERS["padded"]) - 1, "more_rows": len(TOKENIZERS["more_rows"]) + 12}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    ends = {"padded": (0, len(TOKENIZERS["padded"]) - 1, 10**6), "marked": (END,)}
    models = {
        name: str(model_folder(folder / name, made, num_rows=ROWS.get(name), end_tokens=ends.get(name, (0,))))
        for name, made in {**TOKENIZERS, **TEMPLATED}.items()
    }
    own = start(folder / "state", models)
    yield own
    stop(own)


@pytest.fixture(scope="module")
def http(served: Running) -> Iterator[httpx.Client]:
    with served.http() as client:
        yield client


def forced(name: str, word: str) -> dict[str, float]:
    """A bias with which this token, and no other, is drawn."""
    return {str(TOKENIZERS[name].convert_tokens_to_ids(word)): 1000.0}


def complete(http: httpx.Client, model: str, **given: Any) -> Any:
    body = {"model": model, "prompt": "Hello", "max_tokens": 2, "temperature": 0.0, **given}
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def streamed(http: httpx.Client, model: str, **given: Any) -> str:
    body = {"model": model, "prompt": "Hello", "max_tokens": 2, "temperature": 0.0, "stream": True, **given}
    lines = http.post("/v1/completions", json=body).text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    return "".join(event["choices"][0]["text"] for event in events if event["choices"])


@pytest.mark.parametrize("model", ["spaces", "metaspace", "unnamed"])
@pytest.mark.parametrize("prompt", ["Hello", " Hello", "  Hello</s>x", "é", "Hello "])
def test_a_prompt_and_its_completion_are_the_text_that_was_written(http: httpx.Client, model: str, prompt: str) -> None:
    bias = forced(model, "▁world")
    plain = complete(http, model, prompt=prompt, logit_bias=bias)
    assert plain["text"] == streamed(http, model, prompt=prompt, logit_bias=bias) == " world world"
    echo = complete(http, model, prompt=prompt, logit_bias=bias, echo=True, logprobs=0)
    assert echo["text"] == prompt + " world world"
    assert streamed(http, model, prompt=prompt, logit_bias=bias, echo=True) == prompt + " world world"
    offsets = echo["logprobs"]["text_offset"]
    assert offsets[-2:] == [len(prompt), len(prompt) + 6]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("model", ["spaces", "metaspace"])
def test_a_stop_may_begin_with_the_space_of_the_first_word(http: httpx.Client, model: str) -> None:
    bias = forced(model, "▁world")
    stopped = complete(http, model, logit_bias=bias, stop=[" world"])
    assert (stopped["text"], stopped["finish_reason"]) == ("", "stop")
    within = complete(http, model, logit_bias=bias, stop=["d w"])
    assert (within["text"], within["finish_reason"]) == (" worl", "stop")


def test_a_text_that_follows_nothing_begins_without_a_space(http: httpx.Client) -> None:
    given: dict[str, Any] = {"prompt": "", "logit_bias": forced("spaces", "▁world"), "logprobs": 0}
    plain = complete(http, "spaces", **given)
    assert plain["text"] == complete(http, "spaces", **given, echo=True)["text"] == "world world"
    assert "".join(plain["logprobs"]["tokens"]) == "world world"
    assert plain["logprobs"]["text_offset"] == [0, 5]


@pytest.mark.parametrize("word", WORDS)
def test_an_added_word_is_itself_in_replies_probabilities_and_echo(http: httpx.Client, word: str) -> None:
    body = {
        "model": "words",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 1,
        "temperature": 0.0,
        "logit_bias": forced("words", word),
        "logprobs": True,
    }
    choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]
    (token,) = choice["logprobs"]["content"]
    assert choice["message"]["content"] == token["token"] == word
    assert bytes(token["bytes"]) == word.encode()
    assert complete(http, "words", prompt=word, max_tokens=0, echo=True)["text"] == word
    ids = http.post("/tokenize", json={"model": "words", "prompt": word}).json()["tokens"]
    assert http.post("/detokenize", json={"model": "words", "tokens": ids}).json() == {"prompt": word}


@pytest.mark.parametrize("model", ["padded", "more_rows"])
@pytest.mark.parametrize("pattern", ["(yes|no)!", "[a-z]{3}<pad>|ok"])
def test_a_grammar_is_followed_whether_tokens_or_rows_are_more(http: httpx.Client, model: str, pattern: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 60, "seed": 1}
    answer = http.post("/v1/chat/completions", json={**body, "structured_outputs": {"regex": pattern}})
    assert answer.status_code == 200, answer.text
    text = answer.json()["choices"][0]["message"]["content"]
    assert text in ("yes!", "no!", "ok") or text.endswith("<pad>")


def test_a_grammar_of_a_token_without_a_row_is_refused(http: httpx.Client) -> None:
    body = {"model": "padded", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}
    answer = http.post("/v1/chat/completions", json={**body, "structured_outputs": {"grammar": "start: <pad>"}})
    assert answer.status_code == 400
    assert "unknown special token" in answer.json()["error"]["message"]


def test_a_text_with_a_token_that_has_no_row_is_refused_by_name(http: httpx.Client) -> None:
    chat = {"model": "padded", "messages": [{"role": "user", "content": "a<pad>b"}]}
    for path, body, param in (
        ("/v1/completions", {"model": "padded", "prompt": "a<pad>b"}, "prompt"),
        ("/tokenize", {"model": "padded", "prompt": "a<pad>b"}, "prompt"),
        ("/v1/chat/completions", chat, "messages"),
        ("/tokenize", chat, "messages"),
    ):
        answer = http.post(path, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert "<pad>" in error["message"]


def test_an_end_token_beyond_the_rows_ends_nothing_and_breaks_nothing(http: httpx.Client) -> None:
    bias = forced("padded", "a")
    assert complete(http, "padded", logit_bias=bias, max_tokens=3)["text"] == "aaa"


def test_a_row_without_a_token_is_no_text(http: httpx.Client) -> None:
    bias = {str(ROWS["more_rows"] - 1): 1000.0}
    choice = complete(http, "more_rows", logit_bias=bias, logprobs=1)
    assert choice["text"] == ""
    assert choice["finish_reason"] == "length"


def test_a_character_that_the_prompts_ids_begin_is_completed(http: httpx.Client) -> None:
    first, second = (byte for byte in "é".encode())
    tokenizer = TOKENIZERS["spaces"]
    ids = [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in (0x41, first)]
    bias = forced("spaces", f"<0x{second:02X}>")
    given: dict[str, Any] = {"prompt": ids, "logit_bias": bias, "max_tokens": 1}
    assert complete(http, "spaces", **given)["text"] == "é"
    assert complete(http, "spaces", **given, echo=True)["text"] == "Aé"


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
TEMPLATED = {
    "reasoned": byte_level(template=REASONED),
    "long": byte_level(template=LONG + TEMPLATE),
    "strict": byte_level(template=STRICT + TEMPLATE),
    "endless": byte_level(template=LONG.replace("> 2", "> 0") + TEMPLATE),
    "marked": MARKED,
}
ASKED = [{"role": "user", "content": "a"}]


def chat(http: httpx.Client, model: str, messages: Any, **more: Any) -> httpx.Response:
    return http.post("/v1/chat/completions", json={"model": model, "messages": messages, "max_tokens": 2, **more})


def test_a_template_without_an_end_is_a_400_and_others_are_answered_meanwhile(http: httpx.Client) -> None:
    """Each of them takes the second of a processor that a template may take."""
    assert chat(http, "reasoned", ASKED).status_code == 200
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(chat, http, "long", ASKED * 3) for _ in range(2)]
        assert http.post("/tokenize", json={"model": "reasoned", "messages": ASKED}).status_code == 200
        assert not all(one.done() for one in waiting)
        answers = [chat(http, "endless", ASKED), *(one.result() for one in waiting)]
    assert {answer.status_code for answer in answers} == {400}
    assert all("come to an end" in answer.json()["error"]["message"] for answer in answers)
    assert chat(http, "long", ASKED).status_code == 200


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
    printed: Any = [{**turn, "reasoning_content": "abc"} if turn["role"] == "assistant" else turn for turn in turns]
    wanted = TEMPLATED["reasoned"].apply_chat_template(printed, add_generation_prompt=True, return_dict=False)
    assert tokens == wanted
    thought = [{"type": "thinking", "thinking": "abc", "signature": "x"}, {"type": "text", "text": "yo"}]
    body = {"model": "reasoned", "messages": [turns[0], {"role": "assistant", "content": thought}, turns[2]]}
    assert http.post("/v1/messages/count_tokens", json=body).json() == {"input_tokens": len(wanted)}


def test_reasoning_belongs_to_replies_and_has_one_text(http: httpx.Client) -> None:
    requests = {**ASKED[0], "reasoning_content": "abc"}
    assert chat(http, "reasoned", [requests]).json()["error"]["param"] == "messages[0].reasoning_content"
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
