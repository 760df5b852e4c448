"""Token ids in, token ids out: vLLM's `/inference/v1/generate`, `/tokenize` and `/detokenize`, and ids on `/v1`."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import tinker
from openai import OpenAI

from loopback import MODEL, Running
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.server.spread import MOST, ROUTE

pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


HELLO: list[Any] = [{"role": "user", "content": "Say something."}]


def _ids(text: str) -> list[int]:
    return list(preset_tokenizer("nano").encode(text))


def _generate(http: httpx.Client, prompt: Sequence[int], **params: Any) -> dict[str, Any]:
    body = {"model": MODEL, "token_ids": list(prompt), "sampling_params": params}
    answer = http.post("/inference/v1/generate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _refused(http: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    answer = http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def _datum(prompt: Sequence[int], tokens: Sequence[int], logprobs: Sequence[float]) -> tinker.Datum:
    """A sampled answer as importance sampling learns from it."""
    whole, silent = [*prompt, *tokens], len(prompt) - 1
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(whole[:-1]),
        loss_fn_inputs={
            "target_tokens": whole[1:],
            "logprobs": [0.0] * silent + list(logprobs),
            "advantages": [0.0] * silent + [1.0] * len(tokens),
        },
    )


def test_what_these_routes_drew_is_trained_on_with_a_ratio_of_one(
    running: Running, client: OpenAI, http: httpx.Client
) -> None:
    """Every token's log-probability has the bits that training computes, end tokens included."""
    with running.tinker() as service:
        trainer = service.create_lora_training_client(MODEL, rank=4, seed=3).result()
        first = tinker.Datum(
            model_input=tinker.ModelInput.from_ints([70, 71, 72]),
            loss_fn_inputs={"target_tokens": [71, 72, 73], "weights": [1.0, 1.0, 1.0]},
        )
        trainer.forward_backward([first], "cross_entropy").result()
        trainer.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
        model = trainer.save_weights_for_sampler("now").result().path
        datums: list[tinker.Datum] = []

        prompt = _ids("One day")
        params = {"n": 3, "max_tokens": 40, "logprobs": 1, "seed": 5, "stop": [" a"]}
        body = {"model": model, "token_ids": prompt, "sampling_params": params}
        for choice in http.post("/inference/v1/generate", json=body).json()["choices"]:
            content = choice["logprobs"]["content"]
            assert [e["token"] for e in content] == [f"token_id:{i}" for i in choice["token_ids"]]
            datums.append(_datum(prompt, choice["token_ids"], [e["logprob"] for e in content]))

        extra = {"return_token_ids": True}
        chat = client.chat.completions.create(
            model=model, messages=HELLO, n=2, max_tokens=64, logprobs=True, seed=2, extra_body=extra
        )
        lines: Any = chat
        for one in lines.choices:
            scores = [entry.logprob for entry in one.logprobs.content]
            datums.append(_datum(lines.prompt_token_ids, one.token_ids, scores))

        done: Any = client.completions.create(
            model=model, prompt="Two", n=2, max_tokens=64, logprobs=0, seed=4, extra_body=extra
        )
        for one in done.choices:
            scores = one.logprobs.token_logprobs
            datums.append(_datum(one.prompt_token_ids, one.token_ids, scores))
        result = trainer.forward_backward(datums, "importance_sampling").result()
    metrics = result.metrics
    assert metrics["unequal_logprob_bits:sum"] == 0
    assert metrics["tokens:sum"] == sum(sum(d.loss_fn_inputs["advantages"].data) for d in datums)


def test_ids_of_the_generate_route_are_those_of_the_tinker_route(running: Running, http: httpx.Client) -> None:
    prompt = _ids("One day")
    messages = _generate(http, prompt, max_tokens=12, seed=9, temperature=0.7, logprobs=2, top_k=20)
    with running.tinker() as service:
        sampler = service.create_sampling_client(base_model=MODEL).result()
        params = tinker.SamplingParams(max_tokens=12, seed=9, temperature=0.7, top_k=20)
        raw = sampler.sample(tinker.ModelInput.from_ints(prompt), 1, params).result().sequences[0]
    (choice,) = messages["choices"]
    assert choice["token_ids"] == raw.tokens
    content = choice["logprobs"]["content"]
    assert [entry["logprob"] for entry in content] == list(raw.logprobs or ())
    assert [entry["token_id"] for entry in content] == raw.tokens
    for entry in content:
        first, *best = entry["top_logprobs"]
        assert (first["token_id"], first["logprob"]) == (entry["token_id"], entry["logprob"])
        assert len(best) in (1, 2)  # the drawn token may be one of the two
    assert messages["usage"]["completion_tokens"] == len(raw.tokens)


def test_the_generate_route_tells_what_it_was_asked(http: httpx.Client) -> None:
    body = {"token_ids": _ids("One"), "sampling_params": {"max_tokens": 3, "n": 2}}
    printed = http.post("/inference/v1/generate", json={**body, "request_id": "mine", "return_token_ids": True}).json()
    assert (printed["request_id"], printed["model"]) == ("mine", MODEL)
    assert printed["prompt_token_ids"] == _ids("One")
    assert [choice["index"] for choice in printed["choices"]] == [0, 1]
    assert [choice["logprobs"] for choice in printed["choices"]] == [None, None]
    assert [choice["finish_reason"] for choice in printed["choices"]] == ["length", "length"]


def test_a_reply_goes_on_as_long_as_the_context_unless_it_is_told(http: httpx.Client) -> None:
    (choice,) = _generate(http, _ids("One"), seed=1)["choices"]
    assert len(choice["token_ids"]) > 16


def test_verifiers_extras_are_taken(http: httpx.Client) -> None:
    """Its client's fields beside the ids."""
    requests = {"max_tokens": 6, "seed": 3, "logprobs": 1}
    end = preset_tokenizer("nano").eos_token_id
    extras = {
        "stop_token_ids": [end],
        "skip_special_tokens": False,
        "routed_experts_prompt_start": 3,
        "temperature": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
    }
    plain, same = (_generate(http, _ids("One"), **requests), _generate(http, _ids("One"), **requests, **extras))
    assert same["choices"] == plain["choices"]


def test_a_stream_of_ids_tells_the_same_as_the_whole(http: httpx.Client) -> None:
    params = {"max_tokens": 9, "seed": 3, "logprobs": 1, "n": 2}
    whole = _generate(http, _ids("One"), **params)
    body = {"model": MODEL, "token_ids": _ids("One"), "sampling_params": params, "stream": True}
    options = {"stream_options": {"include_usage": True}, "return_token_ids": True}
    events = http.post("/inference/v1/generate", json={**body, **options}).text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert chunks[0]["prompt_token_ids"] == _ids("One")
    assert chunks[-1]["usage"] == whole["usage"]
    for choice in whole["choices"]:
        mine = [each for chunk in chunks for each in chunk["choices"] if each["index"] == choice["index"]]
        assert [token for each in mine for token in each["token_ids"]] == choice["token_ids"]
        content = [entry for each in mine for entry in each["logprobs"]["content"]]
        assert content == choice["logprobs"]["content"]
        assert mine[-1]["finish_reason"] == choice["finish_reason"]


def test_a_prompt_is_scored_alone(running: Running, http: httpx.Client) -> None:
    ids = _ids("The cat sat.")
    output = _generate(http, ids, max_tokens=0, prompt_logprobs=1)
    with running.tinker() as service:
        sampler = service.create_sampling_client(base_model=MODEL).result()
        scores = sampler.compute_logprobs(tinker.ModelInput.from_ints(ids)).result()
    assert output["choices"][0]["token_ids"] == []
    assert output["prompt_logprobs"][0] is None
    mine = [row[str(i)]["logprob"] for i, row in zip(ids[1:], output["prompt_logprobs"][1:], strict=True)]
    assert mine == scores[1:]


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("token_ids", {"token_ids": []}),
        ("token_ids[0]", {"token_ids": [-1]}),
        ("token_ids[0]", {"token_ids": [100_000]}),
        ("features", {"features": {"mm_hashes": {}}}),
        ("output_mode", {"output_mode": "text"}),
        ("min_tokens", {"sampling_params": {"min_tokens": 3}}),
        ("logprobs", {"sampling_params": {"logprobs": -1}}),
        ("n", {"sampling_params": {"n": 0}}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("prompt_logprobs", {"stream": True, "sampling_params": {"prompt_logprobs": 1}}),
    ],
)
def test_what_the_generate_route_does_not_serve(http: httpx.Client, param: str, given: dict[str, Any]) -> None:
    body = {"model": MODEL, "token_ids": [70], "sampling_params": {"max_tokens": 2}, **given}
    assert _refused(http, "/inference/v1/generate", body)["param"] == param


def test_an_unknown_model_is_a_404_with_what_is_served(http: httpx.Client) -> None:
    for path, rest in (
        ("/inference/v1/generate", {"token_ids": [70], "sampling_params": {}}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [70]}),
    ):
        answer = http.post(path, json={"model": "other", **rest})
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert error["code"] == "model_not_found"
        assert MODEL in error["message"]


def test_text_and_chats_are_tokenized_as_they_are_read(http: httpx.Client, client: OpenAI) -> None:
    told = http.post("/tokenize", json={"model": MODEL, "prompt": "One day"}).json()
    assert told["tokens"] == _ids("One day")
    assert told["count"] == len(told["tokens"])
    assert told["max_model_len"] == client.models.retrieve(MODEL).max_model_len  # type: ignore
    assert told["token_strs"] is None
    chat = http.post("/tokenize", json={"messages": HELLO, "return_token_strs": True}).json()
    answer: Any = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=1, extra_body={"return_token_ids": True}
    )
    assert chat["tokens"] == answer.prompt_token_ids
    assert chat["token_strs"] == preset_tokenizer("nano").convert_ids_to_tokens(chat["tokens"])


def test_tokens_are_text_again(http: httpx.Client) -> None:
    text = "<|user|>Café au lait.<|end|>"
    told = http.post("/detokenize", json={"model": MODEL, "tokens": _ids(text)}).json()
    assert told == {"prompt": text}


@pytest.mark.parametrize(
    ("path", "param", "body"),
    [
        ("/tokenize", "prompt, messages", {}),
        ("/tokenize", "add_special_tokens", {"messages": HELLO, "add_special_tokens": True}),
        ("/tokenize", "chat_template", {"messages": HELLO, "chat_template": "{{ messages }}"}),
        ("/detokenize", "tokens[1]", {"tokens": [70, 100_000]}),
        ("/detokenize", "tokens[0]", {"tokens": ["a"]}),
    ],
)
def test_what_tokenizing_does_not_serve(http: httpx.Client, path: str, param: str, body: Any) -> None:
    assert _refused(http, path, body)["param"] == param


def test_tokens_are_spelled_by_their_ids(client: OpenAI) -> None:
    extra = {"return_tokens_as_token_ids": True, "return_token_ids": True}
    done: Any = client.completions.create(model=MODEL, prompt="One", max_tokens=5, logprobs=2, seed=1, extra_body=extra)
    (one,) = done.choices
    assert one.logprobs.tokens == [f"token_id:{token}" for token in one.token_ids]
    assert all(key.startswith("token_id:") for top in one.logprobs.top_logprobs for key in top)
    chat: Any = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=5, logprobs=True, top_logprobs=1, seed=1, extra_body=extra
    )
    (reply,) = chat.choices
    spelled = [entry.token for entry in reply.logprobs.content]
    assert spelled == [f"token_id:{token}" for token in reply.token_ids]


def test_a_streamed_chat_tells_its_ids(client: OpenAI) -> None:
    request: dict[str, Any] = {
        "model": MODEL,
        "messages": HELLO,
        "max_tokens": 48,
        "n": 2,
        "seed": 8,
        "logprobs": True,
        "extra_body": {"return_token_ids": True},
    }
    whole: Any = client.chat.completions.create(**request)
    ids: list[list[int]] = [[], []]
    prompts: list[Any] = []
    for chunk in client.chat.completions.create(**request, stream=True):
        (choice,) = chunk.choices
        prompts.append(getattr(chunk, "prompt_token_ids", None))
        ids[choice.index] += getattr(choice, "token_ids", None) or []
    assert ids == [choice.token_ids for choice in whole.choices]
    assert prompts[0] == whole.prompt_token_ids
    assert not any(prompts[1:])
    assert [len(c.token_ids) for c in whole.choices] == [len(c.logprobs.content) for c in whole.choices]


def test_models_are_listed_with_their_context(client: OpenAI, running: Running) -> None:
    size = running.service.engine.config(MODEL).max_positions
    for model in client.models.list():
        told: Any = model
        assert told.max_model_len == size
        assert told.root
        base = not told.id.startswith("tinker://")
        assert (told.parent is None) is base


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/embeddings", "embeddings"),
        ("/audio/speech", "speech"),
        ("/nothing/at/all", "/v1/nothing"),
        ("/chat/completion", "perhaps /v1/chat/completions"),
    ],
)
def test_what_is_not_there_is_told_in_openais_shape(client: OpenAI, path: str, word: str) -> None:
    with pytest.raises(openai.NotFoundError, match=word) as caught:
        client.post(path, body={"model": MODEL}, cast_to=object)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.code == "unknown_url"


def test_another_method_is_told_in_openais_shape(http: httpx.Client) -> None:
    for method, path, allowed in (
        ("GET", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("PATCH", "/inference/v1/generate", "POST"),
        ("GET", "/tokenize", "POST"),
    ):
        answer = http.request(method, path)
        assert answer.status_code == 405
        assert allowed in answer.headers["allow"]
        assert answer.json()["error"]["code"] == "method_not_allowed"
    elsewhere = http.get("/other")
    assert elsewhere.status_code == 404
    assert elsewhere.json()["category"] == "user"


LONG: list[tuple[str, dict[str, Any], str | None]] = [
    ("/v1/completions", {"prompt": "x" * 1_000_000}, "prompt"),
    ("/v1/completions", {"prompt": ["a"] * 3000}, "prompt"),
    ("/v1/completions", {"prompt": ["a"] * 100, "n": 100}, "n"),
    ("/v1/completions", {"prompt": [1] * 5000}, "prompt"),
    ("/v1/completions", {"prompt": [1] * 600_000}, None),
    ("/v1/completions", {"prompt": "a", "nested": [[]] * 70_000}, None),
    ("/v1/completions", {"prompt": "a", "logit_bias": dict.fromkeys(map(str, range(70_000)), 1)}, None),
    ("/v1/completions", {"prompt": "a", "stop": ["x"] * 1000}, "stop"),
    ("/v1/chat/completions", {"messages": HELLO * 5000}, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 1_000_000}]}, "messages"),
    ("/v1/chat/completions", {"messages": HELLO, "n": 5000}, "n"),
    ("/v1/responses", {"input": "x" * 1_000_000}, "input"),
    ("/tokenize", {"prompt": "x" * 1_000_000}, "prompt"),
    ("/tokenize", {"messages": HELLO * 5000}, "messages"),
]


@pytest.mark.parametrize(("path", "body", "param"), LONG)
def test_what_is_too_much_is_refused_by_its_size(
    http: httpx.Client, path: str, body: dict[str, Any], param: str | None
) -> None:
    assert _refused(http, path, {"model": MODEL} | body)["param"] == param


def test_signs_in_a_text_are_no_structure(http: httpx.Client) -> None:
    text = '[{,:"' * 2000
    answer = http.post("/tokenize", json={"model": MODEL, "prompt": text, "user": "[" * 200_000})
    assert answer.status_code == 200
    assert answer.json()["tokens"] == _ids(text)


TEXT, OTHER = [70, 71, 72, 73, 74], [9, 8, 7]


def told(http: httpx.Client, **asked: Any) -> list[dict[str, list[Any]]]:
    answer = http.post(ROUTE, json={"model": MODEL, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["sequences"]


def test_log_probabilities_are_those_of_the_protocol(http: httpx.Client, running: Running) -> None:
    client = running.tinker().create_sampling_client(base_model=MODEL).result()
    expected = client.compute_logprobs(tinker.ModelInput.from_ints(TEXT)).result()
    (found,) = told(http, sequences=[TEXT])
    assert np.array(found["logprob"][1:], np.float32).tolist() == expected[1:]
    assert {name: values[0] for name, values in found.items()} == dict.fromkeys(found)


def test_the_most_probable_token_has_rank_1_and_no_other_has(http: httpx.Client) -> None:
    own = told(http, sequences=[TEXT, OTHER])
    best = [one["argmax"][1:] for one in own]
    question = told(http, sequences=[TEXT, OTHER], targets=best)
    assert [one["rank"][1:] for one in question] == [[1] * 4, [1] * 2]
    for one, text in zip(own, (TEXT, OTHER), strict=True):
        ranked_first = [rank == 1 for rank in one["rank"][1:]]
        assert ranked_first == [a == b for a, b in zip(one["argmax"][1:], text[1:], strict=True)]
    assert [one["entropy"] for one in question] == [one["entropy"] for one in own]


def test_a_text_says_the_same_alone_and_among_others(http: httpx.Client) -> None:
    together = told(http, sequences=[OTHER, TEXT, [1, 2]])
    assert together[1:2] == told(http, sequences=[TEXT])


def test_of_a_part_it_says_what_it_says_of_the_whole(http: httpx.Client) -> None:
    whole = told(http, sequences=[TEXT, OTHER])
    parts = told(http, sequences=[TEXT, OTHER], begins=[3, 1])
    assert parts[1] == whole[1]
    for name, values in whole[0].items():
        assert parts[0][name] == [None, None, None, *values[3:]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sequences": []}, "sequences"),
        ({"sequences": [[5]]}, "sequences[0]"),
        ({"sequences": [TEXT] * (MOST + 1)}, "sequences"),
        ({"sequences": [TEXT], "targets": [[1]]}, "targets"),
        ({"sequences": [TEXT], "targets": []}, "targets"),
        ({"sequences": [TEXT], "begins": []}, "begins"),
        ({"sequences": [TEXT], "begins": [0]}, "begins[0]"),
        ({"sequences": [OTHER, TEXT], "begins": [1, 5]}, "begins[1]"),
        ({"sequences": [TEXT], "targets": [[-1, 1, 1, 1]]}, "targets"),
        ({"sequences": [[1, 10**6]]}, "prompt"),
        ({"sequences": [TEXT], "model": "nobody"}, "model"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_its_field(http: httpx.Client, asked: dict[str, Any], said: str) -> None:
    answer = http.post(ROUTE, json={"model": MODEL, **asked})
    assert answer.status_code == 400
    assert said in answer.text
