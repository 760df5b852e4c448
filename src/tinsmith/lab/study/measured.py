"""Studies without runs: figures of arms that are functions of a seed, their intervals, expectations, page and values.

A measurement (see `tinsmith.lab.study.keys`) returns `compare_arms(...)`. Each arm with each seed leaves a file, so
that the same call goes on where it was stopped; page and `study.json` have the form of every study's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Protocol, TypeVar, cast

from tinsmith.lab.study import conduct
from tinsmith.lab.study.cells import sole_process
from tinsmith.lab.study.checks import difference
from tinsmith.lab.study.files import made_once
from tinsmith.lab.study.keys import Measure as Measuring
from tinsmith.lab.study.keys import Measurement
from tinsmith.lab.study.measures import ArmRuns, Results
from tinsmith.lab.study.record import DRAWS, Column, CurveRecord, Panel, Seconds, StudyRecord
from tinsmith.lab.study.sizes import CELLS
from tinsmith.lab.study.study import Arm, Curves, Expectation, Finding, Measure, PerItem, Points, Study, Table
from tinsmith.lab.user_task.functions import code_sha256
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import finite, over_seeds
from tinsmith.types.errors import ConfigError, DataError, require_apart
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.waits import Say, ticking

SEEDS: Final = (1, 2, 3, 4, 5)


class MeasuredSize(StrEnum):
    """Size of a measurement."""

    SMALLEST = "smallest"
    NANO = "nano"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of one arm with one seed."""

    figures: Mapping[str, float]  # What is no number, such as NaN, is missing.
    curve: Sequence[tuple[int, float]] = ()  # Places on the study's axis, and the score there.
    updates: int = 0  # Steps of training.
    weights_sha256: str = ""
    seconds: float = 0.0  # Of the CPU; the study measures them itself.

    def __post_init__(self) -> None:
        """Leave out what is no number, as files have none."""
        known = {name: one for name, one in self.figures.items() if finite(one) is not None}
        object.__setattr__(self, "figures", known)
        object.__setattr__(self, "curve", [point for point in self.curve if finite(point[1]) is not None])


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of every arm, a seed each, in the order of the seeds."""

    by_arm: Mapping[str, Sequence[Outcome]]

    def values(self, arm: str, figure: str) -> list[float]:
        """Return a figure of an arm, one a seed; raise DataError where a seed lacks it."""
        if not all(figure in one.figures for one in self.by_arm[arm]):
            raise DataError("a figure is not known", field=figure, value=arm)
        return [one.figures[figure] for one in self.by_arm[arm]]

    def mean(self, arm: str, figure: str) -> Figure:
        """Return the mean over seeds, with Student's interval."""
        return over_seeds(self.values(arm, figure))

    def gap(self, first: str, second: str, figure: str) -> Figure:
        """Return the mean of one arm less another, paired by seed."""
        pairs = zip(self.values(first, figure), self.values(second, figure), strict=True)
        return over_seeds([one - other for one, other in pairs])


OutcomeCheck = Callable[[Outcomes], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStudy:
    """A question, arms by name with their labels, figures that are measured of each, and expectations of them."""

    name: str
    question: str
    arms: Mapping[str, str]
    columns: Mapping[str, Column]  # Of the table, by figure; the first is the score.
    caption: str
    expectations: Sequence[tuple[str, OutcomeCheck]]  # Texts and checks, written down before the first reported run.
    title: str = ""
    source: str = ""
    axis: str = "step"  # Of the curves.
    tuning_seed: int = 0  # Seed on which settings were chosen; none of those that are reported.
    notes: Sequence[str] = ()


class Amounts(Protocol):
    """Settings of one size, as a dataclass; all but the minutes decide an outcome."""

    @property
    def items(self) -> int:
        """Held-out items of each outcome."""
        ...

    @property
    def minutes(self) -> float:
        """Of one outcome, for the forecast."""
        ...


A = TypeVar("A", bound=Amounts)


def measurement_of(
    study: MeasuredStudy, sizes: Mapping[MeasuredSize, A], trained: Callable[[str, int, A], Outcome]
) -> Measurement:
    """Return the measurement of a study whose arms are trained with a seed and the amounts of a size."""

    def measurement(
        *,
        size: MeasuredSize = MeasuredSize.NANO,
        seeds: tuple[int, ...] = SEEDS,
        out: Path = Path(f"runs/{study.name}"),
        dry_run: bool = False,
    ) -> Measuring:
        """Return what trains every arm with every seed, and compares them.

        Args:
            size: How long each arm is trained.
            seeds: Of weights and batches; that by which settings were chosen is not reported.
            out: The folder that it is written to; the same command goes on in it.
            dry_run: Only say how many arms it is.
        """
        amounts = sizes[size]

        @wraps(trained)
        def measure(arm: str, seed: int) -> Outcome:
            return trained(arm, seed, amounts)

        deciding = {key: value for key, value in asdict(cast("Any", amounts)).items() if key != "minutes"}
        return compare_arms(
            study,
            measure,
            out=out,
            seeds=seeds,
            settings={"size": size.value, **deciding},
            num_items=amounts.items,
            minutes=amounts.minutes,
            dry_run=dry_run,
        )

    return measurement


def compare_arms(
    study: MeasuredStudy,
    measure: Callable[[str, int], Outcome],
    *,
    out: Path,
    seeds: Sequence[int],
    settings: Mapping[str, object],
    num_items: int,
    minutes: float,
    dry_run: bool = False,
) -> Measuring:
    """Return what measures every arm with every seed, and writes values, tables and a page.

    Args:
        study: the question, the arms, and what is expected.
        measure: returns the outcome of an arm with a seed; the same two give the same figures.
        out: the folder; what came to its end in it is not measured again with the same settings and the same code.
        seeds: of the reported outcomes.
        settings: all that decides an outcome, beside arm and seed.
        num_items: held-out items of each outcome.
        minutes: of one outcome, for the forecast.
        dry_run: only say what is measured.
    """
    require_apart("arm", study.arms.items(), field="arms")
    if not study.columns:
        raise ConfigError("nothing is measured", field="columns", value=(), allowed="one figure or more")
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or study.tuning_seed in seeds:
        allowed = f"different ones, 0 or more, none of them {study.tuning_seed}, by which settings were chosen"
        given = ",".join(map(str, seeds))
        raise ConfigError("these seeds cannot be reported", field="seeds", value=given, allowed=allowed)

    def run(say: Say) -> Path:
        cells = [(arm, seed) for arm in study.arms for seed in seeds]
        say(f"{study.name}: {study.question}")
        say(f"{len(cells)} outcomes in {out / CELLS}: about {len(cells) * minutes:.1f} minutes on one core")
        if dry_run:
            return out
        made: dict[str, list[Outcome]] = {arm: [] for arm in study.arms}
        code = code_sha256(measure)
        with sole_process(out):
            for number, (arm, seed) in enumerate(cells, start=1):
                identity = {"settings": settings, "arm": arm, "seed": seed, "code": code}
                file = out / CELLS / f"{arm}-seed={seed}.json"
                with ticking(f"{number}/{len(cells)} {arm} seed {seed}", say):
                    one = made_once(file, identity, Outcome, lambda arm=arm, seed=seed: _timed(measure, arm, seed))
                made[arm].append(one)
                score = next(iter(study.columns))
                shown = finite(one.figures.get(score)) or study.columns[score].missing
                say(f"{number}/{len(cells)} {arm} seed {seed}: {score} {shown}")
            record = recorded(study, Outcomes(made), seeds, settings, num_items)
            seconds = {study.arms[arm]: _seconds(some) for arm, some in made.items()}
            conduct.conclude(record, seconds, out, say)
        return out

    return run


def recorded(
    study: MeasuredStudy, found: Outcomes, seeds: Sequence[int], settings: Mapping[str, object], num_items: int
) -> StudyRecord:
    """Return the values that are kept: those of any study, whose figures are read from outcomes instead of runs."""
    return conduct.recorded(
        _results(study, found),
        without_runs=(sha256_of(dict(settings)), num_items),
        seeds=tuple(seeds),
        tuning_seed=study.tuning_seed,
        settings=settings,
        hashes={
            f"{arm}-seed={seed}": {"weights_sha256": one.weights_sha256}
            for arm, some in found.by_arm.items()
            for seed, one in zip(seeds, some, strict=True)
            if one.weights_sha256
        },
    )


def _results(study: MeasuredStudy, found: Outcomes) -> Results:
    """Return outcomes as results of a Study with one table, of all figures, and pictures of the score."""
    known = {arm: {name: _known(found, arm, name) for name in study.columns} for arm in study.arms}
    score, first = next(iter(study.columns.items()))
    drawn = {arm: label for arm, label in study.arms.items() if found.by_arm[arm][0].curve}
    lines = {label: _curve([one.curve for one in found.by_arm[arm]]) for arm, label in drawn.items()}
    title = first.head.replace("|", ", ")
    panel = Panel(title=title, before=(), after=tuple(known[arm][score] for arm in study.arms))
    curve = CurveRecord.of(score, title, lines, axis=study.axis, shares=True)
    arms = {name: Arm(name, label) for name, label in study.arms.items()}
    whole = Study(
        name=study.name,
        question=study.question,
        title=study.title,
        task=None,
        arms=tuple(arms.values()),
        score=PerItem(score, first.head),
        source=study.source,
        expectations=[Expectation(text, lambda _, check=check: check(found)) for text, check in study.expectations],
        tables=[
            Table(
                "Figures",
                study.caption,
                [
                    Measure(name, one.head, lambda arm, name=name: known[arm.arm.name][name], one.form, one.missing)
                    for name, one in study.columns.items()
                ],
            )
        ],
        pictures=[Points(lambda _: ((), [panel])), Curves(lambda _: [curve] if lines else [])],
        notes=study.notes,
    )
    of_arms = {name: ArmRuns(arm, ()) for name, arm in arms.items()}
    return Results(study=whole, arms=of_arms, draws=DRAWS, figures=known, beats=(), learned=())


def above(first: str, second: str, figure: str, *, by: float = 0.0, times: float = 1.0) -> OutcomeCheck:
    """Expect one arm above another: the whole interval above a margin, the means so many times apart."""

    def check(found: Outcomes) -> Finding:
        gap, mine, other = found.gap(first, second, figure), found.mean(first, figure), found.mean(second, figure)
        met = gap.above(by) and mine.value >= times * other.value
        return Finding(met, f"{mine.value:.3f} beside {other.value:.3f}, {difference(gap)}")

    return check


def around(arm: str, figure: str, value: float | str, *, margin: float) -> OutcomeCheck:
    """Expect the whole interval of a figure, such as a control's, within a margin around a value or another arm's."""

    def check(found: Outcomes) -> Finding:
        mine = found.values(arm, figure)
        others = found.values(value, figure) if isinstance(value, str) else [value] * len(mine)
        gap = over_seeds([one - other for one, other in zip(mine, others, strict=True)])
        words = f"{found.mean(arm, figure)}, {fmean(others):.3f} expected"
        return Finding(gap.within(margin), words if gap.between else f"{words}, without an interval")

    return check


def at_least(arm: str, figure: str, bound: float) -> OutcomeCheck:
    """Expect a figure of every seed at or above a bound."""
    return lambda found: Finding(
        (least := min(found.values(arm, figure))) >= bound, f"{least:.3f} at least, of {found.mean(arm, figure)}"
    )


def same(first: str, second: str, figure: str) -> OutcomeCheck:
    """Expect a figure of two arms equal under every seed, to the last digit."""

    def check(found: Outcomes) -> Finding:
        mine, other = found.values(first, figure), found.values(second, figure)
        unequal = sum(one != two for one, two in zip(mine, other, strict=True))
        return Finding(not unequal, f"{unequal} of {len(mine)} seeds differ")

    return check


def _timed(measure: Callable[[str, int], Outcome], arm: str, seed: int) -> Outcome:
    begin = time.process_time()
    return replace(measure(arm, seed), seconds=time.process_time() - begin)


def _known(found: Outcomes, arm: str, figure: str) -> Figure | None:
    """Return a figure of the table; it has no interval where it is the same under every seed, such as a count."""
    if not all(figure in one.figures for one in found.by_arm[arm]):
        return None
    values = found.values(arm, figure)
    return Figure(values[0]) if len(set(values)) == 1 else found.mean(arm, figure)


def _curve(curves: Sequence[Sequence[tuple[int, float]]]) -> dict[int, Figure]:
    by_seed = [dict(curve) for curve in curves]
    return {at: over_seeds([one[at] for one in by_seed]) for at in by_seed[0] if all(at in one for one in by_seed)}


def _seconds(some: Sequence[Outcome]) -> Seconds:
    taken, updates = sum(one.seconds for one in some), sum(one.updates for one in some)
    each = taken / len(some)
    return Seconds(a_step=taken / updates if updates else None, training=each, run=each)
