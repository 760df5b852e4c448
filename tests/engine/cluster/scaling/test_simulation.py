"""A simulated training run: the same figures from the same seed, all work done, and little lost to what goes wrong."""

from dataclasses import replace

from small_load import LOAD, NETWORK, TIMES

from tinsmith.engine.cluster.scaling.simulation import Conditions, Report, ideal_seconds, simulate

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
