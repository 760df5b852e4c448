"""Training by example: on right answers, or on the base's own rollouts at few, uncertain tokens.

Of the latter items those are taken whose pass rate is nearest a half, and of their rollouts not the longest. At tokens
where the base's entropy is above `entropy_threshold` the loss is advantage times cross-entropy; everywhere else it is
the distance from the base:

    L = sum_gated A CE / N_gated + base_kl_coef / N_other sum_other KL(base || policy)

Source: arXiv:2605.06241 (ReasonMaxxer). There the two means are taken in each micro-batch and averaged; here they are
of the whole batch, as a step's loss must not depend on how it is cut. There rollouts come in the order of |A| times
their gated share; where the base is mostly wrong that makes batches of good answers, then of bad ones alone, which
drive the policy off: here they come in a random order. KL is over the base's KL_TOKENS most probable tokens.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress, pairwise
from typing import Any, Final

import numpy as np
import tinker
from tinker import types

from tinsmith.lab.grouping import Example, ScoredGroup, example_datum, score_groups
from tinsmith.lab.live.watch import expert_metrics
from tinsmith.lab.policy import adam, step_metrics
from tinsmith.lab.rollouts import WAIT_SECONDS, A, AnyRollout, I, Sampling, sample_groups
from tinsmith.lab.run import EpochOrder, Run
from tinsmith.lab.schedule import batch
from tinsmith.lab.service.official_client import loss_of
from tinsmith.lab.service.served_policy import ServedPolicy
from tinsmith.lab.settings import Order, Pushed, SftSettings, SparseSettings
from tinsmith.ops.advantages import Advantage
from tinsmith.types.errors import BackendError, ConfigError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

_DIGITS: Final = 12  # Hexadecimal digits of an order's hash, which a number holds exactly.


def ordered(
    run: Run[Any, Any], order: Order, figures: dict[str, float], epoch: int, units: Sequence[Sequence[I]]
) -> Sequence[int]:
    """Return the places of the units of an epoch; `figures` gets those of an order that is computed now.

    A checkpoint keeps the order that was computed last, so that a resumed run trains on what an uninterrupted one does.
    """
    if order is not Order.RECOMPUTED:
        epoch = 0  # one order for all epochs
    if run.order is None or run.order.epoch != epoch:
        # The mean nats a token of the right answers in each unit, under the trainer's weights of now.
        each = answer_nats(run.trainer, [run.course.subject.example(one) for unit in units for one in unit])
        ends = [0, *accumulate(len(unit) for unit in units)]
        nats = [math.fsum(each[a:b]) / (b - a) for a, b in pairwise(ends)]
        places = sorted(range(len(units)), key=lambda at: (nats[at] if order is Order.ASCENDING else -nats[at], at))
        run.order = EpochOrder(epoch=epoch, places=tuple(places))
        names = [one.prompt_id for place in places for one in units[place]]
        figures |= {
            "order/epoch": float(epoch),
            "order/first_nats": nats[places[0]],
            "order/last_nats": nats[places[-1]],
            "order/sha256": float(int(sha256_of(names)[:_DIGITS], 16)),
        }
    return run.order.places


def order_hashes(values: Sequence[float]) -> str | None:
    """Return the first digits of the SHA-256 of the first order, and the number of others, from `order/sha256`."""
    found = [f"{int(one):0{_DIGITS}x}" for one in dict.fromkeys(values)]
    return None if not found else found[0] if len(found) == 1 else f"{found[0]} and {len(found) - 1} more"


def answer_nats(trainer: tinker.TrainingClient, examples: Sequence[Example]) -> list[float]:
    """Return the mean nats a token of each example's answers; perplexity is e to that power."""
    datums = [example_datum(one, 1.0) for one in examples]
    outputs = trainer.forward(datums, "cross_entropy").result(WAIT_SECONDS).loss_fn_outputs
    found: list[float] = []
    for one, output in zip(examples, outputs, strict=True):
        learned = list(compress(output["logprobs"].tolist(), one.learned[1:]))
        found.append(-math.fsum(learned) / len(learned))
    return found


def teach(run: Run[I, A], settings: SftSettings, step: int) -> dict[str, float]:
    """Take one supervised step; return its metrics."""
    with run.timed("train_s"):
        subject, figures = run.course.subject, dict[str, float]()
        order = None if settings.order is Order.RANDOM else partial(ordered, run, settings.order, figures)
        items = batch(run.course.train_items, settings.batch_size, step, settings.seed, subject.unit, order)
        examples = [subject.example(item) for item in items]
        datums: list[tinker.Datum] = [example_datum(one, 1.0 / len(examples)) for one in examples]
        sent = run.trainer.forward_backward(datums, "cross_entropy")
        stepped = run.trainer.optim_step(adam(settings, step))
        result = sent.result(WAIT_SECONDS)
        if (loss := loss_of(result)) is not None:
            figures["train/nll"] = loss * len(examples) / sum(sum(one.learned) for one in examples)
        figures |= step_metrics(settings, step, loss, stepped.result(WAIT_SECONDS))
        return {**figures, **expert_metrics(result.metrics), **subject.example_figures(examples)}


KL_TOKENS: Final = 20
"""Number of tokens that hold nearly all of a confident base's probability; the metrics report the mass."""
_CLIP: Final = 2.5  # Largest advantage, either way.
_LONGEST: Final = 0.2  # Share of the kept rollouts that is dropped, the longest first.


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Rollout to train on."""

    rollout: AnyRollout
    advantage: float
    gated: tuple[bool, ...]  # For each token of the sequence but the first: whether the model wrote it, uncertain.
    other: tuple[bool, ...]  # The same: whether the model wrote it, sure.


def select(run: Run[I, A], settings: SparseSettings, step: int) -> dict[str, float]:
    """Take one step on rollouts drawn before the first step; return its metrics."""
    figures: dict[str, float] = {}
    if run.offline is None:
        with run.timed("sample_s"):
            chosen, of_choice = _drawn(run, settings, step)
        run.offline, figures = tuple(chosen), of_choice if step == 0 else {}  # as in a run that was not resumed
    every: Sequence[Chosen] = run.offline
    part = batch(every, settings.batch_size, step, settings.seed)
    with run.timed("train_s"):
        return {**figures, **_trained(run, part, settings, step)}


def _drawn(run: Run[I, A], settings: SparseSettings, step: int) -> tuple[list[Chosen], dict[str, float]]:
    """Sample the base and select rollouts; a resumed run repeats this, and keeps its written rollouts."""
    subject = run.course.subject
    count = min(settings.asked_items, len(run.course.train_items))
    items = batch(run.course.train_items, count, 0, settings.seed, subject.unit)
    sampling = Sampling(
        samples=settings.base_rollouts,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=derive(settings.seed, "rollout", 0),
    )
    later = json.dumps(subject.state())
    if step:
        subject.restore(json.loads(run.fresh))
    groups = score_groups(
        sample_groups(run.base(), subject, items, sampling),
        subject.score,
        advantage=Advantage.STD,
        zero_variance_filter=True,
    )
    if step:
        subject.restore(json.loads(later))
    else:
        run.observe(0, groups)
    rollouts = chosen_of(groups, settings)
    if not rollouts:
        what = "no item has right and wrong answers, so that there is nothing to tell apart"
        fix = "more asked_items or base_rollouts, or an easier task"
        raise ConfigError(what, field="asked_items", value=count, fix=fix)
    if run.connection is None:
        raise BackendError("without a server's address its distributions cannot be asked for")
    base = ServedPolicy.base(run.connection, run.model_name)
    chosen = gated_rollouts(base, rollouts, settings)
    gated = sum(sum(one.gated) for one in chosen)
    return chosen, {
        "sparse/rollouts": float(len(chosen)),
        "sparse/gated": gated / sum(sum(one.gated) + sum(one.other) for one in chosen),
        "sparse/sampled_tokens": float(sum(len(one.rollout.tokens) for group in groups for one in group.scored)),
    }


def chosen_of(groups: Sequence[ScoredGroup[Any, Any]], settings: SparseSettings) -> list[tuple[AnyRollout, float]]:
    """Return rollouts, without the longest, of the items with mean rewards nearest 1/2, and their advantages."""
    informative = [group for group in groups if group.informative and group.compared]
    nearest = sorted(informative, key=_from_a_half)[: settings.kept_items]
    every = [
        (one.rollout, max(-_CLIP, min(_CLIP, one.advantage or 0.0))) for group in nearest for one in group.compared
    ]
    shortest = sorted(range(len(every)), key=lambda place: (len(every[place][0].tokens), place))
    stays = set(shortest[: len(every) - int(_LONGEST * len(every))])
    rollouts = [each for place, each in enumerate(every) if place in stays]
    if settings.pushed is Pushed.GOOD:
        return [each for each in rollouts if each[1] > 0.0]
    return rollouts


def _from_a_half(group: ScoredGroup[Any, Any]) -> float:
    totals = [one.terms.total for one in group.compared]
    if wrong := next((total for total in totals if not 0.0 <= total <= 1.0), None):
        raise ConfigError("mean rewards are compared with one half", field="reward", value=wrong, allowed="0 to 1")
    return abs(math.fsum(totals) / len(totals) - 0.5)


def gated_rollouts(
    base: ServedPolicy, own: Sequence[tuple[AnyRollout, float]], settings: SparseSettings
) -> list[Chosen]:
    """Score rollouts under the base, and return them with masks of pushed and held tokens."""
    spreads = base.spreads([one.sequence() for one, _ in own], begins=[one.written().index(True) for one, _ in own])
    chosen: list[Chosen] = []
    for (one, advantage), spread in zip(own, spreads, strict=True):
        high = [entropy is not None and entropy > settings.entropy_threshold for entropy in spread.entropy]
        mine = one.written()
        chosen.append(
            Chosen(
                rollout=one,
                advantage=advantage,
                gated=tuple(a and b for a, b in zip(mine[1:], high[1:], strict=True)),
                other=tuple(a and not b for a, b in zip(mine[1:], high[1:], strict=True)),
            )
        )
    return chosen


def _trained(run: Run[I, A], part: Sequence[Chosen], settings: SparseSettings, step: int) -> dict[str, float]:
    """Take an optimizer step on a batch: one datum per rollout, with KL_TOKENS targets per position."""
    gated = max(1, sum(sum(one.gated) for one in part))
    other = max(1, sum(sum(one.other) for one in part))
    best = _most_probable(run.base(), [one.rollout for one in part])
    mass: list[float] = []
    datums = [
        datum_of(one, tops, 1.0 / gated, settings.base_kl_coef / other, mass)
        for one, tops in zip(part, best, strict=True)
    ]
    sent = run.trainer.forward_backward(datums, "cross_entropy")
    stepped = run.trainer.optim_step(adam(settings, step))
    loss = loss_of(sent.result(WAIT_SECONDS))
    metrics = step_metrics(settings, step, loss, stepped.result(WAIT_SECONDS))
    return {**metrics, "sparse/kl_mass": math.fsum(mass) / len(mass)} if mass else metrics


_Tops = Sequence[Sequence[tuple[int, float]] | None]


def _most_probable(client: tinker.SamplingClient, rollouts: Sequence[AnyRollout]) -> list[_Tops]:
    """Return the base's most probable tokens at each position of each sequence, with log-probabilities."""
    pending = [
        client.sample(
            types.ModelInput.from_ints(one.sequence()),
            1,
            types.SamplingParams(max_tokens=1, seed=0),
            include_prompt_logprobs=True,
            topk_prompt_logprobs=KL_TOKENS,
        )
        for one in rollouts
    ]
    found: list[_Tops] = []
    for one in pending:
        tops = one.result(WAIT_SECONDS).topk_prompt_logprobs
        if tops is None:
            raise BackendError("the server does not tell a prompt's most probable tokens")
        found.append(tops)
    return found


def datum_of(chosen: Chosen, tops: _Tops, push: float, stay: float, mass: list[float]) -> tinker.Datum:
    """Return a rollout as cross-entropy with several targets a position.

    `tops` are the base's most probable tokens at each position, with log-probabilities; None at the first. An advantage
    is multiplied with `push` where it is gated; the base's probabilities with `stay` at its other tokens, and `mass`
    gets the mass of the base that is held there.
    """
    sequence = chosen.rollout.sequence()
    length = len(sequence) - 1
    targets = np.zeros((length, KL_TOKENS), np.int64)
    weights = np.zeros((length, KL_TOKENS), np.float32)
    for place in range(length):
        if chosen.gated[place]:
            targets[place, 0], weights[place, 0] = sequence[place + 1], chosen.advantage * push
        elif chosen.other[place]:
            likely = list(tops[place + 1] or ())[:KL_TOKENS]
            chances = [math.exp(logprob) for _, logprob in likely]
            mass.append(math.fsum(chances))
            targets[place, : len(likely)] = [token for token, _ in likely]
            weights[place, : len(likely)] = [stay * chance for chance in chances]
    return types.Datum(
        model_input=types.ModelInput.from_ints(sequence[:-1]),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_numpy(targets),
            "weights": types.TensorData.from_numpy(weights),
        },
    )
