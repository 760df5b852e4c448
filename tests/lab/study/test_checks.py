"""A control beside the arm that it must not change: runs of one seed are compared as pairs."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_studies import MADE, MadeArm, Maker

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.checks import equivalent, not_higher, not_lower, within
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.study import Expectation, Finding, Study
from tinsmith.pages.measures import Measure, ranged
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.recursion import COIN, LOST, RIGHT
from tinsmith.types.errors import DataError
from tinsmith.types.waits import unsaid


def results_of(out: Path, coin: float, lost: float) -> Results:
    """Return the results of made-up runs whose right answers are drawn by their seeds."""
    found: list[Results] = []

    def read(results: Results) -> Finding:
        found.append(results)
        return Finding(True, "read")

    study = STUDIES["recursion"].value()
    assert isinstance(study, Study)
    study = replace(study, expectations=(Expectation("nothing", read),))
    metrics = {"right": (0.0, 0.0), "rollouts": (1.0, 1.0)}
    arms = {name: MadeArm(right=(0.05, right), metrics=metrics) for name, right in ((COIN, coin), (LOST, lost))}
    few = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
    given = {**MADE["recursion"].keys, "seeds": "1,2,3", "out": str(out)}
    run_study(study, given, unsaid, run=Maker(MADE["recursion"], arms), draws=few)
    return found[0]


def test_a_control_that_ends_where_its_arm_does_with_every_seed_is_equivalent_to_it(tmp_path: Path) -> None:
    same = results_of(tmp_path, coin=0.5, lost=0.5)
    assert len(set(same.arms[LOST].per_item(RIGHT).means())) > 1, "its seeds differ"
    gap = same.gap(LOST, COIN, RIGHT, paired=True)
    assert (gap.value, gap.low) == (0.0, -gap.high)
    assert equivalent(LOST, COIN, RIGHT, margin=gap.high)(same).met
    assert not equivalent(LOST, COIN, RIGHT, margin=gap.high / 2)(same).met, "so few answers may hide a difference"
    lower = not_lower(LOST, COIN, RIGHT, margin=0.05)(same)
    assert not lower.met, "seeds that are drawn apart"
    assert lower.figures.endswith(", not above -0.05")
    assert equivalent(LOST, COIN, RIGHT, margin=0.9)(same).figures == "0.000, equal in every run, within 0.9"
    gain = same.gains[COIN]
    for margin, found in ((0.75, "within 0.75"), (0.01, "not within 0.01")):
        assert within(COIN, margin)(same) == Finding(margin == 0.75, f"{gain.course}, {found}")


@pytest.mark.parametrize("lost", [0.3, 0.7])
def test_a_control_that_ends_elsewhere_is_not(lost: float, tmp_path: Path) -> None:
    apart = results_of(tmp_path, coin=0.5, lost=lost)
    assert abs(apart.gap(LOST, COIN, RIGHT).value) > 0.1
    assert not equivalent(LOST, COIN, RIGHT, margin=0.1)(apart).met
    beside = equivalent(LOST, COIN, RIGHT, margin=0.6)(apart)
    assert beside.met
    assert apart.gap(LOST, COIN, RIGHT, paired=True).between in beside.figures


def test_a_control_that_ends_a_little_above_its_arm_with_every_seed_is_seen_by_pairs(tmp_path: Path) -> None:
    above = results_of(tmp_path, coin=0.5, lost=0.52)
    apart = above.gap(LOST, COIN, RIGHT)
    assert apart.low < 0.0 < apart.value
    assert not not_higher(LOST, COIN, RIGHT)(above).met
    assert not_higher(COIN, LOST, RIGHT)(above).met


def test_a_gain_of_no_width_is_that_no_score_changed(tmp_path: Path) -> None:
    found = results_of(tmp_path, coin=0.05, lost=0.5)
    unmoved = replace(found.gains[COIN], gain=Measure(0.0, 0.0, 0.0))
    still = within(COIN, 0.1)(replace(found, gains={COIN: unmoved}))
    assert still == Finding(
        True, f"from {unmoved.before.value:.3f} to {ranged(unmoved.after)}: no score changed, within 0.1"
    )


def test_an_arm_without_a_run_of_each_seed_has_no_pairs(tmp_path: Path) -> None:
    found = results_of(tmp_path, coin=0.5, lost=0.5)
    fewer = replace(found, arms={**found.arms, LOST: replace(found.arms[LOST], reads=found.arms[LOST].reads[1:])})
    with pytest.raises(DataError, match="paired by their seeds"):
        fewer.gap(LOST, COIN, RIGHT, paired=True)
    assert fewer.gap(LOST, COIN, RIGHT).low is not None
