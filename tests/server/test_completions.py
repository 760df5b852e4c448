"""`/v1/completions` as evaluators ask: echoed prompts with their log-probabilities, the best of several, extras."""

import re
from collections.abc import Sequence
from typing import Any

import openai
import pytest
import tinker
from openai import OpenAI

from loopback import MODEL, Running
from tinsmith.renderers.tokenizer import preset_tokenizer

pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
TEXT = "The cat sat on the mat, café."


def _ids(text: str) -> list[int]:
    return list(preset_tokenizer("nano").encode(text))


def _complete(client: OpenAI, **given: Any) -> Any:
    extra = given.pop("extra", {})
    requests = {"model": MODEL, "prompt": TEXT, "max_tokens": 4, "seed": 1, **given}
    return client.completions.create(**requests, extra_body=extra)


def _scores(running: Running, prompt: Sequence[int]) -> list[float | None]:
    """The prompt's log-probabilities by the Tinker SDK."""
    with running.tinker() as service:
        sampler = service.create_sampling_client(base_model=MODEL).result()
        return list(sampler.compute_logprobs(tinker.ModelInput.from_ints(list(prompt))).result())


def test_an_echoed_prompt_has_the_log_probabilities_of_compute_logprobs(running: Running, client: OpenAI) -> None:
    ids = _ids(TEXT)
    scores = _scores(running, ids)
    for given in ({"max_tokens": 0}, {"max_tokens": 1}, {"max_tokens": 5}):
        choice = _complete(client, echo=True, logprobs=0, **given).choices[0]
        assert choice.logprobs.token_logprobs[: len(ids)] == scores
        assert scores[0] is None
        assert len(choice.logprobs.tokens) == len(ids) + given["max_tokens"]
        assert choice.text.startswith(TEXT)


def test_what_is_drawn_after_an_echoed_prompt_is_what_is_drawn_without_it(client: OpenAI) -> None:
    plain = _complete(client, max_tokens=12, logprobs=2).choices[0]
    echoed = _complete(client, max_tokens=12, logprobs=2, echo=True).choices[0]
    count = len(plain.logprobs.tokens)
    begin = len(_ids(TEXT))
    assert echoed.text == TEXT + plain.text
    assert echoed.logprobs.token_logprobs[begin:][:count] == plain.logprobs.token_logprobs
    assert echoed.logprobs.top_logprobs[begin:][:count] == plain.logprobs.top_logprobs
    offsets = [offset + len(TEXT) for offset in plain.logprobs.text_offset]
    assert echoed.logprobs.text_offset[begin:][:count] == offsets


def test_offsets_cut_the_text_into_its_tokens(client: OpenAI) -> None:
    text = "Say something simple."
    choice = _complete(client, prompt=text, echo=True, logprobs=1, max_tokens=0).choices[0]
    ends = [*choice.logprobs.text_offset[1:], len(choice.text)]
    pieces = [choice.text[a:b] for a, b in zip(choice.logprobs.text_offset, ends, strict=True)]
    assert pieces == choice.logprobs.tokens
    assert choice.text == text


def test_prompts_of_token_ids_as_lm_eval_sends_and_reads_them(running: Running, client: OpenAI) -> None:
    """`temperature: 0, max_tokens: 1, logprobs: 1, echo: true`, and all but the last token are scored."""
    greedy = _complete(client, prompt=_ids("One day"), max_tokens=6, temperature=0.0)
    contexts = [_ids("One day"), _ids("The cat"), _ids("One")]
    continuations = [_ids(greedy.choices[0].text), _ids(" sat!"), _ids(" z")]
    prompts = [a + b for a, b in zip(contexts, continuations, strict=True)]
    answer = _complete(client, prompt=prompts, max_tokens=1, temperature=0, logprobs=1, echo=True)
    verdicts: list[bool] = []
    for choice, prompt, context in zip(answer.choices, prompts, contexts, strict=True):
        lines = choice.logprobs
        assert len(lines.token_logprobs) == len(prompt) + 1
        scored = lines.token_logprobs[len(context) : -1]
        assert scored == _scores(running, prompt)[len(context) :]
        tops = lines.top_logprobs[len(context) : -1]
        pairs = zip(scored, tops, strict=True)
        verdicts.append(all(p == max(top.values()) for p, top in pairs))
    assert verdicts[0]
    assert not all(verdicts)


def test_a_completion_that_ends_at_once_still_tells_its_last_token(client: OpenAI) -> None:
    """Else a scorer that leaves the last token out would leave out one of the prompt's."""
    ids = _ids("One")
    end = preset_tokenizer("nano").eos_token_id
    first = _complete(client, prompt=ids, max_tokens=1, logprobs=0, extra={"return_token_ids": True})
    token = first.choices[0].token_ids[0]
    assert token != end
    request = {"stop_token_ids": [token], "return_token_ids": True}
    ended = _complete(client, prompt=ids, max_tokens=1, logprobs=0, echo=True, extra=request).choices[0]
    assert ended.finish_reason == "stop"
    assert ended.text == "One"
    assert len(ended.logprobs.token_logprobs) == len(ids) + 1
    assert ended.logprobs.text_offset[-1] == len("One")
    assert ended.token_ids == [token]
    assert ended.prompt_token_ids == ids


@pytest.mark.parametrize(
    "given",
    [
        {"max_tokens": 0},
        {"max_tokens": 6, "n": 2},
        {"max_tokens": 24, "stop": ["e", "zz"]},
        {"max_tokens": 6, "extra": {"return_token_ids": True, "return_tokens_as_token_ids": True}},
    ],
)
def test_a_stream_with_echo_tells_the_same_as_the_whole(client: OpenAI, given: dict[str, Any]) -> None:
    question = {"echo": True, "logprobs": 2, "prompt": [_ids("One"), _ids("Two café")], **given}
    whole = _complete(client, **{**question, "extra": dict(question.get("extra", {}))})
    messages: list[dict[str, Any]] = [
        {"text": "", "tokens": [], "logprobs": [], "top": [], "offsets": [], "ids": []} for _ in whole.choices
    ]
    for chunk in _complete(client, **question, stream=True):
        (choice,) = chunk.choices
        one = messages[choice.index]
        one["text"] += choice.text
        one["ids"] += getattr(choice, "token_ids", None) or []
        if choice.logprobs is not None:
            one["tokens"] += choice.logprobs.tokens
            one["logprobs"] += choice.logprobs.token_logprobs
            one["top"] += choice.logprobs.top_logprobs
            one["offsets"] += choice.logprobs.text_offset
        one["reason"] = choice.finish_reason
    for one, choice in zip(messages, whole.choices, strict=True):
        assert one["text"] == choice.text
        assert one["tokens"] == choice.logprobs.tokens
        assert one["logprobs"] == choice.logprobs.token_logprobs
        assert one["top"] == choice.logprobs.top_logprobs
        assert one["offsets"] == choice.logprobs.text_offset
        assert one["reason"] == choice.finish_reason
        assert one["ids"] == (getattr(choice, "token_ids", None) or [])


def test_nothing_is_drawn_with_max_tokens_0(client: OpenAI) -> None:
    answer = _complete(client, max_tokens=0, echo=True)
    assert answer.choices[0].text == TEXT
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].logprobs is None
    assert answer.usage.completion_tokens == 0
    assert answer.usage.prompt_tokens == len(_ids(TEXT))
    with pytest.raises(openai.BadRequestError) as caught:
        _complete(client, max_tokens=0)
    assert caught.value.param == "max_tokens"


def test_the_best_of_several_are_those_with_the_highest_mean(client: OpenAI) -> None:
    every = _complete(client, n=6, logprobs=0, max_tokens=9, extra={"return_token_ids": True})
    means = [sum(choice.logprobs.token_logprobs) / len(choice.token_ids) for choice in every.choices]
    order = sorted(range(6), key=lambda i: -means[i])
    best = _complete(client, n=2, best_of=6, logprobs=0, max_tokens=9)
    assert [choice.text for choice in best.choices] == [every.choices[i].text for i in order[:2]]
    assert [choice.index for choice in best.choices] == [0, 1]
    assert best.usage == every.usage


@pytest.mark.parametrize("given", [{"n": 3, "best_of": 2}, {"best_of": 2, "stream": True}])
def test_the_best_cannot_be_fewer_nor_streamed(client: OpenAI, given: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        _complete(client, **given)
    assert caught.value.param == "best_of"


NEUTRAL: dict[str, Any] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0,
    "frequency_penalty": 0.0,
    "logit_bias": {},
    "ignore_eos": False,
    "min_tokens": 0,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "include_stop_str_in_output": False,
    "add_special_tokens": True,
    "length_penalty": 1.0,
    "use_beam_search": False,
    "truncate_prompt_tokens": None,
    "stop_token_ids": [],
    "allowed_token_ids": None,
    "bad_words": [],
    "best_of": 1,
    "response_format": {"type": "text"},
    "prompt_logprobs": None,
    "return_token_ids": False,
    "suffix": None,
    "user": "someone",
}


def test_neutral_extras_change_nothing(client: OpenAI) -> None:
    plain = _complete(client)
    assert _complete(client, extra=NEUTRAL).choices == plain.choices
    assert _complete(client, extra={"top_k": 0}).choices == plain.choices


def test_neutral_extras_leave_an_unseeded_requests_seed(client: OpenAI) -> None:
    """The third of three equal requests, whatever is said of what they leave alone."""
    calls = {"prompt": "An unseeded one", "max_tokens": 12, "seed": None}
    texts = [_complete(client, **calls, extra=each).choices[0].text for each in ({}, NEUTRAL, {})]
    again = [_complete(client, **calls, model=f"{MODEL}:dora").choices[0].text for _ in range(3)]
    assert len(set(texts)) == 3
    assert texts != again  # another name, another count


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("min_tokens", {"min_tokens": 2}),
        ("length_penalty", {"length_penalty": 0.5}),
        ("use_beam_search", {"use_beam_search": True}),
        ("truncate_prompt_tokens", {"truncate_prompt_tokens": 3}),
        ("allowed_token_ids", {"allowed_token_ids": [3]}),
        ("bad_words", {"bad_words": ["no"]}),
        ("ignore_eos", {"ignore_eos": True, "stop": ["a"]}),
        ("prompt_logprobs", {"prompt_logprobs": 1, "stream": True}),
        ("logit_bias", {"logit_bias": {"the": 1.0}}),
        ("top_k", {"top_k": -2}),
        ("response_format", {"response_format": {"type": "xml"}}),
        ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
        ("structured_outputs", {"structured_outputs": {"json": {}, "regex": "a"}}),
        ("guided_regex", {"guided_json": {}, "guided_regex": "a"}),
        ("guided_json", {"guided_json": "{"}),
        ("guided_choice", {"guided_choice": [1]}),
    ],
)
def test_what_is_not_computed_is_refused_by_name(client: OpenAI, param: str, given: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        _complete(client, extra=given)
    assert caught.value.param == param
    assert str(caught.value.body["message"]).count("\n") <= 4  # pyright: ignore


def test_top_k_1_takes_the_most_probable_token(client: OpenAI) -> None:
    greedy = _complete(client, temperature=0.0, max_tokens=8).choices[0].text
    assert _complete(client, max_tokens=8, extra={"top_k": 1}).choices[0].text == greedy


def test_a_token_id_can_stop_a_completion(client: OpenAI) -> None:
    whole = _complete(client, max_tokens=16, extra={"return_token_ids": True}).choices[0]
    stop_at = whole.token_ids[5]
    first = whole.token_ids.index(stop_at)
    extra = {"stop_token_ids": [stop_at], "return_token_ids": True}
    cut = _complete(client, max_tokens=16, extra=extra).choices[0]
    assert cut.token_ids == whole.token_ids[: first + 1]
    assert cut.finish_reason == "stop"
    assert cut.text == preset_tokenizer("nano").decode(whole.token_ids[:first])
    shown = _complete(client, max_tokens=16, extra={**extra, "include_stop_str_in_output": True}).choices[0]
    assert shown.text == preset_tokenizer("nano").decode(whole.token_ids[: first + 1])


@pytest.mark.parametrize("stream", [False, True])
def test_the_stop_text_can_be_kept(client: OpenAI, stream: bool) -> None:
    whole = _complete(client, max_tokens=32).choices[0].text
    stop_text = whole[10:13]
    asked = {"max_tokens": 32, "stop": [stop_text], "stream": stream}
    answer = _complete(client, **asked, extra={"include_stop_str_in_output": True})
    chunks = answer if stream else [answer]
    text = "".join(chunk.choices[0].text for chunk in chunks)
    assert text == whole[: whole.index(stop_text) + len(stop_text)]


def test_control_tokens_are_spelled_or_left_out(client: OpenAI) -> None:
    """Spelled in a prompt they count, as a template that was rendered by the client needs it."""
    prompt = "<|user|>Hello.<|end|>"
    asked = {"prompt": prompt, "echo": True, "max_tokens": 0}
    for extra, text in (
        ({}, prompt),
        ({"skip_special_tokens": False}, prompt),
        ({"skip_special_tokens": True}, "Hello."),
    ):
        answer = _complete(client, **asked, logprobs=0, extra=extra)
        assert answer.choices[0].text == text
        assert answer.usage.prompt_tokens == len(_ids(prompt))
        assert len(answer.choices[0].logprobs.tokens) == len(_ids(prompt))


def test_a_prompt_is_scored_by_id_as_vllm_tells_it(running: Running, client: OpenAI) -> None:
    ids = _ids(TEXT)
    choice = _complete(client, extra={"prompt_logprobs": 2}).choices[0]
    scores = _scores(running, ids)
    assert choice.prompt_logprobs[0] is None
    for token, score, printed in zip(ids[1:], scores[1:], choice.prompt_logprobs[1:], strict=True):
        assert next(iter(printed)) == str(token)
        assert printed[str(token)]["logprob"] == score
        assert len(printed) in (2, 3)
        best = [entry for entry in printed.values() if entry["rank"] == 1]
        assert best[0]["logprob"] == max(entry["logprob"] for entry in printed.values())


def test_penalties_and_biases_choose_other_tokens_with_the_distributions_own_log_probabilities(
    running: Running, client: OpenAI
) -> None:
    plain = _complete(client, temperature=0.0, max_tokens=12, extra={"return_token_ids": True})
    first = plain.choices[0].token_ids[0]
    ids = _ids(TEXT)
    for extra in (
        {"logit_bias": {str(first): -100}},
        {"repetition_penalty": 5.0},
        {"presence_penalty": 2.0, "frequency_penalty": 2.0},
    ):
        asked = {**extra, "return_token_ids": True}
        (choice,) = _complete(client, temperature=0.0, max_tokens=12, logprobs=0, extra=asked).choices
        assert choice.token_ids != plain.choices[0].token_ids
        scores = _scores(running, ids + choice.token_ids)
        assert choice.logprobs.token_logprobs == scores[len(ids) :]
    assert (
        first
        not in _complete(client, max_tokens=12, extra={"logit_bias": {str(first): -1e6}, "return_token_ids": True})
        .choices[0]
        .token_ids
    )
    narrow = _complete(client, max_tokens=8, extra={"min_p": 1.0}).choices[0].text
    assert narrow == _complete(client, max_tokens=8, temperature=0.0).choices[0].text


@pytest.mark.parametrize(
    ("extra", "pattern"),
    [
        ({"guided_regex": "[0-9]{3}-[a-f]{2}"}, "[0-9]{3}-[a-f]{2}"),
        ({"guided_choice": ["yes, it is", "no (never)"]}, r"yes, it is|no \(never\)"),
        ({"structured_outputs": {"regex": "ab?c"}}, "ab?c"),
        ({"guided_grammar": 'start: "a" "b"'}, "ab"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "b", "schema": {"type": "boolean"}}}},
            "true|false",
        ),
        ({"guided_json": '{"enum": [1, 2]}'}, "1|2"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_follows_its_grammar(client: OpenAI, extra: dict[str, Any], pattern: str, stream: bool) -> None:
    for seed in range(3):
        answer = _complete(client, seed=seed, max_tokens=40, extra=extra, stream=stream)
        chunks = list(answer) if stream else [answer]
        text = "".join(chunk.choices[0].text for chunk in chunks)
        assert re.fullmatch(pattern, text), text
        assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_grammar_that_cannot_be_compiled_is_refused_by_the_name_it_came_in(client: OpenAI) -> None:
    for param, extra in (
        ("guided_regex", {"guided_regex": "("}),
        ("structured_outputs", {"structured_outputs": {"grammar": "start: nothing"}}),
        ("guided_json", {"guided_json": {"type": 5}}),
        ("guided_json", {"guided_json": "[" * 100_000}),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            _complete(client, extra=extra)
        assert caught.value.param == param
