"""What the runs of `confidence` came to: right answers by split, confidence along the reasoning, its cost, claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.arm_gains import ArmGain, Arms, ArmsFound
from tinsmith.lab.study.driver import Tuned
from tinsmith.lab.study.results import Draws, hashes_in
from tinsmith.lab.study.task_arms import ArmRead, read_runs
from tinsmith.lab.study.task_study import Size
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.pages.measures import Measure
from tinsmith.stats.diagnostics.over_seeds import mean_over_seeds
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.confidence.settings import MIXED, NOISE, PLAIN, SHAPED, ConfidenceSettings
from tinsmith.studies.confidence.task import EASY, HARD, split_of
from tinsmith.types.errors import DataError

METRIC: Final = "right, hard split"
_WATCH: Final = "watch/confidence"


@dataclass(frozen=True, slots=True)
class SplitArms(Arms):
    """The arms on one split of the held-out items."""

    split: str = HARD

    def clustered(self, found: MeanRuns) -> MeanRuns:
        """Return the values of the split; every item stands alone."""
        return found.on([item for item in found.items if split_of(item) == self.split])


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one evaluation says of confidence: means over seeds."""

    step: int
    hard: float
    """Right answers on the hard split."""
    rho: float
    """Mean over replies of Spearman's rho(f, c)."""
    gold: tuple[float, ...]
    """c(f) of the right answer."""
    said: tuple[float, ...] | None
    """c(f) of the reply's own answer; None: in some run no reply had one."""
    certainty: tuple[float, ...]
    """KL(U || p) over the answers, nats."""
    flawed: float | None
    """Share of right answers whose last line of reasoning does not show them; None: no answer was right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """Confidence along the reasoning in one arm."""

    rho_before: Measure
    rho: Measure
    """After training, with Student's interval over seeds."""
    rho_shuffled: Measure
    rho_foreign: Measure
    trace: tuple[Told, ...]
    sampled: float
    """Tokens of training's rollouts, a run."""
    sent: float
    """Tokens that were scored to shape advantages, a run."""
    computed: float
    """The same, shared beginnings counted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceFound(ArmsFound):
    """What the study has found; gains and claims are those of the hard split."""

    easy: tuple[ArmGain, ...]
    along: Mapping[str, Along]
    """By the name of the arm."""
    ratio: Measure | None
    """Right answers on the hard split at the end, shaped over plain: the mean of the seeds' ratios; None: plain had
    none right under some seed."""


def read_found(settings: ConfidenceSettings, tuned: Tuned, draws: Draws) -> tuple[ConfidenceFound, Arms]:
    """Read the finished runs.

    Raises:
        DataError: a run was not evaluated, or did not watch.
    """
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    begins = 1 if settings.size is Size.SMALL else 0
    hard = SplitArms(reads, str, begins, HARD)
    easy = SplitArms(reads, str, begins, EASY)
    first = next(iter(reads.values())).reads[0]
    seen = dict.fromkeys(reads, int(first.run.config.steps or 0))
    found = ConfidenceFound(
        data=first.run.config.data.fingerprint,
        num_items=hard.at(PLAIN, 0).num_items,
        seeds=settings.study.seeds,
        tuning_seed=settings.study.tuning_seed,
        settings={key: value for key, value in settings.study.shared.items() if key != "quiet"},
        rates={},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
        task=first.run.config.task.name,
        gains=hard.gains(draws.tables),
        easy=easy.gains(draws.tables),
        beats=hard.beats([(SHAPED, PLAIN), (SHAPED, MIXED)], seen, METRIC, draws),
        learned=hard.learned(dict.fromkeys((PLAIN, SHAPED), NOISE), METRIC, draws),
        along={name: _along(hard, name, read) for name, read in reads.items()},
        ratio=_ratio(hard),
    )
    return found, hard


def _ratio(arms: Arms) -> Measure | None:
    shaped, plain = arms.at(SHAPED, -1), arms.at(PLAIN, -1)
    pairs = list(zip(_by_seed(shaped), _by_seed(plain), strict=True))
    if any(below == 0.0 for _, below in pairs):
        return None
    return _measure([above / below for above, below in pairs])


def _by_seed(found: MeanRuns) -> list[float]:
    return [float(sum((one[item] for item in found.items), Fraction()) / found.num_items) for one in found.by_seed]


def _along(arms: Arms, name: str, read: ArmRead) -> Along:
    runs = [one.run for one in read.reads]
    steps = read.steps[arms.first :]

    def over(step: int, key: str) -> Measure:
        return _measure([_at(run, step, f"{_WATCH}/{key}") for run in runs])

    def curve(step: int, key: str) -> tuple[float, ...]:
        return tuple(over(step, f"{key}_{fraction:.1f}").value for fraction in FRACTIONS)

    def said(step: int) -> tuple[float, ...] | None:
        there = all(f"{_WATCH}/rho_said" in run.metrics.get(step, {}) for run in runs)
        return curve(step, "said") if there else None

    return Along(
        rho_before=over(steps[0], "rho"),
        rho=over(steps[-1], "rho"),
        rho_shuffled=over(steps[-1], "rho_shuffled"),
        rho_foreign=over(steps[-1], "rho_foreign"),
        trace=tuple(
            Told(
                step=step,
                hard=arms.at(name, arms.first + place).mean(),
                rho=over(step, "rho").value,
                gold=curve(step, "gold"),
                said=said(step),
                certainty=curve(step, "certainty"),
                flawed=_flawed(runs, step),
            )
            for place, step in enumerate(steps)
        ),
        sampled=_summed(runs, "train/tokens/answer", _rollouts(runs[0])),
        sent=_summed(runs, "train/confidence/tokens_sent"),
        computed=_summed(runs, "train/confidence/tokens_computed"),
    )


def _rollouts(run: Run) -> float:
    """Return how many rollouts a step has."""
    told = run.config.settings
    return float(str(told["group_size"])) * float(str(told["groups_per_batch"]))


def _flawed(runs: Sequence[Run], step: int) -> float | None:
    right = math.fsum(_at(run, step, "eval/reward/right") for run in runs)
    sound = math.fsum(_at(run, step, "eval/metric/sound") for run in runs)
    return 1.0 - sound / right if right else None


def _summed(runs: Sequence[Run], key: str, times: float = 1.0) -> float:
    found = [value for run in runs for row in run.metrics.values() if (value := row.get(key))]
    return times * math.fsum(found) / len(runs)


def _measure(values: Sequence[float]) -> Measure:
    mean, interval = mean_over_seeds(values)
    return Measure(mean) if interval is None else Measure(mean, interval.low, interval.high)


def _at(run: Run, step: int, name: str) -> float:
    found = run.metrics.get(step, {}).get(name)
    if found is None:
        raise DataError("a run did not watch its confidence", field=name, value=str(run.folder))
    return found
