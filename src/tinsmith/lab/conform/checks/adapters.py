"""Asks what an adapter is made of: its seed, its rank, its scale, and the parts of the model that it trains."""

from __future__ import annotations

from collections.abc import Callable

from tinsmith.lab.conform.subject import (
    ADAM,
    SAME_NATS,
    Subject,
    Verdict,
    check,
    differs,
    effect,
    farthest,
    graded,
    honoured,
    silent,
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
