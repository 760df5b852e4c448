"""Asks what is drawn, and what tokens are said to be worth: seeds, ends, one model with the trainer, alternatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tinker import types

from tinsmith.lab.conform.subject import (
    PROMPT,
    CannotTellError,
    FloatArray,
    Subject,
    Verdict,
    Word,
    check,
    datum,
    differs,
    farthest,
    graded,
    honoured,
    params,
    prompt_of,
    silent,
)

_LONG = 64


def _draw(
    subject: Subject, wanted: types.SamplingParams, n: int = 1, prompt: Sequence[int] = PROMPT
) -> list[types.SampledSequence]:
    return list(subject.wait(subject.base.sample(prompt_of(prompt), n, wanted)).sequences)


def _tokens(sequences: Sequence[types.SampledSequence]) -> list[list[int]]:
    return [list(one.tokens) for one in sequences]


@check("sampling/seed repeats", "Does a seed draw the same tokens again?")
def seed_repeats(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.seed ("random seed for reproducible generation")."""
    first, again = (_tokens(_draw(subject, params(seed=5, max_tokens=_LONG), 2)) for _ in range(2))
    if first == again:
        return honoured(f"2 samples of {_LONG} tokens, twice the same")
    return silent("the same seed draws other tokens")


@check("sampling/seeds differ", "Do two seeds draw different tokens?")
def seeds_differ(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.seed."""
    drawn = [_tokens(_draw(subject, params(seed=seed, max_tokens=_LONG))) for seed in (5, 6, 7)]
    if drawn[0] == drawn[1] == drawn[2]:
        return silent(f"three seeds draw the same {_LONG} tokens")
    return honoured("three seeds, different tokens")


@check("sampling/samples of one request", "Are n samples of one seed n different ones?")
def samples_differ(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.sample (num_samples: "independent samples"); cookbook issue 206."""
    drawn = _tokens(_draw(subject, params(seed=5, max_tokens=_LONG), 4))
    distinct = len({tuple(tokens) for tokens in drawn})
    if len(drawn) != 4:
        return silent(f"4 samples were asked for, {len(drawn)} came")
    return honoured("4 different samples") if distinct == 4 else silent(f"{distinct} of 4 differ")


@check("sampling/temperature", "Are log-probabilities those of the distribution that was drawn from?")
def temperature(subject: Subject) -> Verdict:
    """Source: cookbook, tests/validate_temperature_logprobs.py: (lp_t(i) - lp_t(j)) = (lp_1(i) - lp_1(j)) / t."""
    sequences = _draw(subject, params(seed=2, max_tokens=1, temperature=2.0), 12)
    hot = {one.tokens[0]: (one.logprobs or [])[0] for one in sequences}
    if len(hot) < 2:
        return silent("12 samples at temperature 2 are one token")
    scored = {token: subject.wait(subject.base.compute_logprobs(prompt_of([*PROMPT, token])))[-1] for token in hot}
    cold = {token: value for token, value in scored.items() if value is not None}
    if len(cold) != len(hot):
        return silent("compute_logprobs has no value for the last token")
    first = next(iter(hot))
    pairs = [(hot[token] - hot[first], cold[token] - cold[first]) for token in hot]
    found = graded(max(abs(h - c / 2.0) for h, c in pairs), f"differences of {len(hot)} tokens, halved")
    if found.word != "honoured" and max(abs(h - c) for h, c in pairs) < 1e-3:
        return silent("log-probabilities are told as of temperature 1")
    return found


@check("sampling/greedy", "Is temperature 0 the most probable token, whatever the seed?")
def greedy(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.temperature."""
    plain, seeded = (_tokens(_draw(subject, params(temperature=0.0, **seed))) for seed in ({}, {"seed": 9}))
    if plain != seeded:
        return silent("temperature 0 draws other tokens with a seed")
    future = subject.base.sample(prompt_of([*PROMPT, *plain[0]]), 1, params(max_tokens=1, seed=1), True, 1)
    best = subject.wait(future).topk_prompt_logprobs
    if best is None:
        return differs("no top tokens to compare with")
    top = [row[0][0] if row else None for row in best[len(PROMPT) :]]
    if top == plain[0]:
        return honoured(f"{len(top)} tokens, each the most probable; a seed changes nothing")
    return silent(f"{sum(a != b for a, b in zip(top, plain[0], strict=False))} tokens are not the best")


@check("sampling/top_k and top_p", "Are top_k=1 and a tiny top_p greedy?")
def truncation(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.top_k and top_p."""
    greedily = _tokens(_draw(subject, params(temperature=0.0)))
    wrong = [
        name
        for name, value in (("top_k", 1), ("top_p", 1e-6))
        if _tokens(_draw(subject, params(seed=4, **{name: value}))) != greedily
    ]
    return silent(f"{' and '.join(wrong)} ignored") if wrong else honoured("both draw the greedy tokens")


@check("sampling/max_tokens", "Does a sample without stops have max_tokens tokens?")
def max_tokens(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.max_tokens and stop (an empty list never stops)."""
    (one,) = _draw(subject, params(seed=11, max_tokens=_LONG))
    count = len(one.tokens)
    if count > _LONG:
        return silent(f"{count} tokens, {_LONG} were allowed")
    if count < _LONG:
        return silent(f"stop=[] ended after {count} of {_LONG} tokens ({one.stop_reason})")
    if one.stop_reason != "length":
        return differs(f"the reason to stop is {one.stop_reason!r}, not 'length'")
    return honoured(f"{count} tokens, and the reason is 'length'")


def _ended(free: list[int], got: types.SampledSequence, at: int) -> Verdict:
    """Judge a sample that must be `free` up to and with position `at`."""
    tokens = list(got.tokens)
    if tokens == free[: at + 1]:
        if got.stop_reason == "stop":
            return honoured("it ends the sample and is part of it")
        return differs(f"it ends the sample, but the reason is {got.stop_reason!r}")
    if len(tokens) <= at and tokens == free[: len(tokens)]:
        return silent("it ends the sample and is cut off")
    if tokens == free:
        return silent("it is ignored")
    raise CannotTellError("a seed does not repeat its tokens, so where a stop stands is not known")


@check("sampling/stop token", "Does a stop token end a sample, and is it part of it?")
def stop_token(subject: Subject) -> Verdict:
    """Source: cookbook, renderers (they parse the stop token at the end of the answer)."""
    (unstopped,) = _draw(subject, params(seed=11, max_tokens=_LONG))
    free = list(unstopped.tokens)
    at = next((i for i, token in enumerate(free) if i >= 8 and token not in free[:i]), None)
    if at is None:
        raise CannotTellError("the base model repeats a few tokens for ever")
    (got,) = _draw(subject, params(seed=11, max_tokens=_LONG, stop=[free[at]]))
    return _ended(free, got, at)


@check("sampling/stop string", "Does a stop string end a sample, and is it part of it?")
def stop_string(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.stop; cookbook, renderers/role_colon.py."""
    try:
        tokenizer = subject.trained.get_tokenizer()
    except (OSError, ValueError) as error:
        raise CannotTellError(f"its tokenizer is not to be had here ({error})") from error
    (unstopped,) = _draw(subject, params(seed=11, max_tokens=_LONG))
    free = list(unstopped.tokens)
    for at in range(4, len(free)):
        text = str(tokenizer.decode([free[at]]))
        before = str(tokenizer.decode(free[:at]))
        if text.strip() and text.isascii() and text not in before:
            (got,) = _draw(subject, params(seed=11, max_tokens=_LONG, stop=[text]))
            return _ended(free, got, at)
    raise CannotTellError(f"none of {_LONG} drawn tokens is a text of its own")


@check("sampling/retries", "Is a sampling request that is posted again the same one?")
def sample_again(subject: Subject) -> Verdict:
    """Source: SDK, types.SampleRequest.seq_id ("deterministic request IDs")."""
    session = subject.service.holder.get_session_id()
    made = subject.post(
        "create_sampling_session",
        {"session_id": session, "sampling_session_seq_id": 900_000, "base_model": subject.model},
    )
    body = types.SampleRequest(
        sampling_session_id=made.raise_for_status().json()["sampling_session_id"],
        seq_id=1,
        prompt=prompt_of(PROMPT),
        sampling_params=params(max_tokens=4),
    ).model_dump(exclude_unset=True)
    answers = [subject.post("asample", body) for _ in range(2)]
    if any(one.is_error for one in answers):
        return differs(f"HTTP {[one.status_code for one in answers]}: {answers[-1].text[:120]}")
    first, again = (one.json().get("request_id") for one in answers)
    return honoured("one request id") if first == again else silent("two requests, each computed")


_ROWS = len(PROMPT) - 1


def _array(values: object) -> FloatArray:
    """Return log-probabilities as an array, NaN where there is none."""
    return np.array(values, dtype=np.float32)


def _trainers(subject: Subject) -> FloatArray:
    """Return what the trainer gives the prompt's tokens but the first."""
    return subject.forward(subject.trained, [datum(PROMPT, {"weights": [1.0] * _ROWS})])[0]


def _aligned(reported: FloatArray, truth: FloatArray, what: str) -> Verdict:
    """Judge the log-probabilities of a prompt's n tokens against those of the last n - 1."""
    if len(reported) == len(truth) + 1 and np.isnan(reported[0]):
        distance = farthest([reported[1:]], [truth])
        if np.isnan(reported[1:]).any():
            return silent(f"{what}: {int(np.isnan(reported[1:]).sum())} tokens have no value")
        if distance > 1e-3 and farthest([reported[2:]], [truth[:-1]]) < 1e-3:
            return silent(f"{what}: shifted by one position, late")
        if distance > 1e-3 and farthest([reported[1:-1]], [truth[1:]]) < 1e-3:
            return silent(f"{what}: shifted by one position, early")
        return graded(distance, what)
    if len(reported) == len(truth):
        near = farthest([reported], [truth]) < 1e-3
        if near:
            return differs(f"{what}: the entry without a value at the beginning is missing")
    if len(reported) == len(truth) + 1 and farthest([reported[:-1]], [truth]) < 1e-3:
        return silent(f"{what}: shifted by one position, early")
    return silent(f"{what}: {len(reported)} values for {len(truth) + 1} tokens, the first is {reported[:1]}")


@check("scoring/compute_logprobs", "Are the sampler's log-probabilities of a text the trainer's, each in its place?")
def compute_logprobs(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.compute_logprobs (one entry a token, the first without a value)."""
    logprobs = _array(subject.wait(subject.sampler.compute_logprobs(prompt_of(PROMPT))))
    return _aligned(logprobs, _trainers(subject), f"{_ROWS} tokens by sampler and trainer")


@check("scoring/prompt_logprobs", "Are the prompt's log-probabilities beside a sample in their places?")
def prompt_logprobs(subject: Subject) -> Verdict:
    """Source: SDK, types.SampleResponse.prompt_logprobs (None for the first token; of the model, at temperature 1)."""
    wanted = params(max_tokens=1, seed=1, temperature=0.7)
    response = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 1, wanted, True))
    if response.prompt_logprobs is None:
        return silent("include_prompt_logprobs is accepted, and none are returned")
    return _aligned(_array(response.prompt_logprobs), _trainers(subject), f"{_ROWS} prompt tokens")


@check("scoring/sampled tokens", "Are the log-probabilities of sampled tokens the trainer's?")
def sampled_tokens(subject: Subject) -> Verdict:
    """Sample four times 24 tokens, and score them with the trainer.

    Source: SDK, types.SampledSequence.logprobs; cookbook, rl/data_processing.py (they are the loss input `logprobs`).
    """
    response = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 4, params(seed=3, max_tokens=24)))
    sampled = [_array(one.logprobs) for one in response.sequences]
    data = [datum(PROMPT + list(one.tokens)) for one in response.sequences]
    scored = [values[_ROWS:] for values in subject.forward(subject.trained, data)]
    return graded(farthest(sampled, scored), f"{sum(map(len, sampled))} tokens by sampler and trainer")


@check("scoring/top-k of the prompt", "Are the most probable tokens of the prompt's positions told?")
def topk_prompt(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.sample (topk_prompt_logprobs)."""
    response = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 1, params(max_tokens=1, seed=1), True, 5))
    best, values = response.topk_prompt_logprobs, response.prompt_logprobs
    if best is None or values is None:
        return silent("it is accepted, and none are returned")
    if len(best) != len(PROMPT):
        return silent(f"{len(best)} rows for {len(PROMPT)} tokens")
    apart = 0.0
    for token, value, row in zip(PROMPT[1:], _trainers(subject), best[1:], strict=True):
        if row is None or len(row) != 5 or list(row) != sorted(row, key=lambda one: -one[1]):
            return silent(f"a row is not five tokens, the best first: {row}")
        if token in dict(row):
            apart = max(apart, abs(dict(row)[token] - float(value)))
        elif float(value) > row[-1][1] + 1e-3:
            return silent("a prompt token is more probable than a row's last, and is not in it")
    return graded(apart, "rows against the trainer")


@check("scoring/top-k of the sample", "Are the most probable tokens of sampled positions told?")
def topk_sample(subject: Subject) -> Verdict:
    """Source: SDK, types.SampledSequence.topk_logprobs."""
    response = subject.wait(
        subject.sampler.sample(prompt_of(PROMPT), 1, params(temperature=0.0), topk_sample_logprobs=3)
    )
    (one,) = response.sequences
    rows = one.topk_logprobs
    if rows is None:
        return silent("it is accepted, and none are returned")
    if [row[0][0] if row else None for row in rows] != list(one.tokens):
        return silent("the first of a row is not the greedy token")
    return honoured(f"{len(rows)} rows, the greedy token first")


def _tensor(values: types.TensorData | None) -> FloatArray | None:
    return None if values is None else np.asarray(values.to_numpy()).reshape(values.shape or [-1])


@check("scoring/target_prompt_logprobs", "Are tokens of the asker's choice scored at the prompt's positions?")
def targets(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.sample (target_prompt_logprobs, [len(prompt) - 1, K], -1: none)."""
    ids = np.full((_ROWS, 2), -1, dtype=np.int64)
    ids[:, 0], ids[3, 1] = PROMPT[1:], 77
    future = subject.sampler.sample(
        prompt_of(PROMPT), 1, params(max_tokens=1, seed=1), target_prompt_logprobs=types.TensorData.from_numpy(ids)
    )
    scored = _tensor(subject.wait(future).target_prompt_logprobs)
    if scored is None:
        return silent("it is accepted, and none are returned")
    if scored.shape != ids.shape:
        return silent(f"the answer has shape {scored.shape}, not {ids.shape}")
    if (scored[ids < 0] != 0.0).any():
        return differs("cells with -1 are not 0")
    return graded(farthest([scored[:, 0]], [_trainers(subject)]), f"{_ROWS} targets and the trainer")


@check("scoring/prompt_alt_tokens", "Are alternatives drawn at the prompt's positions?")
def alternatives(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.sample (prompt_alt_tokens_k)."""
    client, sampling_params = subject.sampler, params(max_tokens=1, seed=1)
    response = subject.wait(client.sample(prompt_of(PROMPT), 1, sampling_params, prompt_alt_tokens_k=4))
    drawn = response.prompt_alt_tokens
    if drawn is None:
        return silent("it is accepted, and none are returned")
    tokens, logprobs = _tensor(drawn.tokens), _tensor(drawn.logprobs)
    if tokens is None or logprobs is None or tokens.shape != (_ROWS, 4):
        return silent("the draws have another shape than [len(prompt) - 1, 4]")
    target_tokens = types.TensorData.from_numpy(np.ascontiguousarray(tokens, dtype=np.int64))
    scored = subject.wait(client.sample(prompt_of(PROMPT), 1, sampling_params, target_prompt_logprobs=target_tokens))
    values = _tensor(scored.target_prompt_logprobs)
    if values is None:
        raise CannotTellError("its targets are not scored, which would be compared with")
    verdict = graded(farthest([values], [logprobs]), f"{tokens.size} draws and the same as targets")
    return verdict if len(np.unique(tokens)) > 1 else Verdict(Word.SILENT, "one token everywhere")
