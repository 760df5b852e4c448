"""Asks what a step is made of, and what is made and kept: accumulation, settings, retries; adapters, states, names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tinker
from tinker import types

from tinsmith.lab.conform.subject import (
    ADAM,
    DATA,
    PROMPT,
    SAME_NATS,
    USER_ERRORS,
    CannotTellError,
    Subject,
    Verdict,
    check,
    datum,
    differs,
    effect,
    farthest,
    graded,
    honoured,
    logprobs_of,
    params,
    prompt_of,
    silent,
    tokens_of,
    words_of,
)
from tinsmith.lab.service.official_client import loss_of

_CHUNK = 1024  # The SDK cuts a request after so many datums.


@check("training/accumulation", "Do two forward_backward calls add up before a step?")
def accumulation(subject: Subject) -> Verdict:
    """Source: documentation, training-sampling ("gradients accumulate until optim_step"); SkyRL issue 2008."""
    together, apart = subject.twins()
    expected = subject.step(together, DATA[:2])
    subject.wait(apart.forward_backward([DATA[0]], "cross_entropy"))
    got = subject.step(apart, [DATA[1]])
    return graded(farthest(expected.after, got.after), "a step on two datums, at once and in two calls")


@check("training/forward leaves no gradient", "Does forward alone add nothing to a step?")
def forward_only(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.forward ("without computing gradients")."""
    plain, looked = subject.twins()
    expected = subject.step(plain, [DATA[0]])
    subject.forward(looked, DATA[1:])
    return graded(farthest(expected.after, subject.step(looked, [DATA[0]]).after), "a step, with a forward before it")


@check("training/learning_rate 0", "Does a learning rate of 0 leave the weights?")
def no_rate(subject: Subject) -> Verdict:
    """Source: SDK, types.AdamParams.learning_rate."""
    client = subject.trainer()
    before = subject.forward(client)
    after = subject.step(client, params=ADAM.model_copy(update={"learning_rate": 0.0})).after
    return graded(farthest(before, after), "log-probabilities before and after")


def _moved(subject: Subject, **changes: float) -> float:
    """Return how far a first step with these settings moves the log-probabilities."""
    client = subject.trainer()
    before = subject.forward(client)
    return farthest(before, subject.step(client, params=ADAM.model_copy(update=changes)).after)


@check("training/eps", "Is Adam's eps honoured?")
def eps(subject: Subject) -> Verdict:
    """Source: SDK, types.AdamParams.eps."""
    moved = _moved(subject, eps=1e6)
    if moved <= 0.02 * subject.usual:
        return honoured(f"1e6 moves {moved:.1g} nats, 0.01 moves {subject.usual:.2g}")
    return silent(f"eps=1e6 moves {moved:.2g} nats, as 0.01 does ({subject.usual:.2g})")


@check("training/grad_clip_norm", "Does grad_clip_norm clip?")
def clipping(subject: Subject) -> Verdict:
    """Source: SDK, types.AdamParams.grad_clip_norm (0: no clipping); SkyRL drops it."""
    moved = _moved(subject, grad_clip_norm=1e-7)
    if moved <= 0.02 * subject.usual:
        return honoured(f"a norm of 1e-7 moves {moved:.1g} nats, none moves {subject.usual:.2g}")
    if _moved(subject, eps=1e6) > 0.02 * subject.usual:
        return differs("cannot be told: eps is ignored, and without it Adam undoes any clipping")
    return silent(f"it is accepted and ignored: {moved:.2g} nats, and {subject.usual:.2g} without it")


@check("training/weight_decay", "Is weight_decay honoured, decoupled from the gradient?")
def weight_decay(subject: Subject) -> Verdict:
    """After a step, decay five times by learning_rate * weight_decay = 0.9, with an eps that stops all else.

    A factor of 1e-5 is left of both of an adapter's matrices, and so nothing but the base model.

    Source: SDK, types.AdamParams.weight_decay ("decoupled weight decay").
    """
    client = subject.trainer()
    base = subject.forward(client)
    trained = subject.step(client).after
    settings = ADAM.model_copy(update={"weight_decay": 90.0, "eps": 1e6})
    for _ in range(4):
        subject.step(client, params=settings)
    decayed = subject.step(client, params=settings).after
    subject.forget()  # where a decay reaches all adapters, shared ones are not what they were
    if farthest(trained, decayed) < 1e-2 * farthest(trained, base):
        return silent("it is accepted and changes nothing")
    return graded(farthest(base, decayed), "decayed whole, the base model is left")


@check("training/grad_norm", "Does a step tell the gradient's norm?")
def norm(subject: Subject) -> Verdict:
    """Source: SDK, types.OptimStepResponse.metrics (which names are there is the server's)."""
    client = subject.trainer()
    norms = [
        subject.step(client, params=ADAM.model_copy(update={"learning_rate": 0.0, **more})).grad_norm
        for more in ({}, {"grad_clip_norm": 1e-3})
    ]
    if norms[0] is None:
        return differs("no metric grad_norm")
    if norms[1] is None or abs(norms[1] - norms[0]) > 1e-3 * norms[0]:
        return differs(f"{norms[0]:.4g}, but {norms[1]} when it is clipped")
    return honoured(f"{norms[0]:.4g}, clipped or not")


@check("training/chunks", "Do more datums than one request holds keep their order and their sum?")
def chunks(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.forward_backward (chunks of 1024, parallel_fwdbwd_chunks)."""
    kinds = [datum(tokens_of(f"tin{chr(97 + i)}{chr(110 + i)}"), {"weights": [1.0] * 4}) for i in range(7)]
    alone = subject.forward(subject.trained, kinds)
    data = [kinds[i % 7] for i in range(_CHUNK + 6)]
    output = subject.wait(subject.trained.forward(data, "cross_entropy"))
    got = logprobs_of(output)
    if len(got) != len(data):
        return silent(f"{len(got)} answers for {len(data)} datums")
    found = graded(farthest(got, [alone[i % 7] for i in range(len(data))]), f"{len(data)} datums in order")
    reported, total = (loss_of(output), -sum(float(one.sum(dtype=np.float64)) for one in got))
    if reported is None:
        return Verdict(found.word, f"{found.how}; no metric loss:sum")
    if abs(reported - total) > 1e-3 * abs(total):
        return silent(f"loss:sum of the chunks is {reported:.6g}, not {total:.6g}")
    return found


def _again(subject: Subject, path: str, body: bytes | dict[str, object]) -> Verdict | None:
    """Post a request that was served already once more, and wait; return what is wrong with the answer."""
    answer = subject.post(path, body)
    if answer.status_code != 200:
        return differs(f"{path} again: HTTP {answer.status_code}: {answer.text[:120]}")
    subject.post("retrieve_future", {"request_id": answer.json().get("request_id")})
    return None


@check("training/retries", "Are requests that are posted again applied once?")
def retries(subject: Subject) -> Verdict:
    """Source: SDK, seq_id of each request, and its retries; SkyRL issue 2035."""
    from tinker.proto.request_conv import forward_backward_request_to_proto

    once, twice = subject.twins()
    gradient = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(data=[DATA[0]], loss_fn="cross_entropy"),
        model_id=twice.model_id,
        seq_id=1,
    )
    settings = "optim_params" if "optim_params" in types.OptimStepRequest.model_fields else "adam_params"
    optim = types.OptimStepRequest.model_validate({settings: ADAM, "model_id": twice.model_id, "seq_id": 2})
    subject.wait(twice.forward_backward([DATA[0]], "cross_entropy"))
    body = forward_backward_request_to_proto(gradient).SerializeToString()
    wrong = _again(subject, "forward_backward", body)
    subject.wait(twice.optim_step(ADAM))
    wrong = wrong or _again(subject, "optim_step", optim.model_dump())
    if wrong is not None:
        return wrong
    expected = subject.step(once, [DATA[0]]).after
    found = graded(farthest(expected, subject.forward(twice)), "a step, each request posted twice")
    if found.word == "silent difference" and subject.noise > 1e-3:
        raise CannotTellError("equal steps differ by themselves")
    return found


@check("training/nothing else is touched", "Do base and earlier samplers stay as they were?")
def isolation(subject: Subject) -> Verdict:
    """Source: SDK, save_weights_and_get_sampling_client (a snapshot)."""
    client = subject.trainer()
    subject.step(client)
    snapshot = subject.wait(client.save_weights_and_get_sampling_client())

    def scores() -> list[np.ndarray]:
        scored = [subject.wait(one.compute_logprobs(prompt_of(PROMPT))) for one in (subject.base, snapshot)]
        return [np.array(values[1:], dtype=np.float32) for values in scored]

    before = scores()
    subject.step(client)
    return graded(farthest(before, scores()), "base and snapshot, before and after a step")


@check("training/other adapters", "Does a step leave other adapters as they are, decay and all?")
def others(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client (an adapter of one's own); a server keeps many in one array."""
    left, stepped = subject.trainer(), subject.trainer()
    before = subject.step(left).after
    subject.step(stepped, params=ADAM.model_copy(update={"weight_decay": 90.0}))
    found = graded(farthest(before, subject.forward(left)), "an adapter, before and after another's decay")
    subject.forget()
    return found


@check("training/sampling leaves the trainer", "Does sampling from older weights change no trainer?")
def sampling_aside(subject: Subject) -> Verdict:
    """Source: SDK, save_weights_for_sampler (a copy), create_sampling_client (model_path)."""
    client = subject.trainer()
    subject.step(client)
    older = _saved_sampler(subject, client, "conform-aside")
    before = subject.step(client).after
    subject.wait(older.sample(prompt_of(PROMPT), 1, params(max_tokens=1)))
    return graded(farthest(before, subject.forward(client)), "the trainer, before and after")


@check("adapters/seed repeats", "Do two adapters of one seed take the same step?")
def seed_repeats(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client (seed: "random seed for initialization")."""
    return graded(subject.seed_noise, "two adapters of one seed, after a step")


@check("adapters/seeds differ", "Do adapters of two seeds differ?")
def seeds_differ(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client (seed)."""
    left, right = (subject.step(subject.trainer(seed=seed)).after for seed in (7, 8))
    return effect(farthest(left, right), min(subject.seed_noise, SAME_NATS), "another seed")


@check("adapters/rank", "Is the rank that was asked for the one that is told?")
def rank(subject: Subject) -> Verdict:
    """Source: SDK, types.GetInfoResponse.lora_rank."""
    reported = subject.trainer(rank=4).get_info().lora_rank
    return honoured("get_info says 4") if reported == 4 else differs(f"get_info says {reported}")


@check("adapters/alpha", "Is the adapter scaled by one alpha over its rank?")
def alpha(subject: Subject) -> Verdict:
    """Compare the first gradient's norm at ranks 4 and 16, which goes with alpha / sqrt(rank).

    With one alpha for all ranks it is twice as large at 4. That alpha is 32 cannot be seen from outside.

    Source: Thinking Machines, "LoRA Without Regret" (alpha 32 whatever the rank, so that one learning rate fits all).
    """
    still = ADAM.model_copy(update={"learning_rate": 0.0})
    low, high = (subject.step(subject.trainer(rank=r), params=still).grad_norm for r in (4, 16))
    if not low or not high:
        return differs("cannot be told: no metric grad_norm")
    ratio = low / high
    if 1.25 <= ratio <= 3.2:
        return honoured(f"the gradient at rank 4 is {ratio:.2f} times that at rank 16: alpha is fixed")
    if 0.3 <= ratio <= 0.8:
        return silent(f"the gradient at rank 4 is {ratio:.2f} times that at rank 16: alpha goes with the rank")
    return differs(f"the gradient at rank 4 is {ratio:.2f} times that at rank 16; 2 or 1/2 was expected")


def _part(name: str) -> Callable[[Subject], Verdict]:
    def answer(subject: Subject) -> Verdict:
        """Source: SDK, types.LoraConfig (train_mlp, train_attn, train_unembed)."""
        whole, less = (subject.step(subject.trainer()), subject.step(subject.trainer(without=name)))
        moved = farthest(whole.after, less.after)
        if subject.seed_noise <= SAME_NATS:
            return effect(moved, subject.seed_noise, f"{name}=False")
        if whole.grad_norm is None or less.grad_norm is None:
            return differs("cannot be told: seeds are ignored, and grad_norm is not told")
        share = less.grad_norm / whole.grad_norm
        if share > 0.98:
            return silent(f"{name}=False leaves the gradient at {share:.0%} of the whole")
        return honoured(f"{name}=False leaves {share:.0%} of the gradient")

    return answer


for _name in ("train_mlp", "train_attn", "train_unembed"):
    check(f"adapters/{_name}", f"Does {_name}=False leave a part out?")(_part(_name))


_HOUR = 3600


def _saved(subject: Subject, client: tinker.TrainingClient, name: str) -> str:
    return subject.to_delete(subject.wait(client.save_state(name)).path)


def _stepped(subject: Subject, name: str) -> tuple[tinker.TrainingClient, str]:
    """Return an adapter after two steps, and the path that it was saved at."""
    client = subject.trainer()
    for one in DATA[:2]:
        subject.step(client, [one])
    return client, _saved(subject, client, name)


def _saved_sampler(subject: Subject, client: tinker.TrainingClient, name: str) -> tinker.SamplingClient:
    path = subject.to_delete(subject.wait(client.save_weights_for_sampler(name)).path)
    return subject.wait(subject.service.create_sampling_client(model_path=path))


@check("state/with the optimizer", "Does a state go on as if never stopped?")
def with_optimizer(subject: Subject) -> Verdict:
    """Source: SDK, create_training_client_from_state_with_optimizer."""
    client, path = _stepped(subject, "conform-optimizer")
    on = [subject.step(client, [DATA[i]]).after for i in (2, 0)]
    load = subject.service.create_training_client_from_state_with_optimizer
    resumed = subject.wait(load(path))
    again = [subject.step(resumed, [DATA[i]]).after for i in (2, 0)]
    apart = max(farthest(a, b) for a, b in zip(on, again, strict=True))
    return graded(apart, "two steps after loading, and the same without")


@check("state/weights only", "Does a state without its optimizer have the weights, and begin the optimizer anew?")
def weights_only(subject: Subject) -> Verdict:
    """Source: SDK, create_training_client_from_state ("optimizer state is reset")."""
    client, path = _stepped(subject, "conform-weights")
    resumed = subject.wait(subject.service.create_training_client_from_state(path))
    found = graded(farthest(subject.forward(client), subject.forward(resumed)), "weights, saved and loaded")
    left, right = (subject.step(one, [DATA[2]]).after for one in (client, resumed))
    if farthest(left, right) <= 10 * subject.noise:
        return silent("the optimizer's state was loaded too, or there is none")
    return found


@check("state/sampler weights", "Are saved sampler weights the trainer's?")
def sampler_weights(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.save_weights_for_sampler."""
    client = _saved_sampler(subject, subject.trained, "conform-sampler")
    saved = subject.wait(client.compute_logprobs(prompt_of(PROMPT)))
    live = subject.wait(subject.sampler.compute_logprobs(prompt_of(PROMPT)))
    arrays = [np.array(values[1:], dtype=np.float32) for values in (saved, live)]
    return graded(farthest([arrays[0]], [arrays[1]]), "by path and live")


@check("state/name taken", "Is a name that is taken refused at once, and replaced only on request?")
def name_taken(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.save_state (overwrite)."""
    client = subject.trainer()
    path = _saved(subject, client, "conform-twice")
    try:
        subject.wait(client.save_state("conform-twice"))
    except USER_ERRORS as error:
        again = subject.wait(client.save_state("conform-twice", overwrite=True)).path
        note = "" if again == path else f"; overwritten it is {again}"
        return honoured(f"refused: {words_of(error)}{note}")
    return silent("the second was accepted without overwrite")


def _listed(subject: Subject, client: tinker.TrainingClient) -> dict[str, tinker.types.Checkpoint]:
    found = subject.wait(subject.rest.list_checkpoints(client.model_id)).checkpoints
    return {one.tinker_path: one for one in found}


@check("state/list and delete", "Are checkpoints listed, and gone when deleted?")
def list_and_delete(subject: Subject) -> Verdict:
    """Source: SDK, RestClient.list_checkpoints and delete_checkpoint."""
    client = subject.trainer()
    path = _saved(subject, client, "conform-listed")
    if path not in _listed(subject, client):
        return silent("a saved state is not in the list")
    load = subject.service.create_training_client_from_state
    subject.wait(load(path))
    subject.wait(subject.rest.delete_checkpoint_from_tinker_path(path))
    subject.saved.remove(path)
    if path in _listed(subject, client):
        return silent("a deleted state is in the list")
    try:
        subject.wait(load(path))
    except USER_ERRORS as error:
        return honoured(f"listed, deleted, and then: {words_of(error)}")
    return silent("a deleted state can be loaded")


@check("state/expiry", "Is a time to live kept and told?")
def expiry(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.save_state (ttl_seconds), RestClient.set_checkpoint_ttl_from_tinker_path."""
    client = subject.trainer()
    path = subject.to_delete(subject.wait(client.save_state("conform-ttl", ttl_seconds=_HOUR)).path)
    if _listed(subject, client)[path].expires_at is None:
        return silent("ttl_seconds is accepted, and the list has no expiry")
    subject.wait(subject.rest.set_checkpoint_ttl_from_tinker_path(path, None))
    if _listed(subject, client)[path].expires_at is not None:
        return silent("a ttl that was taken back is still told")
    return honoured("an expiry, and none after it was taken back")


@check("state/weights_info", "Is it told what a state is of?")
def weights_info(subject: Subject) -> Verdict:
    """Source: SDK, RestClient.get_weights_info_by_tinker_path."""
    path = _saved(subject, subject.trainer(rank=4), "conform-info")
    info = subject.wait(subject.rest.get_weights_info_by_tinker_path(path))
    if (info.base_model, info.lora_rank) == (subject.model, 4):
        return honoured(f"{info.base_model}, rank 4")
    return differs(f"{info.base_model}, rank {info.lora_rank}; it is {subject.model}, rank 4")


@check("state/user_metadata", "Are a run's own words kept?")
def user_metadata(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client (user_metadata), types.TrainingRun.user_metadata."""
    metadata = {"asked": "conform"}
    made = subject.service.create_lora_training_client(subject.model, rank=4, user_metadata=metadata)
    returned = subject.wait(subject.rest.get_training_run(subject.wait(made).model_id)).user_metadata
    return honoured("as given") if returned == metadata else silent(f"it is accepted; told is {returned}")


@check("state/seeded samples of a state", "Does a seed draw the same from a live and from a saved sampler?")
def seeded_from_state(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.seed."""
    stored = _saved_sampler(subject, subject.trained, "conform-seeded")
    drawn = [
        list(subject.wait(one.sample(prompt_of(PROMPT), 1, params(seed=8))).sequences[0].tokens)
        for one in (subject.sampler, stored)
    ]
    return honoured("the same 16 tokens") if drawn[0] == drawn[1] else silent("other tokens")
