"""The OpenAI-compatible routes, through OpenAI's own SDK, against the real service on a loopback port."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import openai
import pytest
import tinker
from openai import OpenAI

from loopback import KEPT, KEY, MODEL, Running, start, stop
from running import wait_until
from tinsmith.engine import bases
from tinsmith.engine.engine import Engine
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.server.openai.text import Choice, Shown
from tinsmith.server.rest.listing import Listing
from tinsmith.server.service import Service
from tinsmith.types.sampling import StopReason

pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
HELLO: list[Any] = [{"role": "user", "content": "Say something."}]


@pytest.fixture(scope="module")
def checkpoint(running: Running) -> str:
    datum = tinker.Datum(
        model_input=tinker.ModelInput.from_ints([70, 71, 72]),
        loss_fn_inputs={"target_tokens": [71, 72, 73], "weights": [1.0, 1.0, 1.0]},
    )
    with tinker.ServiceClient(base_url=running.url, api_key=KEY) as service:
        trainer = service.create_lora_training_client(MODEL, rank=4, seed=1).result()
        trainer.forward_backward([datum], "cross_entropy").result()
        trainer.optim_step(tinker.AdamParams(learning_rate=1.0)).result()
        return trainer.save_weights_for_sampler("trained").result().path


def _complete(client: OpenAI, **given: Any) -> Any:
    return client.completions.create(**{"model": MODEL, "prompt": "One", "max_tokens": 24, **given})


def _chat(client: OpenAI, **given: Any) -> Any:
    base: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 24}
    return client.chat.completions.create(**{**base, **given})


def _raw(client: OpenAI, prompt: Sequence[int], **params: Any) -> tinker.SampledSequence:
    """The same request by the Tinker SDK."""
    url = str(client.base_url).removesuffix("/v1/")
    with tinker.ServiceClient(base_url=url, api_key=KEY) as service:
        sampler = service.create_sampling_client(base_model=MODEL).result()
        requests = sampler.sample(tinker.ModelInput.from_ints(list(prompt)), 1, tinker.SamplingParams(**params))
        return requests.result().sequences[0]


def test_models_are_the_served_names_with_every_suffix(client: OpenAI) -> None:
    names = [model.id for model in client.models.list() if not model.id.startswith("tinker://")]
    assert names == [MODEL, *(f"{MODEL}:{kind}" for kind in ("dora", "qlora", "qdora", "full"))]
    assert client.models.retrieve(f"{MODEL}:qlora").owned_by == "tinsmith"


def test_chat_answers_in_the_renderers_turns(client: OpenAI) -> None:
    answer = _chat(client, seed=3)
    prompt = preset_tokenizer("nano").encode("<|user|>Say something.<|end|><|assistant|>")
    assert answer.usage.prompt_tokens == len(prompt)
    raw = _raw(client, prompt, seed=3, max_tokens=24)
    assert answer.usage.completion_tokens == len(raw.tokens)
    assert answer.choices[0].message.role == "assistant"
    shown = raw.tokens[:-1] if raw.stop_reason == "stop" else raw.tokens
    assert answer.choices[0].message.content == preset_tokenizer("nano").decode(shown)


def test_text_parts_are_one_content(client: OpenAI) -> None:
    parts = [{"type": "text", "text": "Say "}, {"type": "text", "text": "something."}]
    split = _chat(client, seed=1, messages=[{"role": "user", "content": parts}])
    assert split.choices[0].message.content == _chat(client, seed=1).choices[0].message.content


def test_a_reply_can_be_handed_back(client: OpenAI) -> None:
    reply = {"role": "assistant", "content": "Yes.", "refusal": None, "tool_calls": None}
    answer = _chat(client, messages=[*HELLO, reply, *HELLO], max_completion_tokens=24)
    prompt = "<|user|>Say something.<|end|><|assistant|>"
    whole = preset_tokenizer("nano").encode(f"{prompt}Yes.<|end|>{prompt}")
    assert answer.usage.prompt_tokens == len(whole)


def test_several_choices_of_several_prompts_come_in_order(client: OpenAI) -> None:
    both = _complete(client, prompt=["One", "Two"], n=3, seed=5)
    assert [choice.index for choice in both.choices] == list(range(6))
    for i, prompt in enumerate(("One", "Two")):
        alone = _complete(client, prompt=prompt, n=3, seed=5)
        texts = [choice.text for choice in alone.choices]
        assert [choice.text for choice in both.choices[3 * i : 3 * i + 3]] == texts
        assert len(set(texts)) == 3


def test_token_ids_are_a_prompt(client: OpenAI) -> None:
    ids = preset_tokenizer("nano").encode("One")
    for prompt in (ids, [ids]):
        assert _complete(client, prompt=prompt, seed=2).choices[0].text == (_complete(client, seed=2).choices[0].text)


def test_a_seed_repeats_and_another_differs(client: OpenAI) -> None:
    texts = [_complete(client, seed=seed).choices[0].text for seed in (7, 7, 8, -1, 2**64 - 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[3] == texts[4]


@pytest.mark.whole
def test_unseeded_requests_repeat_on_a_fresh_server(tmp_path: Path) -> None:
    lines: list[list[str]] = []
    for name in ("first", "second"):
        own = start(tmp_path / name)
        with own.client() as client:
            lines.append([_complete(client).choices[0].text for _ in range(3)])
            lines[-1].append(_chat(client).choices[0].message.content)
        stop(own)
    assert lines[0] == lines[1]
    assert len(set(lines[0])) == 4


@pytest.mark.parametrize("stop", [None, "e", ["zz", "o", "a "]])
def test_a_stream_tells_the_same_as_the_whole(client: OpenAI, stop: Any) -> None:
    for seed in range(4):
        request = {"seed": seed, "stop": stop, "n": 2, "max_tokens": 64, "logprobs": True}
        whole = _chat(client, **request, top_logprobs=2)
        texts, tokens = ["", ""], [list[Any](), list[Any]()]
        reasons: dict[int, str] = {}
        for chunk in _chat(client, **request, top_logprobs=2, stream=True):
            (choice,) = chunk.choices
            texts[choice.index] += choice.delta.content or ""
            tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
        assert texts == [choice.message.content for choice in whole.choices]
        assert tokens == [choice.logprobs.content for choice in whole.choices]
        assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}


def test_a_stream_of_completions_ends_with_its_usage(client: OpenAI) -> None:
    question = {"seed": 4, "prompt": ["One", "Two"], "max_tokens": 8}
    whole = _complete(client, **question)
    chunks = list(_complete(client, **question, stream=True, stream_options={"include_usage": True}))
    texts = ["", ""]
    for chunk in chunks[:-1]:
        assert chunk.usage is None
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in whole.choices]
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage


def test_a_stream_comes_piece_by_piece_and_ends_with_done(running: Running) -> None:
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))
    body = {"model": MODEL, "prompt": "One", "max_tokens": 16, "seed": 1, "stream": True}
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.read().split(b"\n\n")
    connection.close()
    assert events[-2:] == [b"data: [DONE]", b""]
    assert len(events) > 6
    assert all(event.startswith(b"data: {") for event in events[:-2])


def test_the_text_ends_before_a_stop_text(client: OpenAI) -> None:
    whole = _complete(client, seed=11, max_tokens=64).choices[0].text
    stop = whole[10:12]
    cut = _complete(client, seed=11, max_tokens=64, stop=[stop, "never there"])
    assert cut.choices[0].text == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    assert cut.usage.completion_tokens < 64


def test_logprobs_are_those_of_the_tinker_path(client: OpenAI) -> None:
    prompt = preset_tokenizer("nano").encode("One")
    raw = _raw(client, prompt, seed=9, max_tokens=20, temperature=0.7)
    answer = _complete(client, seed=9, max_tokens=20, temperature=0.7, logprobs=2)
    messages = answer.choices[0].logprobs
    count = len(messages.tokens)
    assert count >= len(raw.tokens) - 1
    assert messages.token_logprobs == list(raw.logprobs or ())[:count]
    assert [len(top) for top in messages.top_logprobs] == [2] * count
    assert messages.text_offset[0] == 0
    chat = _chat(client, seed=9, max_tokens=20, logprobs=True, top_logprobs=1)
    content = chat.choices[0].logprobs.content
    spelled = b"".join(bytes(entry.bytes) for entry in content)
    assert spelled.decode("utf-8", "replace") == chat.choices[0].message.content
    assert all(len(entry.top_logprobs) == 1 for entry in content)


def test_a_trained_checkpoint_speaks(client: OpenAI, checkpoint: str) -> None:
    assert checkpoint in [model.id for model in client.models.list()]
    assert client.models.retrieve(checkpoint).id == checkpoint
    calls = {"prompt": [70, 71], "temperature": 0.0, "logprobs": 0, "max_tokens": 4}
    trained, base = _complete(client, model=checkpoint, **calls), _complete(client, **calls)
    assert trained.model == checkpoint
    assert trained.system_fingerprint != base.system_fingerprint
    assert trained.choices[0].logprobs.token_logprobs != base.choices[0].logprobs.token_logprobs
    again = _complete(client, model=checkpoint, **calls)
    assert again.choices == trained.choices
    streamed = "".join(chunk.choices[0].text for chunk in _complete(client, model=checkpoint, stream=True, **calls))
    assert streamed == trained.choices[0].text


def test_a_quantised_base_is_another_model(client: OpenAI) -> None:
    asked = {"seed": 1, "logprobs": 0}
    plain, same = _complete(client, **asked), _complete(client, model=f"{MODEL}:dora", **asked)
    quantised = _complete(client, model=f"{MODEL}:qlora", **asked)
    assert plain.choices == same.choices != quantised.choices


@pytest.mark.parametrize("model", ["gpt-4", "tinker://s:train:0/weights/none", "tinker://x"])
def test_an_unknown_model_names_those_that_are_served(client: OpenAI, model: str) -> None:
    for ask in (_complete, _chat):
        with pytest.raises(openai.NotFoundError, match=MODEL) as caught:
            ask(client, model=model)
        assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
        assert caught.value.type == "invalid_request_error"


def test_what_was_meant_by_a_mistyped_model_or_parameter_is_said(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"perhaps {MODEL}"):
        _complete(client, model=MODEL[:-1])
    for ask in (_complete, _chat):
        with pytest.raises(openai.BadRequestError, match="perhaps max_tokens"):
            ask(client, extra_body={"max_token": 3})


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("tools", {"tools": [{"type": "function", "function": {"name": "f"}}]}),
        ("reasoning_effort", {"reasoning_effort": "low"}),
        ("top_logprobs", {"top_logprobs": 2}),
        ("top_p", {"top_p": 0.0}),
        ("temperature", {"temperature": -1.0}),
        ("max_tokens", {"max_tokens": 100_000}),
        ("max_completion_tokens", {"max_completion_tokens": 25}),
        ("n", {"n": 0}),
        ("seed", {"seed": 2**64}),
        ("stop[0]", {"stop": [""]}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("messages", {"messages": []}),
        ("messages", {"messages": [{"role": "tool", "content": "x"}]}),
        ("messages[0].role", {"messages": [{"role": "function", "content": "x"}]}),
        (
            "messages[0].content[0].type",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_served_is_refused_by_name(client: OpenAI, param: str, given: dict[str, Any], stream: bool) -> None:
    if param != "stream_options":
        given = {**given, "stream": stream}
    with pytest.raises(openai.BadRequestError) as caught:
        _chat(client, **given)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("suffix", {"suffix": "end"}),
        ("logprobs", {"logprobs": -1}),
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": ""}),
        ("prompt[0]", {"prompt": [100_000]}),
    ],
)
def test_what_a_completion_does_not_serve(client: OpenAI, param: str, given: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        _complete(client, **given)
    assert caught.value.param == param


def test_parameters_that_mean_nothing_are_taken(client: OpenAI) -> None:
    plain = _chat(client, seed=6)
    same = _chat(
        client,
        seed=6,
        n=1,
        frequency_penalty=0,
        presence_penalty=0.0,
        logit_bias={},
        response_format={"type": "text"},
        user="someone",
        metadata={"a": "b"},
        extra_body={"reasoning_effort": None, "best_of": 1},
    )
    assert same.choices == plain.choices


def test_the_key_is_needed(running: Running) -> None:
    with running.client("tml-wrong") as stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.models.list()
    assert refused.value.code == "invalid_api_key"


def test_many_requests_at_once_answer_as_each_alone(client: OpenAI) -> None:
    def ask(seed: int) -> str:
        return "".join(c.choices[0].text for c in _complete(client, seed=seed, stream=True))

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(16)))
    assert together == [_complete(client, seed=seed).choices[0].text for seed in range(16)]


@pytest.mark.whole
def test_a_tokenizer_is_loaded_once_however_many_ask_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    began: list[str] = []
    inside = threading.Semaphore(1)

    def loading(name: str) -> Any:
        assert inside.acquire(blocking=False), "two threads load at once"
        began.append(name)
        found = preset_tokenizer(name)
        inside.release()
        return found

    monkeypatch.setattr(bases, "preset_tokenizer", loading)
    own = start(tmp_path)
    try:
        with own.client() as client, ThreadPoolExecutor(6) as pool:
            asked = [
                pool.submit(
                    client.chat.completions.create,
                    model=MODEL,
                    messages=[{"role": "user", "content": "Hello."}],
                    max_tokens=2,
                )
                for _ in range(6)
            ]
            assert all(one.result().choices for one in asked)
    finally:
        stop(own)
    assert len(began) == 1


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/completions", {"prompt": "One", "max_tokens": 900, "n": 256, "stream": True}),
        ("/v1/completions", {"prompt": "One", "max_tokens": 900, "n": 256}),
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 900, "stream": True}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 900, "stream": True}),
        ("/v1/responses", {"input": "One", "max_output_tokens": 900, "stream": True}),
    ],
)
def test_a_client_that_leaves_frees_its_place(running: Running, path: str, asked: dict[str, Any]) -> None:
    text = json.dumps({"model": MODEL, **asked})
    host, port = running.url.removeprefix("http://").split(":")
    samplers = running.service.samplers
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        )
        wait_until(lambda: len(samplers.under_way) == 1)
        (entry,) = samplers.under_way.values()
        if "stream" in asked:
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
    wait_until(lambda: not running.service.engine.sampler(MODEL).busy)
    wait_until(lambda: not (samplers.under_way or samplers.watched))  # forgotten on the loop, a moment later
    assert entry.group.result is None


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("stops", [(), ("€ é",), ("never", "é!!")])
def test_text_is_the_same_however_it_comes(size: int, stops: tuple[str, ...]) -> None:
    text = ModelText(preset_tokenizer("nano"), num_rows=512)
    tokens = list(text.codec.encode("naïve 10€ é! 東京 \U0001f600 end"))
    tokens += [*tokens[5:11], *reversed(tokens)]  # characters cut in pieces
    whole = text.codec.decode(tokens)
    choice = Choice(text.codec, stops=stops, ends=frozenset({0}))
    printed, shown = "", 0
    batches = [tokens[i : i + size] for i in range(0, len(tokens), size)]
    for i, batch in enumerate(batches):
        grown = choice.add(batch, StopReason.LENGTH if i + 1 == len(batches) else None)
        assert grown.tokens.start == shown
        printed, shown = printed + grown.text, grown.tokens.stop
        assert whole.startswith(printed)
    assert printed == whole
    assert shown == len(tokens)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("stop", "drawn", "text"),
    [
        ("bc", ("xab", 2, "cdy", 0), "xabcdy"),  # no stop text: a control token is between its letters
        ("cd", ("xab", 2, "cdy"), "xab"),
        ("b<|", ("xab", 2), "xa"),
    ],
)
def test_stops_are_searched_for_where_control_tokens_are_spelled(
    size: int, stop: str, drawn: tuple[str | int, ...], text: str
) -> None:
    codec = ModelText(preset_tokenizer("nano"), num_rows=512).codec
    tokens = [token for part in drawn for token in (codec.encode(part) if isinstance(part, str) else [part])]
    choice = Choice(codec, stops=(stop,), ends=frozenset({0}), shown=Shown(control=False))
    batches = [tokens[i : i + size] for i in range(0, len(tokens), size)]
    grown = [choice.add(batch, None) for batch in batches[:-1]] + [choice.add(batches[-1], StopReason.STOP)]
    assert "".join(each.text for each in grown) == text
    assert choice.offsets == [0, 1, 3, 3, 4][: len(choice.offsets)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_token_begins_after_bytes_that_form_no_character(size: int) -> None:
    codec = ModelText(preset_tokenizer("nano"), num_rows=512).codec
    euro = codec.encode("€")
    assert len(euro) == 3
    tokens = [euro[0], *codec.encode("a"), *euro, euro[0], euro[1], *codec.encode("b")]
    choice = Choice(codec, stops=("b",), ends=frozenset({0}))
    batches = [tokens[i : i + size] for i in range(0, len(tokens), size)]
    grown = [choice.add(batch, None) for batch in batches[:-1]] + [choice.add(batches[-1], StopReason.STOP)]
    assert "".join(each.text for each in grown) == "\ufffda€\ufffd"
    assert choice.offsets == [0, 1, 2, 2, 2, 3, 3, 4]
    assert grown[-1].tokens.stop == 7


NANO, MIXTURE = "tinsmith/nano", "tinsmith/moe-nano"


def test_only_a_mixture_tells_how_it_routes(tmp_path: Path) -> None:
    async def told() -> dict[str, dict[str, Any]]:
        engine = Engine({NANO: NANO, MIXTURE: MIXTURE}, certificate_store=KEPT)
        service = Service(engine, tmp_path / "state", seed=0, max_queue=16)
        listing = Listing(service.store, service.engine, service.state, service.runs.external)
        models = cast(list[dict[str, Any]], listing.capabilities()["supported_models"])
        await service.close()
        return {model["model_name"]: model["identity"] for model in models}

    identities = asyncio.run(told())
    assert "routes" not in identities[NANO]
    assert identities[MIXTURE]["routes"] == (
        "2 of 8 experts, equal logits to the lower one; a token's are the same in every batch, sampled and trained"
    )
