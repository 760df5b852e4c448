"""Cost of a step in closed form, and a simulated training run beside it."""

import math
import random
import statistics
from dataclasses import replace

import pytest
from small_load import LOAD, NETWORK, TIMES

from tinsmith.engine.cluster.scaling.costs import Limit, Network, best_blocks, moments, step_costs
from tinsmith.engine.cluster.scaling.simulation import Conditions, Report, ideal_seconds, simulate
from tinsmith.engine.cluster.scaling.token_costs import (
    Machine,
    Server,
    Times,
    product_weights,
    times_of,
    trained_weights,
)
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec

GPU_LIKE = replace(TIMES, new_token=1e-5, decode_step=0.005, gradient_row=2e-4, prompt_token=5e-5)
"""Decoding costs what reading the weights costs."""


@pytest.mark.parametrize("kind", AdapterKind)
def test_trained_weights_are_those_of_an_adapter(kind: AdapterKind) -> None:
    spec = AdapterSpec(kind=kind, rank=8)
    nano = PRESETS["nano"]
    decoder = build_decoder(nano, initial_weights(nano, 0), NativeKernels(), quantised=kind.quantised)
    adapter = create_adapter(decoder, spec)
    counted = sum(weight.value.numel() for weight in adapter.weights())
    assert trained_weights(nano, spec) == counted


@pytest.mark.parametrize("workers", [1, 3, 8, 32])
@pytest.mark.parametrize(
    "times",
    [TIMES, GPU_LIKE, replace(TIMES, adapter_bytes=2_000_000_000), replace(TIMES, join=0.5)],
    ids=["computing", "stepping", "returning", "joining"],
)
def test_the_closed_form_is_near_the_simulation(times: Times, workers: int) -> None:
    simulated = simulate(times, LOAD, NETWORK, Conditions(), workers=workers, steps=3)
    lines = step_costs(times, LOAD, NETWORK, workers)
    assert lines.seconds == pytest.approx(simulated.mean, rel=0.15)
    assert lines.ideal == pytest.approx(ideal_seconds(times, LOAD, workers), rel=0.15)
    if workers > 1:
        assert lines.gradient_bytes <= simulated.bytes_in / 3 * 1.05


def test_what_limits_a_step_is_told() -> None:
    limits = {workers: step_costs(TIMES, LOAD, NETWORK, workers).limit for workers in (1, 4, 128, 1024)}
    assert limits[1] is limits[4] is Limit.COMPUTE
    slow = Network(bandwidth=1e8, relayed=False)
    assert step_costs(TIMES, replace(LOAD, blocks=1), slow, 256).limit is Limit.BROADCAST
    assert step_costs(TIMES, LOAD, slow, 32).limit is Limit.RETURN
    assert step_costs(replace(TIMES, join=1.0), LOAD, NETWORK, 128).limit is Limit.JOIN
    assert step_costs(GPU_LIKE, LOAD, NETWORK, 128).limit in (Limit.ANSWER, Limit.RETURN)


def test_large_gradients_come_in_fewer_works() -> None:
    large = replace(TIMES, adapter_bytes=20_000_000_000)
    assert best_blocks(TIMES, LOAD, NETWORK, 8).blocks > best_blocks(large, LOAD, NETWORK, 8).blocks


def test_gradient_works_are_nodes_of_the_tree() -> None:
    for workers in (1, 2, 3, 5, 64, 1000):
        block = LOAD.block(workers)
        assert block & (block - 1) == 0
        assert block == 1 or block * workers * LOAD.blocks <= LOAD.groups


def test_the_longest_of_several_answers() -> None:
    rng = random.Random(0)
    longest = [max(min(256.0, 64 * rng.lognormvariate(0, 0.5)) for _ in range(8)) for _ in range(4000)]
    mean, deviation = moments(LOAD, 8)
    assert mean == pytest.approx(statistics.fmean(longest), rel=0.02)
    assert deviation == pytest.approx(statistics.stdev(longest), rel=0.05)


def test_times_of_a_model() -> None:
    nano = PRESETS["nano"]
    machine = Machine(name="one", flops=1e11, bytes_per_second=1e10)
    server = Server(adds=1e9, updates=1e9)
    lora, full, nf4 = (
        times_of(nano, AdapterSpec(kind=kind), machine, server, context=0)
        for kind in (AdapterKind.LORA, AdapterKind.FULL, AdapterKind.QLORA)
    )
    weights = product_weights(nano)
    assert math.isclose(full.new_token, 2 * weights / 1e11)
    assert math.isclose(full.gradient_row, 6 * weights / 1e11)
    assert math.isclose(full.decode_step, 4 * weights / 1e10)
    assert lora.adapter_bytes < full.adapter_bytes
    assert nf4.decode_step < lora.decode_step


ALL = Conditions(noise=0.2, slow_share=0.125, loss_every=20)


def run(conditions: Conditions, **changed: object) -> Report:
    return simulate(TIMES, LOAD, NETWORK, conditions, **({"workers": 8, "steps": 4} | changed))  # type: ignore[arg-type]


def test_a_seed_is_a_run() -> None:
    assert run(ALL) == run(ALL)
    assert run(ALL) != run(ALL, seed=1)


def test_workers_get_lost_and_the_run_goes_on() -> None:
    report = run(ALL)
    assert len(report.seconds) == 4
    assert report.losses > 3
    assert report.retries > report.losses
    assert report.copies > 0


def test_nothing_is_given_up_where_no_work_is_blamed() -> None:
    assert run(replace(ALL, blamed=False, loss_every=5)).given_up == 0


def test_slow_workers_are_worked_around() -> None:
    slow = Conditions(slow_share=0.125)
    assert run(slow).mean < 1.25 * run(Conditions()).mean
    assert run(replace(slow, slow_for=20)).mean < 1.25 * run(Conditions()).mean


def test_one_worker_is_what_ideal_is_measured_by() -> None:
    ideal = ideal_seconds(TIMES, LOAD, 1)
    assert ideal < run(Conditions(), workers=1, steps=1).mean < 1.05 * ideal


def test_more_workers_than_groups_help_nobody() -> None:
    few = replace(LOAD, groups=8)
    eight, many = (simulate(TIMES, few, NETWORK, Conditions(), workers=n, steps=2).mean for n in (8, 32))
    assert many > 0.9 * eight
