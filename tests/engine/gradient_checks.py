"""Requirements on every training session about accumulated gradients, as functions of a session.

The same functions judge our session and the mutants below, which carry the bugs that frameworks had.
Source of the list and of the bugs: arXiv:2604.23747. All comparisons but one are of bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from oracles import (
    Tensors,
    cross_entropy,
    gradients,
    make_datums,
    reference_gradients,
    reference_model,
    relative_error,
    weights_sha256,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import ComputeHere, MicroBatches
from tinsmith.engine.unit_sums import Partial, UnitSums
from tinsmith.engine.units import units_of
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256

Make = Callable[[MicroBatches], TrainingSession]
"""A fresh session; equal bits on every call."""

LENGTHS = (12, 1, 33, 5, 20, 3, 9, 6)
LOSS = LossName.CROSS_ENTROPY
MICRO_BATCHES = (
    MicroBatches(units=1),
    MicroBatches(units=3),
    MicroBatches(rows=1, memory=0),
    MicroBatches(rows=46),
    MicroBatches(rows=60, units=2),
    MicroBatches(),
)
"""N x 1, ragged by datums, ragged by tokens, and 1 x N."""
SOME = MicroBatches(units=2)


def uneven_datums(make: Make) -> list[Datum]:
    """Eight datums of 1 to 33 tokens, of which between one and all count."""
    return make_datums(make(SOME).adapter.decoder.config, LENGTHS, 4)


def buffers(session: TrainingSession) -> Tensors:
    """A copy of every buffer's gradient; a tied head's is by itself."""
    return {f"{i:03d}": grad.clone() for i, grad in enumerate(session.optimizer.sums.total())}


def sha256(tensors: Tensors) -> str:
    return tensors_sha256({name: tensor.numpy() for name, tensor in tensors.items()})


def gradient_sha256(session: TrainingSession) -> str:
    """The hash of the gradients by published name and of the buffers they are sums of."""
    return sha256({**gradients(session), **buffers(session)})


def gradient_of(make: Make, datums: Sequence[Datum], how: MicroBatches = SOME) -> Tensors:
    session = make(how)
    session.forward_backward(datums, LOSS)
    return buffers(session)


def tree_sum(parts: Sequence[Tensors | None]) -> Tensors:
    """Units 2i and 2i + 1 first, then the pairs, and so on; None: a unit without a gradient."""
    level = list(parts)
    while len(level) > 1:
        level = [_sum(*level[i : i + 2]) for i in range(0, len(level), 2)]
    assert level[0] is not None
    return level[0]


def _sum(one: Tensors | None, other: Tensors | None = None) -> Tensors | None:
    if one is None or other is None:
        return other if one is None else one
    return {name: tensor + other[name] for name, tensor in one.items()}


def check_micro_batches(make: Make) -> None:
    """T1: how datums are packed into micro-batches shows in no bit of outputs or gradients."""
    datums = uneven_datums(make)
    seen: set[tuple[str, str, str]] = set()
    for how in MICRO_BATCHES:
        session = make(how)
        result = session.forward_backward(datums, LOSS)
        logprobs = {f"{i:03d}": o.logprobs for i, o in enumerate(result.outputs)}
        metrics = repr(sorted(result.metrics.items()))
        seen.add((gradient_sha256(session), tensors_sha256(logprobs), metrics))
    assert len(seen) == 1


def check_calls(make: Make) -> None:
    """T2: datums given in one call, one by one, or in uneven groups add up to the same bits."""
    datums = uneven_datums(make)
    seen: set[str] = set()
    whole = MicroBatches()
    for how, cuts in ((SOME, ()), (SOME, (1, 2, 3, 4, 5, 6, 7)), (SOME, (2, 5)), (whole, ()), (whole, (1, 5))):
        session = make(how)
        bounds = (0, *cuts, len(datums))
        for begin, end in pairwise(bounds):
            session.forward_backward(datums[begin:end], LOSS)
        seen.add(gradient_sha256(session))
    assert len(seen) == 1


def check_workers(make: Make) -> None:
    """T3: units that several workers computed, added by the tree over their numbers, are one worker's bits."""
    datums = uneven_datums(make)
    alone = sha256(gradient_of(make, datums))
    worker_of = [2, 0, 1, 1, 0, 2, 0, 2]
    by_index: dict[int, Tensors] = {}
    for worker in sorted(set(worker_of)):
        session = make(MicroBatches())
        for i, datum in enumerate(datums):
            if worker_of[i] == worker:
                session.forward_backward([datum], LOSS)
                by_index[i] = buffers(session)
                session.optimizer.clear()
    assert sha256(tree_sum([by_index[i] for i in range(len(datums))])) == alone


def check_reference(make: Make) -> None:
    """T4: at steps 1 and 2 every accumulated gradient is autograd's of the whole batch."""
    session = make(MicroBatches(units=1))  # of two micro-batches, bug A would lose none
    config = session.adapter.decoder.config
    for step in range(2):
        datums = make_datums(config, LENGTHS, 20 + step)
        session.forward_backward(datums[:5], LOSS)
        session.forward_backward(datums[5:], LOSS)
        model = reference_model(session.adapter)
        reference = reference_gradients(model, datums, cross_entropy)
        assert relative_error(gradients(session), reference) <= 1e-4
        before = weights_sha256(session.adapter)
        session.optim_step(AdamParams(learning_rate=1e-2))
        assert weights_sha256(session.adapter) != before


def check_each_datum(make: Make) -> None:
    """T5: without datum j, the sum lacks g_j and nothing else, in bits, for every j."""
    datums = uneven_datums(make)
    every = sha256(gradient_of(make, datums))
    parts = [gradient_of(make, [datum]) for datum in datums]
    assert len({sha256(part) for part in parts}) == len(datums)
    assert all(any(tensor.any() for tensor in part.values()) for part in parts)
    assert sha256(tree_sum(parts)) == every
    for j in range(len(datums)):
        rest = [datum for i, datum in enumerate(datums) if i != j]
        without = sha256(gradient_of(make, rest))
        assert without == sha256(tree_sum([part for i, part in enumerate(parts) if i != j]))
        assert without != every


def check_empty_masks(make: Make) -> None:
    """T6: a datum of which nothing counts adds exactly nothing, wherever it stands; no NaN."""
    datums = uneven_datums(make)
    parts = [gradient_of(make, [datum]) for datum in datums]
    nothing = _without_weights(datums[2])
    for how in (SOME, MicroBatches()):
        assert not any(tensor.any() for tensor in gradient_of(make, [nothing], how).values())
        for at in (0, 3, len(datums)):
            found = gradient_of(make, [*datums[:at], nothing, *datums[at:]], how)
            assert sha256(found) == sha256(tree_sum([*parts[:at], None, *parts[at:]]))


def check_padding(make: Make) -> None:
    """T6: tokens behind the last one that counts, of any number and value, change no bit."""
    datums = uneven_datums(make)
    every = sha256(gradient_of(make, datums))
    for amount in (1, 17):
        padded = [_padded(datum, amount, seed=i) for i, datum in enumerate(datums)]
        assert sha256(gradient_of(make, padded)) == every


def _without_weights(datum: Datum) -> Datum:
    weights = np.zeros_like(datum.inputs["weights"])
    return replace(datum, inputs={**datum.inputs, "weights": weights})


def _padded(datum: Datum, amount: int, seed: int) -> Datum:
    noise = np.random.default_rng(seed).integers(0, 31, amount)
    tail = {"target_tokens": noise[::-1], "weights": np.zeros(amount, np.float32)}
    return Datum(
        tokens=np.concatenate([datum.tokens, noise.astype(np.int32)]),
        inputs={name: np.concatenate([datum.inputs[name], column]) for name, column in tail.items()},
    )


CHECKS = {
    "micro_batches": check_micro_batches,
    "calls": check_calls,
    "workers": check_workers,
    "reference": check_reference,
    "each_datum": check_each_datum,
    "empty_masks": check_empty_masks,
    "padding": check_padding,
}
"""T1 to T6, by what they vary."""


# T7: sessions with one bug each. All are silent: no error, plausible numbers.


class _Mutant(TrainingSession):
    """A session that does something wrong around every micro-batch with a backward pass."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compute = _Through(self)

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        return ComputeHere().micro_batch(self.adapter, units, datums, objective, backward=backward)

    def _run(self, datums, loss, settings, *, backward):  # noqa: ANN001, ANN202
        units = units_of([datum.tokens for datum in datums], self.gradient_unit)
        sizes = [unit.num_rows for unit in units]
        blocks = self.micro_batches.split(sizes, self.optimizer.sums.count)
        self.firsts = [units[block.start].datums[0] for block in blocks]
        return super()._run(datums, loss, settings, backward=backward)

    def forget(self) -> None:
        """Lose the gradient of the micro-batch that was just computed."""
        for weight in self.adapter.buffers():
            weight.train()


class _Through(ComputeHere):
    """Computes micro-batches by way of a mutant."""

    def __init__(self, mutant: _Mutant) -> None:
        self._mutant = mutant

    def micro_batch(self, adapter, units, datums, objective, *, backward, recompute=False):  # noqa: ANN001, ANN202
        del adapter, recompute
        return self._mutant._micro_batch(units, datums, objective, backward=backward)


class FirstAndLastOnly(_Mutant):
    """Bug A: of the gradients of a batch, the first and the last micro-batch's are kept."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        results = super()._micro_batch(units, datums, objective, backward=backward)
        if backward and units[0].datums[0] not in (self.firsts[0], self.firsts[-1]):
            self.forget()
        return results


class LastDropped(_Mutant):
    """The last micro-batch of several is left out (`drop_last`)."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        results = super()._micro_batch(units, datums, objective, backward=backward)
        if backward and len(self.firsts) > 1 and units[0].datums[0] == self.firsts[-1]:
            self.forget()
        return results


class MeanOfMeans(_Mutant):
    """Bug B: each micro-batch is normalised by its own tokens, and the means are averaged."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        own = [datums[i] for unit in units for i in unit.datums]
        count = _num_counted(datums) / (len(self.firsts) * max(1, _num_counted(own)))
        scaled = [replace(d, inputs={**d.inputs, "weights": d.inputs["weights"] * np.float32(count)}) for d in datums]
        return super()._micro_batch(units, scaled, objective, backward=backward)


def _num_counted(datums: Sequence[Datum]) -> int:
    return sum(int(np.count_nonzero(datum.inputs["weights"])) for datum in datums)


class Overwritten(_Mutant):
    """A micro-batch's gradient replaces what was accumulated."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        results = super()._micro_batch(units, datums, objective, backward=backward)
        if backward and units[0].datums[0] != self.firsts[-1]:
            self.forget()
        return results

    def _run(self, datums, loss, settings, *, backward):  # noqa: ANN001, ANN202
        if backward:
            self.optimizer.clear()
        return super()._run(datums, loss, settings, backward=backward)


class Shifted(_Mutant):
    """The first unit of a micro-batch is added last: right but for rounding."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        shifted = [*units[1:], units[0]]
        return super()._micro_batch(shifted, datums, objective, backward=backward)


class SortedByLength(_Mutant):
    """Datums of a call are packed shortest first: right but for rounding."""

    def _run(self, datums, loss, settings, *, backward):  # noqa: ANN001, ANN202
        order = sorted(range(len(datums)), key=lambda i: len(datums[i]))
        result = super()._run([datums[i] for i in order], loss, settings, backward=backward)
        outputs = tuple(result.outputs[order.index(i)] for i in range(len(datums)))
        return replace(result, outputs=outputs)


class SummedApart(_Mutant):
    """A micro-batch's gradient is a sum of its own, then added: what plain autograd does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.optimizer.sums = _OneAfterAnother(self.adapter.buffers())


class _OneAfterAnother(UnitSums):
    def taken(self, first: int) -> Partial:
        return super().taken(4 * first)  # as if no two of them ever were neighbours

    def commit(self, partials, count):  # noqa: ANN001, ANN202
        total, *others = partials
        for other in others:
            total = Partial(0, [a + b for a, b in zip(total.grads, other.grads, strict=True)])
        super().commit([total], count)


class NeverCleared(_Mutant):
    """The gradient of one step stays in the next."""

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        sums = self.optimizer.sums
        partials, count = sums.partials, sums.count
        metrics = super().optim_step(params)
        sums.partials, sums.count = partials, count
        return metrics


class MaskIgnored(_Mutant):
    """Tokens that do not count, count a little."""

    def _micro_batch(self, units, datums, objective, *, backward):  # noqa: ANN001, ANN202
        leaky = [replace(d, inputs={**d.inputs, "weights": d.inputs["weights"] + np.float32(1e-6)}) for d in datums]
        return super()._micro_batch(units, leaky, objective, backward=backward)


MUTANTS: dict[type[TrainingSession], set[str]] = {
    FirstAndLastOnly: {"micro_batches", "calls", "workers", "reference", "each_datum"},
    LastDropped: {"micro_batches", "calls", "workers", "reference", "each_datum"},
    MeanOfMeans: {"micro_batches", "calls", "workers", "reference", "each_datum"},
    Overwritten: {"micro_batches", "calls", "workers", "reference", "each_datum"},
    Shifted: {"micro_batches", "calls"},
    SortedByLength: {"calls", "workers", "each_datum"},
    SummedApart: {"micro_batches", "calls", "workers", "each_datum"},
    NeverCleared: {"reference"},
    MaskIgnored: {"empty_masks", "padding"},
}
"""Every mutant, and the checks that must notice it."""
