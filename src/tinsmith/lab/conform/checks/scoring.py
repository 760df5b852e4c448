"""Asks what a text's tokens are said to be worth: one model with the trainer, no shift, alternatives."""

from __future__ import annotations

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

_ROWS = len(PROMPT) - 1


def _array(values: object) -> FloatArray:
    """Return log-probabilities as an array, NaN where there is none."""
    return np.array(values, dtype=np.float32)


def _trainers(subject: Subject) -> FloatArray:
    """Return what the trainer gives the prompt's tokens but the first."""
    return subject.forward(subject.trained, [datum(PROMPT, {"weights": [1.0] * _ROWS})])[0]


def _aligned(told: FloatArray, truth: FloatArray, what: str) -> Verdict:
    """Judge the log-probabilities of a prompt's n tokens against those of the last n - 1."""
    if len(told) == len(truth) + 1 and np.isnan(told[0]):
        distance = farthest([told[1:]], [truth])
        if np.isnan(told[1:]).any():
            return silent(f"{what}: {int(np.isnan(told[1:]).sum())} tokens have no value")
        if distance > 1e-3 and farthest([told[2:]], [truth[:-1]]) < 1e-3:
            return silent(f"{what}: shifted by one position, late")
        if distance > 1e-3 and farthest([told[1:-1]], [truth[1:]]) < 1e-3:
            return silent(f"{what}: shifted by one position, early")
        return graded(distance, what)
    if len(told) == len(truth):
        near = farthest([told], [truth]) < 1e-3
        if near:
            return differs(f"{what}: the entry without a value at the beginning is missing")
    if len(told) == len(truth) + 1 and farthest([told[:-1]], [truth]) < 1e-3:
        return silent(f"{what}: shifted by one position, early")
    return silent(f"{what}: {len(told)} values for {len(truth) + 1} tokens, the first is {told[:1]}")


@check("scoring/compute_logprobs", "Are the sampler's log-probabilities of a text the trainer's, each in its place?")
def compute_logprobs(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.compute_logprobs (one entry a token, the first without a value)."""
    told = _array(subject.wait(subject.sampler.compute_logprobs(prompt_of(PROMPT))))
    return _aligned(told, _trainers(subject), f"{_ROWS} tokens by sampler and trainer")


@check("scoring/prompt_logprobs", "Are the prompt's log-probabilities beside a sample in their places?")
def prompt_logprobs(subject: Subject) -> Verdict:
    """Source: SDK, types.SampleResponse.prompt_logprobs (None for the first token; of the model, at temperature 1)."""
    wanted = params(max_tokens=1, seed=1, temperature=0.7)
    told = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 1, wanted, True))
    if told.prompt_logprobs is None:
        return silent("include_prompt_logprobs is accepted, and none are returned")
    return _aligned(_array(told.prompt_logprobs), _trainers(subject), f"{_ROWS} prompt tokens")


@check("scoring/sampled tokens", "Are the log-probabilities of sampled tokens the trainer's?")
def sampled_tokens(subject: Subject) -> Verdict:
    """Sample four times 24 tokens, and score them with the trainer.

    Source: SDK, types.SampledSequence.logprobs; cookbook, rl/data_processing.py (they are the loss input `logprobs`).
    """
    response = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 4, params(seed=3, max_tokens=24)))
    told = [_array(one.logprobs) for one in response.sequences]
    data = [datum(PROMPT + list(one.tokens)) for one in response.sequences]
    scored = [values[_ROWS:] for values in subject.forward(subject.trained, data)]
    return graded(farthest(told, scored), f"{sum(map(len, told))} tokens by sampler and trainer")


@check("scoring/top-k of the prompt", "Are the most probable tokens of the prompt's positions told?")
def topk_prompt(subject: Subject) -> Verdict:
    """Source: SDK, SamplingClient.sample (topk_prompt_logprobs)."""
    told = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 1, params(max_tokens=1, seed=1), True, 5))
    best, values = told.topk_prompt_logprobs, told.prompt_logprobs
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
    told = subject.wait(subject.sampler.sample(prompt_of(PROMPT), 1, params(temperature=0.0), topk_sample_logprobs=3))
    (one,) = told.sequences
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
    told = subject.sampler.sample(
        prompt_of(PROMPT), 1, params(max_tokens=1, seed=1), target_prompt_logprobs=types.TensorData.from_numpy(ids)
    )
    scored = _tensor(subject.wait(told).target_prompt_logprobs)
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
    client, wanted = subject.sampler, params(max_tokens=1, seed=1)
    told = subject.wait(client.sample(prompt_of(PROMPT), 1, wanted, prompt_alt_tokens_k=4))
    drawn = told.prompt_alt_tokens
    if drawn is None:
        return silent("it is accepted, and none are returned")
    tokens, logprobs = _tensor(drawn.tokens), _tensor(drawn.logprobs)
    if tokens is None or logprobs is None or tokens.shape != (_ROWS, 4):
        return silent("the draws have another shape than [len(prompt) - 1, 4]")
    asked = types.TensorData.from_numpy(np.ascontiguousarray(tokens, dtype=np.int64))
    scored = subject.wait(client.sample(prompt_of(PROMPT), 1, wanted, target_prompt_logprobs=asked))
    values = _tensor(scored.target_prompt_logprobs)
    if values is None:
        raise CannotTellError("its targets are not scored, which would be compared with")
    found = graded(farthest([values], [logprobs]), f"{tokens.size} draws and the same as targets")
    return found if len(np.unique(tokens)) > 1 else Verdict(Word.SILENT, "one token everywhere")
