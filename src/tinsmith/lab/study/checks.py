"""Checks of expectations: each function returns a check that reads a study's results; all have a margin or interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from tinsmith.lab.results.arms import label_arms
from tinsmith.lab.study.measures import BEFORE, ArmRuns, Results, estimated
from tinsmith.lab.study.study import Expectation, Finding, PerItem
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate, listed, over_seeds, ranged, signed
from tinsmith.stats.gate import Verdict
from tinsmith.stats.mean_runs import MeanRuns, shared_items
from tinsmith.stats.significance import ALPHA
from tinsmith.types.errors import DataError, TinsmithError
from tinsmith.types.page_names import p_words

Check = Callable[[Results], Finding]


def checked(results: Results, one: Expectation) -> Finding:
    """Return what came of an expectation: it was not met where a value is missing; raise DataError if a check fails."""
    found = attempt(one.check, results)
    if not isinstance(found, Raised):
        return found
    error = found.error
    name = error.args[0] if isinstance(error, KeyError) else None
    if name in {*results.left_out, *results.arms}:
        what = "there is no gain of" if name in results.arms else "this size has no arm"
        return Finding(False, f"{what} {name}")
    if isinstance(error, DataError) and error.allowed is None:
        of = f" of {error.value}" if isinstance(error.value, str) else ""
        return Finding(False, f"{error.what}: {error.field}{of}")
    if isinstance(error, TinsmithError):
        raise error.located_at(one.text) from error
    figures = dict.fromkeys(figure for some in results.figures.values() for figure in some)
    allowed = None if name is None else [*results.study.names, *figures]
    raise DataError(f"{one.text}: {found}", field="expectations", value=name, allowed=allowed) from error


def rises(arm: str) -> Check:
    """Expect an arm's gain above 0: its interval leaves out 0, and its corrected test refuses it."""
    return lambda results: Finding((one := results.gains[arm]).holds and one.gain.value > 0, one.course)


def no_gain(arm: str) -> Check:
    """Expect that an arm, such as a control, is not shown to gain."""
    return lambda results: Finding(not (found := rises(arm)(results)).met, found.figures)


def within(arm: str, margin: float) -> Check:
    """Expect the whole interval of an arm's gain within a margin around 0."""

    def inside(results: Results) -> Finding:
        one = results.gains[arm]
        ends = f"from {one.before.value:.3f} to {ranged(one.after)}"
        return Finding(one.gain.within(margin), f"{ends}: no score changed" if one.gain.within(0.0) else one.course)

    return _limited(inside, f"within {margin:g}")


def _limited(check: Check, limit: str) -> Check:
    """Return a check whose figures end with the limit of their interval."""

    def limited(results: Results) -> Finding:
        found = check(results)
        return replace(found, figures=f"{found.figures}, {'' if found.met else 'not '}{limit}")

    return limited


def allowed(*arms: str, over: str) -> Check:
    """Expect that the gate allows that each of these arms, but those a size leaves out, ends above another."""

    def check(results: Results) -> Finding:
        labels = [results.arms[name].arm.label for name in arms if name not in results.left_out]
        second = results.arms[over].arm.label
        ruled = [one for one in results.beats if one.second == second and one.first in labels]
        missed = [one for one in ruled if one.verdict is not Verdict.ALLOWED]
        return Finding(bool(ruled) and not missed, listed([f"{one.first} {signed(one.value)}" for one in ruled]))

    return check


def _beside(
    first: str, second: str, measure: PerItem, is_met: Callable[[Figure], bool], times: float | None = None
) -> Check:
    def check(results: Results) -> Finding:
        mine, other = (estimated(one, results.draws) for one in _shared(results, first, second, measure))
        tested = results.tested_gap(first, second, measure)
        gap, is_shown = from_estimate(tested), tested.p_value <= ALPHA
        ratio = f", {mine.value / other.value:.2f} times" if times not in (None, 1.0) and other.value else ""
        enough = times is None or mine.value >= times * other.value
        words = f"{mine.value:.3f} beside {other.value:.3f}{ratio}, {difference(gap)}"
        words += f", {p_words(tested.p_value)}" if is_met(gap) and not is_shown else ""
        return Finding(is_met(gap) and is_shown and enough, words)

    return check


def _shared(results: Results, first: str, second: str, measure: PerItem) -> list[MeanRuns]:
    return shared_items([results.arms[name].per_item(measure) for name in (first, second)])[0]


def higher(first: str, second: str, measure: PerItem, *, times: float = 1.0) -> Check:
    """Expect one arm to end above another, so many times as high, by the difference's interval and its test."""
    return _beside(first, second, measure, lambda gap: gap.above(0.0), times)


def lower(first: str, second: str, measure: PerItem) -> Check:
    """Expect one arm to end below another, by the difference's whole interval and its test."""
    return _beside(first, second, measure, lambda gap: gap.below(0.0))


def _of(read: Callable[[Results], Figure], is_met: Callable[[Figure], bool]) -> Check:
    return lambda results: Finding(is_met(one := read(results)), difference(one))


def not_lower(first: str, second: str, measure: PerItem, *, margin: float) -> Check:
    """Expect the whole interval of a difference above a margin below 0."""
    above = _of(lambda found: found.gap(first, second, measure), lambda gap: gap.above(-margin))
    return _limited(above, f"above {-margin:g}")


def equivalent(first: str, second: str, measure: PerItem, *, margin: float) -> Check:
    """Expect that a control changes nothing of another arm: the whole interval of their difference within a margin.

    Runs of one seed have the same first weights and the same draws, so they are drawn together, as pairs.
    """

    def inside(results: Results) -> Finding:
        gap = results.gap(first, second, measure, paired=True)
        mine, other = (results.arms[name].per_item(measure).by_seed for name in (first, second))
        # Of equal runs an interval tells only how many answers there are.
        return Finding(gap.within(margin), "0.000, equal in every run" if mine == other else difference(gap))

    return _limited(inside, f"within {margin:g}")


def not_higher(first: str, second: str, measure: PerItem) -> Check:
    """Expect that an arm, such as a control, is not shown to end above another; runs of one seed are pairs."""

    def not_above(gap: Figure) -> bool:
        return gap.value <= 0.0 if gap.low is None else gap.low <= 0.0  # without an interval nothing is excused

    return _of(lambda found: found.gap(first, second, measure, paired=True), not_above)


PerRun = Callable[[Results], Sequence[float]]  # One value a run, in the order of the seeds.


def of_runs(arm: str, metric: str) -> PerRun:
    """Return a metric of an arm's runs after training, such as one of the test."""
    return lambda results: results.arms[arm].per_run(metric)


def moved(metric: str) -> Callable[[ArmRuns], list[float]]:
    """Return a metric's change from the first evaluation to the last, one a run."""
    return lambda arm: [b - a for a, b in zip(arm.per_run(metric, BEFORE), arm.per_run(metric), strict=True)]


def mean_in_training(metric: str) -> Callable[[ArmRuns], float | None]:
    """Return the mean of a metric over the steps that have it; None where none has."""
    return lambda arm: fmean(found) if (found := arm.in_training(metric)) else None


def runs_gap(first: str, second: str, measure: PerItem) -> PerRun:
    """Return the difference of two arms after training, seed by seed."""

    def read(results: Results) -> list[float]:
        mine, other = (one.means() for one in _shared(results, first, second, measure))
        return [a - b for a, b in zip(mine, other, strict=True)]

    return read


def more(first: PerRun, second: PerRun) -> Check:
    """Expect one value of the runs above another, by the interval of their differences over seeds."""

    def check(results: Results) -> Finding:
        mine, other = first(results), second(results)
        gap = over_seeds([a - b for a, b in zip(mine, other, strict=True)])
        text = f"{fmean(mine):.3f} beside {fmean(other):.3f}, {difference(gap)}"
        return Finding(gap.above(0.0), text)

    return check


def falls(arm: str, measure: str) -> Check:
    """Expect a measure of change below 0 with its whole interval."""
    return _of(lambda found: found.figure(arm, measure), lambda one: one.below(0.0))


def near_zero(arm: str, measure: str) -> Check:
    """Expect that a measure, such as a control's, is not shown to differ from 0: that it is 0 takes a margin."""
    return _of(lambda found: found.figure(arm, measure), lambda one: not (one.above(0.0) or one.below(0.0)))


def predicted(arm: str, observed: str, expected: str) -> Check:
    """Expect the value of a closed form within the interval of what was observed."""

    def check(results: Results) -> Finding:
        one, other = results.figure(arm, observed), results.figure(arm, expected)
        inside = one.low is not None and one.high is not None and one.low <= other.value <= one.high
        return Finding(inside, f"{one} observed, {other.value:.3f} expected")

    return check


def no_label_learned(*arms: str) -> Check:
    """Expect that no claim is allowed to arms on shuffled labels, nor balanced accuracy shown above chance."""

    def check(results: Results) -> Finding:
        found = [arm for name, arm in label_arms(results).items() if name in arms]
        scores = {arm.name: arm.scores["balanced_accuracy"] for arm in found}
        chance = found[0].chance
        above = any(scores[arm.name].above(arm.chance) for arm in found)
        claimed = [one for one in results.learned if one.first in scores and one.verdict is Verdict.ALLOWED]
        shown = listed([f"{label} {one.value:.3f}" for label, one in scores.items()])
        return Finding(not above and not claimed, f"balanced accuracy of {shown}, chance {chance:.3f}")

    return check


def first_claim(results: Results) -> Finding:
    """Expect that the gate allows the first claim, which was named before any run."""
    claim = results.beats[0]
    return Finding(claim.verdict is Verdict.ALLOWED, claim.sentence())


def difference(gap: Figure) -> str:
    """Return a difference with its interval, as a sentence has it."""
    return f"{signed(gap.value)}, {gap.between or 'without an interval'}"
