"""Asks what is drawn: seeds, temperature, greedy, and where a sample ends."""

from __future__ import annotations

from collections.abc import Sequence

from tinker import types

from tinsmith.lab.conform.subject import (
    PROMPT,
    CannotTellError,
    Subject,
    Verdict,
    check,
    differs,
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
    """Sample from the base model."""
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
    told = subject.base.sample(prompt_of([*PROMPT, *plain[0]]), 1, params(max_tokens=1, seed=1), True, 1)
    best = subject.wait(told).topk_prompt_logprobs
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
