"""Models whose tokenizers differ from their rows, leave out spaces, or add words: what /v1 makes of their text."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from made_tokenizers import byte_level, model_folder, sentence_piece

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
    ends = {"padded": (0, len(TOKENIZERS["padded"]) - 1, 10**6)}
    models = {
        name: str(model_folder(folder / name, made, num_rows=ROWS.get(name), end_tokens=ends.get(name, (0,))))
        for name, made in TOKENIZERS.items()
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
