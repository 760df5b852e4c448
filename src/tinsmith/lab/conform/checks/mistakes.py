"""Makes mistakes on purpose: each must be answered within seconds as the user's, not with a hang or a result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, cast

from tinker import types

from tinsmith.lab.conform.checks.losses import loss_batch
from tinsmith.lab.conform.subject import (
    DATA,
    FAILURES,
    NOT_A_TOKEN,
    PROMPT,
    CannotTellError,
    Subject,
    Verdict,
    check,
    datum,
    differs,
    failure,
    farthest,
    graded,
    honoured,
    is_refusal,
    params,
    prompt_of,
    silent,
    tokens_of,
    words_of,
)
from tinsmith.lab.service.official_client import Waiting, ready

_SECONDS: Final = 20.0  # Whoever waits longer for the answer to a mistake thinks that the server hangs.


def _made(subject: Subject, call: Callable[[], Waiting[Any]], accepted: str) -> Verdict:
    began = time.monotonic()
    try:
        ready(call(), min(_SECONDS, subject.limit_s))
    except TimeoutError:
        subject.forget()
        return differs(
            f"no answer within {min(_SECONDS, subject.limit_s):.0f} s: the SDK retries what it takes for an outage"
        )
    except FAILURES as error:
        if not is_refusal(error):
            return differs(failure(error))
        return honoured(f"after {time.monotonic() - began:.1f} s: {words_of(error)}")
    return silent(accepted)


@check("mistakes/unknown model, training", "Is a model that is not served refused?")
def unknown_model(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client; a server that trains another model instead is worse than none."""
    make = subject.service.create_lora_training_client
    return _made(subject, lambda: make("no/such-model", rank=4), "an adapter was made")


@check("mistakes/unknown model, sampling", "Is a model that is not served refused for sampling?")
def unknown_sampler(subject: Subject) -> Verdict:
    """Source: SDK, create_sampling_client."""

    def call() -> Waiting[Any]:
        made = subject.service.create_sampling_client(base_model="no/such-model")
        client = ready(made, min(_SECONDS, subject.limit_s))
        return client.sample(prompt_of(PROMPT), 1, params(max_tokens=1))

    return _made(subject, call, "a token was sampled")


@check("mistakes/unknown checkpoint", "Is a path that leads nowhere refused?")
def unknown_path(subject: Subject) -> Verdict:
    """Source: SDK, create_training_client_from_state."""
    load = subject.service.create_training_client_from_state
    saved = subject.wait(subject.trained.save_state("conform-there")).path
    subject.wait(load(subject.to_delete(saved)))  # else any refusal would pass for the right one
    return _made(subject, lambda: load("tinker://nope:train:0/weights/none"), "something was loaded")


@check("mistakes/prompt too long", "Is a prompt beyond the context refused?")
def too_long(subject: Subject) -> Verdict:
    """Source: cookbook, completers.py ("prompt + max_tokens exceeds context window")."""
    prompt = prompt_of([65 + i % 26 for i in range(_context(subject) + 10)])
    return _made(subject, lambda: subject.base.sample(prompt, 1, params(max_tokens=1)), "it was sampled")


@check("mistakes/max_tokens too large", "Is a completion that cannot fit the context refused?")
def too_many(subject: Subject) -> Verdict:
    """Source: cookbook, completers.py ("prompt + max_tokens exceeds context window"); SkyRL samples past it."""
    context = _context(subject)

    def call() -> Waiting[Any]:
        return subject.base.sample(prompt_of(PROMPT), 1, params(max_tokens=context, seed=1, stop=None))

    return _made(subject, call, "it was sampled")


def _context(subject: Subject) -> int:
    if subject.context is None:
        raise CannotTellError("get_server_capabilities has no max_context_length")
    return subject.context


@check("mistakes/datum too long", "Is a datum beyond the context refused?")
def long_datum(subject: Subject) -> Verdict:
    """Source: SDK, types.SupportedModel.max_context_length."""
    long = datum([65 + i % 26 for i in range(_context(subject) + 10)])
    return _made(subject, lambda: subject.trained.forward([long], "cross_entropy"), "it was computed")


@check("mistakes/no such token, prompt", "Is a token beyond the vocabulary refused in a prompt?")
def no_token(subject: Subject) -> Verdict:
    """Source: SDK, types.EncodedTextChunk.tokens; an embedding that is clamped answers another question."""
    prompt = prompt_of([*PROMPT, NOT_A_TOKEN])
    return _made(subject, lambda: subject.base.sample(prompt, 1, params(max_tokens=1)), "it was sampled")


_BAD: Final[tuple[tuple[str, str, types.LossFnType, types.Datum], ...]] = (
    (
        "no such token, datum",
        "Is a token beyond the vocabulary refused in a datum?",
        "cross_entropy",
        datum([*PROMPT, NOT_A_TOKEN, 65]),
    ),
    ("no such target", "Is a target beyond the vocabulary refused?", "cross_entropy", datum([*PROMPT, NOT_A_TOKEN])),
    ("no such loss", "Is a loss that does not exist refused?", cast("types.LossFnType", "no_such_loss"), DATA[0]),
    (
        "missing input",
        "Is importance_sampling without logprobs refused?",
        "importance_sampling",
        datum(tokens_of("abcd"), {"advantages": [1.0] * 3}),
    ),
    (
        "lengths that differ",
        "Is a datum with fewer weights than targets refused?",
        "cross_entropy",
        datum(tokens_of("abcd"), {"weights": [1.0]}),
    ),
    (
        "not a number",
        "Is a weight that is not a number refused?",
        "cross_entropy",
        datum(tokens_of("abcd"), {"weights": [1.0, float("nan"), 1.0]}),
    ),
)


def _bad(loss_fn: types.LossFnType, one: types.Datum) -> Callable[[Subject], Verdict]:
    def answer(subject: Subject) -> Verdict:
        """Source: SDK, types.Datum and LossFnType; documentation, losses.mdx."""
        return _made(subject, lambda: subject.trained.forward([DATA[0], one], loss_fn), "it was computed")

    return answer


for _name, _question, _loss_fn, _datum in _BAD:
    check(f"mistakes/{_name}", _question)(_bad(_loss_fn, _datum))


@check("mistakes/unknown setting", "Is a setting that no loss has refused?")
def unknown_setting(subject: Subject) -> Verdict:
    """Source: documentation, losses.mdx (the settings of each loss); an option that is dropped trains another model."""
    batch = loss_batch("ppo", subject.forward(subject.trained))
    setting = {"clip_ratio": 0.05}
    return _made(subject, lambda: subject.trained.forward(batch, "ppo", setting), "it is accepted, and means nothing")


@check("mistakes/rank 0", "Is a rank of 0 refused?")
def rank_zero(subject: Subject) -> Verdict:
    """Source: SDK, types.LoraConfig.rank."""
    make = subject.service.create_lora_training_client
    return _made(subject, lambda: make(subject.model, rank=0), "an adapter was made")


@check("mistakes/temperature below 0", "Is a negative temperature refused?")
def below_zero(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.temperature."""
    wanted = params(max_tokens=1, temperature=-1.0)
    return _made(subject, lambda: subject.base.sample(prompt_of(PROMPT), 1, wanted), "it was sampled")


@check("mistakes/learning rate below 0", "Is a negative learning rate refused?")
def negative_rate(subject: Subject) -> Verdict:
    """Source: SDK, types.AdamParams.learning_rate."""
    client = subject.trainer()
    subject.wait(client.forward_backward([DATA[0]], "cross_entropy"))
    wanted = types.AdamParams(learning_rate=-1.0)
    return _made(subject, lambda: client.optim_step(wanted), "a step was taken")


@check("mistakes/the client lives on", "Are requests behind a refused one served?")
def lives_on(subject: Subject) -> Verdict:
    """Source: SDK, seq_id: a refused request keeps its number, and adds no gradient."""
    plain, disturbed = subject.twins()
    expected = subject.step(plain, [DATA[0]])
    bad = disturbed.forward_backward([datum([*PROMPT, NOT_A_TOKEN])], "cross_entropy")
    got = subject.step(disturbed, [DATA[0]])
    try:
        bad.result(min(_SECONDS, subject.limit_s))
    except FAILURES:
        return graded(farthest(expected.after, got.after), "the step behind it, and a twin's")
    return silent("the bad gradient was accepted")
