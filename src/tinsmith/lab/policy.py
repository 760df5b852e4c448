"""Policy-gradient updates through the Tinker API: advantages, losses, optimizer steps; one adapter or several.

All substeps are sent before any is waited for, so that the server is never idle; it carries them out in order. An
exact label gradient asks for probabilities in between, under the weights that the step before it left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker import types

from tinsmith.lab.grouping import Scored, ScoredGroup, answered_logprobs, known_logprobs, policy_datum
from tinsmith.lab.live.watch import expert_metrics, route_metrics
from tinsmith.lab.rollouts import WAIT_SECONDS, A, AnyRollout, I, I_contra, Sampler, log_probs
from tinsmith.lab.service.official_client import grad_norm_of, loss_of, ready
from tinsmith.lab.settings import CommonSettings, RlSettings, Schedule
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.ops.exact import mean, raised_cosine
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import BackendError
from tinsmith.types.model_names import ModelName

ADAM_EPS = 1e-8
"""The Tinker cookbook's epsilon for RL; with the SDK's 1e-12 a token that is never sampled takes full steps."""

DRIFT_PROBED = 48  # Rollouts by which an examination tells the distance from the base.
AGREEMENT_PROBED = 8  # Rollouts of a step, at most, that are scored at temperature 1 where they were drawn at another.


class ExactGradient(Protocol[I_contra]):
    """A part of the policy gradient that is computed and not sampled."""

    def datums(self, trainer: tinker.TrainingClient, items: Sequence[I_contra]) -> list[tinker.Datum]:
        """Return cross-entropy datums whose gradient is the exact gradient, under the trainer's current weights."""
        ...

    def besides(self, terms: NamedTerms) -> float:
        """Return the part of a reward that rollouts are still compared by."""
        ...


def rate(settings: CommonSettings, step: int) -> float:
    """Return the learning rate of step `step` (0 is the first), by exact operations only.

    Over the first w = ceil(lr_warmup * steps) steps it rises: step s has (s + 1) / w of it. The schedule is that of
    the steps after them. (PyTorch's schedulers begin with a step at a rate of 0, and are else the same.)
    """
    rising = math.ceil(round(settings.lr_warmup * settings.steps, 9))
    if step < rising:
        return settings.learning_rate * (step + 1) / rising
    left, steps = settings.steps - step, settings.steps - rising
    if settings.lr_schedule is Schedule.LINEAR:
        return settings.learning_rate * left / steps
    if settings.lr_schedule is Schedule.COSINE:
        return settings.learning_rate * raised_cosine((step - rising) / steps)
    return settings.learning_rate


def new_adapter(
    service: tinker.ServiceClient, model_name: str, settings: CommonSettings, seed: int
) -> tinker.TrainingClient:
    """Return a client that trains a new adapter of a served model, or all of its weights, which have no rank."""
    base = ModelName(base=model_name, kind=settings.adapter, alpha=settings.lora_alpha)
    rank = 0 if settings.adapter is AdapterKind.FULL else settings.lora_rank
    made = service.create_lora_training_client(
        base_model=str(base), rank=rank, seed=seed, train_unembed=settings.train_unembed
    )
    return ready(made, WAIT_SECONDS)


def adam(settings: CommonSettings, step: int) -> types.AdamParams:
    """Return the optimizer's parameters at a step: beta 0.9 and 0.95, as in the Tinker cookbook."""
    return types.AdamParams(
        learning_rate=rate(settings, step),
        beta1=0.9,
        beta2=0.95,
        eps=ADAM_EPS,
        weight_decay=settings.weight_decay,
        grad_clip_norm=settings.grad_clip_norm,
    )


def step_metrics(
    settings: CommonSettings, step: int, loss: float | None, outcome: types.OptimStepResponse
) -> dict[str, float]:
    """Return an optimizer step's metrics; loss and gradient norm if the server reports them."""
    metrics = {"optim/loss": loss, "optim/lr": rate(settings, step), "optim/grad_norm": grad_norm_of(outcome.metrics)}
    return {name: value for name, value in metrics.items() if value is not None}


def update_policy(
    trainer: tinker.TrainingClient,
    groups: Sequence[ScoredGroup[I, A]],
    settings: RlSettings,
    step: int,
    reference: tinker.SamplingClient | None,
    exact: ExactGradient[I] | None = None,
    sampler: tinker.SamplingClient | None = None,
) -> dict[str, float]:
    """Train on the groups; return metrics `optim/...`, and `kl/base` with a reference.

    With `exact` every prompt's exact gradient joins its rollouts in the same optimizer step, whether or not its group
    was left out. With a loss on what the environment answers, conversations of groups that were left out join too;
    what the model wrote in them has no advantage. `sampler` drew the rollouts; at a temperature other than 1 it is
    compared with the trainer on a few of them, and without it on none.
    """
    foresees = settings.env_loss_coef > 0.0
    taught = [group for group in groups if group.learned or exact is not None or foresees]
    trained = {id(group): list(group.every) if foresees else group.compared for group in taught}
    if not any(trained.values()) and exact is None:
        return {"optim/skipped": 1.0}
    metrics: dict[str, float] = {}
    compared = [one for some in trained.values() for one in some]
    # Of the policy is what it drew, not an option that was forced into a group.
    drawn = [one for one in compared if not settings.force_options or one.rollout.sample < settings.group_size]
    penalty = _penalties([one for one in drawn if one.advantage is not None], settings, reference, metrics)
    foreseen = _foreseen(compared, settings, metrics)
    # Of each optimizer step all losses (its rollouts' first), and the step: gradients add up before it.
    sent: list[tuple[list[_Future], tinker.APIFuture[types.OptimStepResponse]]] = []
    # Consecutive parts of nearly equal size, none empty.
    parts = min(settings.num_substeps, len(taught))
    # Later substeps have left the policy that the rollouts are from.
    on_policy = [one.rollout for group in taught[: len(taught) // parts] for one in trained[id(group)]]
    drawn_with = _drawn_with(on_policy, settings.temperature, sampler)
    for first, after in pairwise(len(taught) * i // parts for i in range(parts + 1)):
        part = taught[first:after]
        flat = [one for group in part for one in trained[id(group)]]
        datums = [policy_datum(one.rollout, _advantages(one, penalty.get(id(one))), foreseen) for one in flat]
        losses: list[_Future] = []
        if datums:
            losses.append(trainer.forward_backward(datums, settings.loss_fn.value))
        if exact is not None:
            computed = exact.datums(trainer, [group.item for group in part])
            losses.append(trainer.forward_backward(computed, "cross_entropy"))
        sent.append((losses, trainer.optim_step(adam(settings, step))))
    results = [[loss.result(WAIT_SECONDS) for loss in losses] for losses, _ in sent]
    if on_policy:
        metrics |= _agreement(on_policy, drawn_with, results[0][0])
        metrics |= route_metrics(results[0][0].metrics)
    if results[0]:
        metrics |= expert_metrics(results[0][0].metrics)
    step_losses = [loss_of(result) for each in results for result in each]
    loss = None if None in step_losses else sum(one for one in step_losses if one is not None)
    outcomes = [stepped.result(WAIT_SECONDS) for _, stepped in sent]
    return metrics | step_metrics(settings, step, loss, outcomes[-1])


_Future = tinker.APIFuture[types.ForwardBackwardOutput]
_AnyScored = Scored[Any, Any]


def _advantages(one: _AnyScored, penalty: NDArray[np.float64] | None) -> list[list[float]]:
    """Return the advantages of each turn's tokens; without a penalty, those of a group that was left out."""
    turns = one.rollout.turns
    penalty = np.zeros(len(one.rollout.tokens)) if penalty is None else penalty
    by_turn = one.by_turn or (one.advantage or 0.0,) * len(turns)
    found: list[list[float]] = []
    first = 0
    for turn, advantage in zip(turns, by_turn, strict=True):
        after = first + len(turn.tokens)
        found.append((advantage + penalty[first:after]).tolist())
        first = after
    return found


def _penalties(
    scored: Sequence[_AnyScored],
    settings: RlSettings,
    reference: tinker.SamplingClient | None,
    metrics: dict[str, float],
) -> dict[int, NDArray[np.float64]]:
    """Return each token's advantage for the KL penalty to the base: k1 in the reward, centred over the batch.

    Source: A_t += c * (mean d - d_t) with d = log q - log base, as in the Tinker cookbook; the gradient is that of k2
    as a loss (arXiv:2506.09477), that of each token's reverse KL with the text before it held fixed; what a token does
    to later ones' is left out.
    """
    bonus = _entropy_bonus(scored, settings, metrics)
    if settings.kl_penalty_coef == 0.0 or reference is None or not scored:
        return bonus
    drift = base_drift(reference, [one.rollout for one in scored])
    average = mean(np.concatenate(drift))
    metrics["kl/base"] = average
    return {
        id(one): bonus[id(one)] + settings.kl_penalty_coef * (average - d) for one, d in zip(scored, drift, strict=True)
    }


def _entropy_bonus(
    scored: Sequence[_AnyScored], settings: RlSettings, metrics: dict[str, float]
) -> dict[int, NDArray[np.float64]]:
    """Return each token's advantage for the entropy bonus: its surprise minus the batch's mean surprise.

    Source: grad H = -E[log q grad log q], the score function's, with the mean as baseline.
    """
    if settings.entropy_bonus == 0.0 or not scored:
        return {id(one): np.zeros(len(one.rollout.tokens)) for one in scored}
    surprise = [-np.array(one.rollout.logprobs, dtype=np.float64) for one in scored]
    average = mean(np.concatenate(surprise))
    metrics["train/token_entropy"] = average
    return {id(one): settings.entropy_bonus * (found - average) for one, found in zip(scored, surprise, strict=True)}


def _foreseen(scored: Sequence[_AnyScored], settings: RlSettings, metrics: dict[str, float]) -> float:
    """Return the weight of each token that the environment wrote: coefficient * action tokens / environment tokens.

    The policy's loss is a sum over its tokens, of which a mean would be the A-th part: so lambda weighs the mean of one
    against the mean of the other. Source: arXiv:2605.24517.
    """
    if not settings.env_loss_coef:
        return 0.0
    answered = [value for one in scored for value in answered_logprobs(one.rollout)]
    if not answered:
        return 0.0
    metrics["train/env_nll"] = -math.fsum(answered) / len(answered)
    metrics["train/env_tokens"] = float(len(answered))
    actions = sum(len(one.rollout.tokens) for one in scored)
    return settings.env_loss_coef * actions / len(answered)


def env_nll_metrics(client: tinker.SamplingClient, rollouts: Sequence[AnyRollout]) -> dict[str, float]:
    """Return `watch/env_nll`: NLL of the environment's tokens over DRIFT_PROBED conversations, in nats per token."""
    probed = rollouts[:DRIFT_PROBED]
    env_logprobs: list[float] = []
    for one, logprobs in zip(probed, log_probs(client, [one.sequence() for one in probed]), strict=True):
        own = [
            each
            for place, turn in enumerate(one.turns)
            for each in (
                *(turn.answered if place else turn.own_words or (False,) * len(turn.observation)),
                *([False] * len(turn.tokens)),
            )
        ]
        env_logprobs += [value for value in compress(logprobs, own) if value is not None]
    return {"watch/env_nll": -math.fsum(env_logprobs) / len(env_logprobs)} if env_logprobs else {}


def base_drift(reference: tinker.SamplingClient, rollouts: Sequence[AnyRollout]) -> list[NDArray[np.float64]]:
    """Return log q - log base of every token of every rollout: its mean estimates KL(q || base) a token, q at T."""
    scored = log_probs(reference, [one.sequence() for one in rollouts])
    bases = [list(compress(logprobs, one.written())) for one, logprobs in zip(rollouts, scored, strict=True)]
    return [
        np.array(one.logprobs) - np.array(base, dtype=np.float64) for one, base in zip(rollouts, bases, strict=True)
    ]


def drift_metrics(reference: tinker.SamplingClient, rollouts: Sequence[AnyRollout]) -> dict[str, float]:
    """Return `eval/kl_base`, the mean of `base_drift` over DRIFT_PROBED rollouts; empty without rollouts."""
    drift = [d for each in base_drift(reference, rollouts[:DRIFT_PROBED]) for d in each.tolist()]
    return {"eval/kl_base": math.fsum(drift) / len(drift)} if drift else {}


_LogProbs = Mapping[int, Sequence[float | None]]  # Of every token of some rollouts, by their places.


def _drawn_with(rollouts: Sequence[AnyRollout], temperature: float, sampler: tinker.SamplingClient | None) -> _LogProbs:
    """Return the sampler's log-probabilities at temperature 1, that of the trainer; empty where they are unknown.

    Rollouts drawn at another temperature have those of another distribution: then a few of them are scored.
    """
    if temperature == 1.0:
        return {place: known_logprobs(one)[0] for place, one in enumerate(rollouts)}
    if sampler is None or not rollouts:
        return {}
    places = range(0, len(rollouts), math.ceil(len(rollouts) / AGREEMENT_PROBED))
    try:
        scored = log_probs(sampler, [rollouts[place].sequence() for place in places])
    except (BackendError, tinker.APIStatusError, tinker.RequestFailedError):  # a server that does not score texts
        return {}
    return dict(zip(places, scored, strict=True))


def _agreement(
    rollouts: Sequence[AnyRollout], drawn_with: _LogProbs, result: types.ForwardBackwardOutput
) -> dict[str, float]:
    """Compare the sampler's log-probabilities of sampled and observed tokens with the trainer's."""
    sampled: list[float | None] = []
    trained: list[float] = []
    for place, logprobs in drawn_with.items():
        _, known = known_logprobs(rollouts[place])
        sampled += compress(logprobs, known)
        # A datum's first token is predicted by nothing.
        trained += compress(result.loss_fn_outputs[place]["logprobs"].tolist(), known[1:])
    if not drawn_with:
        return {}
    q, p = np.array(sampled, dtype=np.float32), np.array(trained, dtype=np.float32)
    return {
        "optim/kl_sample_train": mean(q.astype(np.float64) - p),
        "optim/unequal_logprob_bits": float((q.view(np.int32) != p.view(np.int32)).sum()),
    }


ALONE: Mapping[int, int] = {0: 1}  # One adapter, whatever the step.


@dataclass(slots=True)
class Agents:
    """Training clients of a run's agents, in order."""

    trainers: list[tinker.TrainingClient]
    by_step: Mapping[int, int] = field(default_factory=lambda: ALONE)  # Their number by the step from which it holds.
    begin: Callable[[int], tinker.TrainingClient] | None = None  # Begins the adapter of an agent, by its number.

    @property
    def several(self) -> bool:
        """True if there are several agents at any step."""
        return max(self.by_step.values()) > 1

    def at(self, step: int) -> Sequence[tinker.TrainingClient]:
        """Return those of a step; adapters that are new then begin."""
        count = max(number for since, number in self.by_step.items() if since <= step)
        while len(self.trainers) < count:
            assert self.begin is not None, "where there are several, somebody begins them"
            self.trainers.append(self.begin(len(self.trainers)))
        return self.trainers

    def policy(self, clients: Sequence[tinker.SamplingClient]) -> Sampler:
        """Return the clients of all agents; a single client if there is one adapter throughout."""
        return clients if self.several else clients[0]


def joined(paths: Iterable[str]) -> str:
    """Return the saved paths of a policy's adapters as one text; no path contains a space."""
    return " ".join(paths)


def update_agents(
    trainers: Sequence[tinker.TrainingClient],
    groups: Sequence[ScoredGroup[I, A]],
    settings: RlSettings,
    step: int,
    reference: tinker.SamplingClient | None,
    samplers: Sequence[tinker.SamplingClient | None],
) -> dict[str, float]:
    """Train every agent on its own replies with the conversations' rewards; return metrics as `update_policy`."""
    figures = [
        update_policy(
            trainer, [_agent_view(group, number) for group in groups], settings, step, reference, sampler=sampler
        )
        for number, (trainer, sampler) in enumerate(zip(trainers, samplers, strict=True))
    ]
    names = sorted({name for each in figures for name in each})
    values = {name: [each[name] for each in figures if name in each] for name in names}
    found = {name: _COMBINED.get(name, fmean)(some) for name, some in values.items()}
    if len(values.get("optim/skipped", ())) < len(figures):
        found.pop("optim/skipped", None)
    return {**found, "train/agents": float(len(trainers))}


_COMBINED: Mapping[str, Callable[[Iterable[float]], float]] = {
    "optim/loss": math.fsum,
    "optim/unequal_logprob_bits": math.fsum,
    "optim/grad_norm": lambda norms: math.sqrt(math.fsum(one * one for one in norms)),
}
"""Aggregations of several agents' metrics; any other metric is averaged."""


def _agent_view(group: ScoredGroup[I, A], number: int) -> ScoredGroup[I, A]:
    """Return a group from one agent's view: its reply in each conversation, with everything before as observation."""
    scored: list[Scored[I, A]] = []
    for one in group.scored:
        before, mine = one.rollout.turns[:number], one.rollout.turns[number : number + 1]
        read = [token for turn in before for token in (*turn.observation, *turn.tokens)]
        turns = tuple(replace(t, observation=(*read, *t.observation), own_words=(), observed=()) for t in mine)
        scored += [replace(one, rollout=replace(one.rollout, turns=turns))] if turns else []
    return replace(group, scored=tuple(scored))
