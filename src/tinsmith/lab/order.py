"""Order of an epoch's items by how well the model foresees their right answers: a curriculum by perplexity.

Source: arXiv:2605.13301 sorts each epoch by descending perplexity, while its learning rate falls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, compress, pairwise
from typing import Any, Final

import tinker

from tinsmith.lab.datums import Example, example_datum
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I
from tinsmith.lab.run import EpochOrder, Run
from tinsmith.lab.settings import Order
from tinsmith.types.fingerprints import sha256_of

_DIGITS: Final = 12
"""Hexadecimal digits of an order's hash, which a number holds exactly."""


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
