"""Supervised steps through the Tinker API: the order of examples, and cross-entropy on right answers alone.

The loss is the mean over the batch's answers of their token sums, so that a step does not depend on how long answers
are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, compress, pairwise
from typing import Any, Final

import tinker

from tinsmith.lab.datums import Example, example_datum
from tinsmith.lab.live.watch import expert_metrics
from tinsmith.lab.policy import adam, step_metrics
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I
from tinsmith.lab.run import EpochOrder, Run
from tinsmith.lab.schedule import batch
from tinsmith.lab.service.official_client import loss_of
from tinsmith.lab.settings import Order, SftSettings
from tinsmith.types.fingerprints import sha256_of

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
        nats = unit_nats(run, units)
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


def unit_nats(run: Run[I, A], units: Sequence[Sequence[I]]) -> list[float]:
    """Return the mean nats a token of the right answers in each unit, under the trainer's weights of now."""
    subject = run.course.subject
    each = answer_nats(run.trainer, [subject.example(one) for unit in units for one in unit])
    ends = [0, *accumulate(len(unit) for unit in units)]
    return [math.fsum(each[a:b]) / (b - a) for a, b in pairwise(ends)]


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
        updated = _update(run.trainer, examples, settings, step)
        return {**figures, **updated, **subject.example_figures(examples)}


def _update(
    trainer: tinker.TrainingClient, examples: Sequence[Example], settings: SftSettings, step: int
) -> dict[str, float]:
    weight = 1.0 / len(examples)
    datums: list[tinker.Datum] = [example_datum(one, weight) for one in examples]
    forward_backward = trainer.forward_backward(datums, "cross_entropy")
    stepped = trainer.optim_step(adam(settings, step))
    result = forward_backward.result(WAIT_SECONDS)
    loss = loss_of(result)
    answered = sum(sum(one.learned) for one in examples)
    told = step_metrics(settings, step, loss, stepped.result(WAIT_SECONDS))
    told |= expert_metrics(result.metrics)
    return told if loss is None else {"train/nll": loss * len(examples) / answered, **told}
