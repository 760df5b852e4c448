"""A supervised step through the Tinker API: cross-entropy on right answers, their tokens only.

The loss is the mean over the batch's answers of their token sums, so that a step does not depend on how long answers
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tinker

from tinsmith.lab.datums import Example, example_datum
from tinsmith.lab.live.watch import expert_metrics
from tinsmith.lab.order import ordered
from tinsmith.lab.policy import adam, step_metrics
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I
from tinsmith.lab.run import Run
from tinsmith.lab.schedule import batch
from tinsmith.lab.service.official_client import loss_of
from tinsmith.lab.settings import Order, SftSettings


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
