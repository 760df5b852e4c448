"""Asks what is made and kept: adapters, states with and without the optimizer, sampler weights, names, expiry."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tinker

from tinsmith.lab.conform.subject import (
    ADAM,
    DATA,
    PROMPT,
    SAME_NATS,
    USER_ERRORS,
    Subject,
    Verdict,
    check,
    differs,
    effect,
    farthest,
    graded,
    honoured,
    params,
    prompt_of,
    silent,
    words_of,
)


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
    told = subject.trainer(rank=4).get_info().lora_rank
    return honoured("get_info says 4") if told == 4 else differs(f"get_info says {told}")


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
    return subject.kept(subject.wait(client.save_state(name)).path)


@check("state/with the optimizer", "Does a state go on as if never stopped?")
def with_optimizer(subject: Subject) -> Verdict:
    """Source: SDK, create_training_client_from_state_with_optimizer."""
    client = subject.trainer()
    for one in DATA[:2]:
        subject.step(client, [one])
    path = _saved(subject, client, "conform-optimizer")
    on = [subject.step(client, [DATA[i]]).after for i in (2, 0)]
    load = subject.service.create_training_client_from_state_with_optimizer
    resumed = subject.wait(load(path))
    again = [subject.step(resumed, [DATA[i]]).after for i in (2, 0)]
    apart = max(farthest(a, b) for a, b in zip(on, again, strict=True))
    return graded(apart, "two steps after loading, and the same without")


@check("state/weights only", "Does a state without its optimizer have the weights, and begin the optimizer anew?")
def weights_only(subject: Subject) -> Verdict:
    """Source: SDK, create_training_client_from_state ("optimizer state is reset")."""
    client = subject.trainer()
    for one in DATA[:2]:
        subject.step(client, [one])
    path = _saved(subject, client, "conform-weights")
    resumed = subject.wait(subject.service.create_training_client_from_state(path))
    found = graded(farthest(subject.forward(client), subject.forward(resumed)), "weights, saved and loaded")
    left, right = (subject.step(one, [DATA[2]]).after for one in (client, resumed))
    if farthest(left, right) <= 10 * subject.noise:
        return silent("the optimizer's state was loaded too, or there is none")
    return found


@check("state/sampler weights", "Are saved sampler weights the trainer's?")
def sampler_weights(subject: Subject) -> Verdict:
    """Source: SDK, TrainingClient.save_weights_for_sampler."""
    path = subject.kept(subject.wait(subject.trained.save_weights_for_sampler("conform-sampler")).path)
    client = subject.wait(subject.service.create_sampling_client(model_path=path))
    told = subject.wait(client.compute_logprobs(prompt_of(PROMPT)))
    live = subject.wait(subject.sampler.compute_logprobs(prompt_of(PROMPT)))
    arrays = [np.array(values[1:], dtype=np.float32) for values in (told, live)]
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
        kept = "" if again == path else f"; overwritten it is {again}"
        return honoured(f"refused: {words_of(error)}{kept}")
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
    path = subject.kept(subject.wait(client.save_state("conform-ttl", ttl_seconds=_HOUR)).path)
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
    told = subject.wait(subject.rest.get_weights_info_by_tinker_path(path))
    if (told.base_model, told.lora_rank) == (subject.model, 4):
        return honoured(f"{told.base_model}, rank 4")
    return differs(f"{told.base_model}, rank {told.lora_rank}; it is {subject.model}, rank 4")


@check("state/user_metadata", "Are a run's own words kept?")
def user_metadata(subject: Subject) -> Verdict:
    """Source: SDK, create_lora_training_client (user_metadata), types.TrainingRun.user_metadata."""
    asked = {"asked": "conform"}
    made = subject.service.create_lora_training_client(subject.model, rank=4, user_metadata=asked)
    told = subject.wait(subject.rest.get_training_run(subject.wait(made).model_id)).user_metadata
    return honoured("as given") if told == asked else silent(f"it is accepted; told is {told}")


@check("state/seeded samples of a state", "Does a seed draw the same from a live and from a saved sampler?")
def seeded_from_state(subject: Subject) -> Verdict:
    """Source: SDK, types.SamplingParams.seed."""
    path = subject.kept(subject.wait(subject.trained.save_weights_for_sampler("conform-seeded")).path)
    stored = subject.wait(subject.service.create_sampling_client(model_path=path))
    drawn = [
        list(subject.wait(one.sample(prompt_of(PROMPT), 1, params(seed=8))).sequences[0].tokens)
        for one in (subject.sampler, stored)
    ]
    return honoured("the same 16 tokens") if drawn[0] == drawn[1] else silent("other tokens")
