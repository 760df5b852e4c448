"""Figures of a study on labels of papers: answers of its systems to the test split, scores, differences and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import metadata_of
from tinsmith.lab.results.comparison_figures import arm_line
from tinsmith.lab.results.judging import training_of
from tinsmith.lab.results.snapshot import baseline_systems
from tinsmith.lab.results.standings import standing_words, standings
from tinsmith.lab.runs.records import Run, Split
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.record import CurveRecord, Draws, Panel, Shown
from tinsmith.lab.study.study import Beats, Learned, OnLabels, Study, in_families
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.wording import counted
from tinsmith.stats.estimates import Bootstrap, Difference, difference, estimate
from tinsmith.stats.evaluation import combine
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.claims import Beats as BeatsEvidence
from tinsmith.stats.gate.claims import Learned as LearnedEvidence
from tinsmith.stats.gate.claims import judge_beats, judge_learned
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

if TYPE_CHECKING:
    from tinsmith.lab.study.driver import TunedArm
    from tinsmith.lab.study.measures import Results

HEADS: Final = (
    *("label_match|chosen", "macro-F1|chosen", "min recall|chosen", "macro-F1|lowest and highest seed"),
    *("macro-F1|last", "min recall|last", "macro-F1|greedy", "min recall|greedy"),
)
CAPTION: Final = (
    "The test split. Chosen by validation, sampled: means over seeds, 95 % intervals over seeds and papers. Last: "
    "every arm after its last step, sampled."
)
_PROGRESS: Final = {
    "eval/macro_f1": "macro-F1",
    "eval_greedy/macro_f1": "macro-F1, greedy",
    "eval/min_class_recall": "smallest recall",
}
"""Metrics of the validation split that are drawn over the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Answers of all seeds to the test split, scored: means, with intervals over seeds and papers."""

    label_match: Measure
    macro_f1: Measure
    balanced_accuracy: Measure
    min_class_recall: Measure
    by_seed: tuple[float, ...]
    """Macro-F1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Finished runs of a study on labels."""

    arms: Mapping[str, Arm]
    rates: Mapping[str, float | None]
    systems: Mapping[str, Runs]
    """Answers to the test split, of the arms and the further ways to decide, by name."""
    labels: Mapping[str, str]
    """On the page, by name."""
    training: Mapping[str, Training | None]
    """Data and number of examples that each system was trained on."""
    cells: Mapping[str, Sequence[Cell]]
    """Runs by arm."""
    draws: Draws

    @classmethod
    def of(cls, study: Study, tuned: Mapping[str, TunedArm], draws: Draws) -> Labelled:
        """Collect it from the arms' runs."""
        arms = {name: one.read() for name, one in tuned.items()}
        systems: dict[str, Runs] = {}
        labels: dict[str, str] = {}
        training: dict[str, Training | None] = {}
        for name, arm in arms.items():
            systems[name], labels[name], training[name] = answers(arm, Split.TEST), arm.name, training_of(arm)
            papers = None if study.papers is None else study.papers(name)
            if papers is not None:
                training[name] = Training(arm.first.config.data.fingerprint, papers)
            for way in study.ways:
                if way.arm == name:
                    systems[way.name] = replace(answers(arm, way.split), name=way.label)
                    labels[way.name], training[way.name] = way.label, training[name]
        return cls(
            arms=arms,
            rates={name: one.rate for name, one in tuned.items()},
            systems=systems,
            labels=labels,
            training=training,
            cells={name: one.cells for name, one in tuned.items()},
            draws=draws,
        )

    def difference(self, first: str, second: str, metric: Metric) -> Difference:
        """Return how far one system scores above another, over seeds and papers."""
        return difference(self.systems[first], self.systems[second], metric, self.draws.claims)

    def scores(self, name: str) -> Scores:
        """Return the scores of a system's answers to the test split."""
        return scores(self.systems[name], self.draws.tables)

    @property
    def parity(self) -> ParityRecord | None:
        """Sampler against trainer over all steps that sample; of SFT, which samples nothing, it says the same."""
        known = [record for arm in self.arms.values() if (record := arm.parity()) is not None]
        steps, unequal = sum(one.steps for one in known), sum(one.unequal_bits for one in known)
        return ParityRecord(steps=steps, unequal_bits=unequal) if known else None

    def judged(self, study: Study) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
        """Put the study's claims to the gate, family by family."""
        claims = [] if study.claims is None or callable(study.claims) else list(study.claims)
        assert isinstance(study.score, OnLabels), "the study is on labels"
        score, draws, there = study.score, self.draws.claims, [one for one in claims if self._has(one)]
        beats, learned = [one for one in there if isinstance(one, Beats)], [o for o in there if isinstance(o, Learned)]
        return (
            in_families(beats, lambda some: judge_beats([self._beats(one, score) for one in some], draws)),
            in_families(learned, lambda some: judge_learned([self._learned(one, score) for one in some], draws)),
        )

    def _has(self, one: Beats | Learned) -> bool:
        return (one.first if isinstance(one, Beats) else one.arm) in self.systems

    def _beats(self, one: Beats, score: OnLabels) -> BeatsEvidence:
        mine, theirs = self.training[one.first], self.training[one.second]
        return BeatsEvidence(
            first=self.systems[one.first],
            second=self.systems[one.second],
            metric=_metric(one.on or score),
            training=None if mine is None or theirs is None else (mine, theirs),
            parity=self.parity,
        )

    def _learned(self, one: Learned, score: OnLabels) -> LearnedEvidence:
        system = self.systems[one.arm]
        return LearnedEvidence(
            system=system,
            metric=_metric(one.on or score),
            metadata=metadata_of(next(iter(self.arms.values())).first, system),
            control=self.systems[one.control] if one.control else None,
            parity=self.parity,
        )

    def equivalences(self, pairs: Sequence[tuple[str, str, Metric]], margin: float) -> list[list[Shown]]:
        """Return which systems are as good as each other: the 90 % interval, two one-sided tests, within a margin."""
        rows: list[list[Shown]] = []
        for first, second, metric in pairs:
            found = self.difference(first, second, metric)
            interval = found.at(0.9)
            assert interval is not None, "a share and a macro-F1 are defined in every resample"
            is_met = interval.low > -margin and interval.high < margin
            shown = Figure(found.value, interval.low, interval.high)
            name = f"{self.labels[first]} and {self.labels[second]}|{metric}"
            rows.append([name, shown, "equivalent" if is_met else "not shown"])
        return rows

    def rows(self, own: Callable[[str], Sequence[Shown]] = lambda _: ()) -> list[list[Shown]]:
        """Return the scores of the slice's baselines and of every system; `own` returns further cells of a system."""
        first = next(iter(self.arms.values())).first
        found: list[list[Shown]] = []
        width = len(own(next(iter(self.systems))))
        for name, figures in baselines_of(first):
            known = [figures.get(key) for key in ("label_match", "macro_f1", "min_class_recall")]
            found.append([name, *known, *["n/a"] * (len(HEADS) - 3 + width)])
        for name in self.systems:
            one = self.scores(name)
            seeds = f"{min(one.by_seed):.3f}\u2013{max(one.by_seed):.3f}"
            others = [*self._other(name, Split.TEST_LAST, Split.TEST), *self._other(name, Split.TEST_GREEDY)]
            head = [self._named(name), one.label_match, one.macro_f1, one.min_class_recall, seeds]
            found.append([*head, *others, *own(name)])
        return found

    def _named(self, name: str) -> str:
        if name not in self.arms:
            return self.labels[name]
        arm, rate = self.arms[name], self.rates[name]
        rated = "" if rate is None else f", rate {rate:g}"
        return f"{arm.name}|{arm.first.config.steps or 0} steps{rated}, {counted(len(arm.members), 'seed')}"

    def _other(self, name: str, *splits: Split) -> list[Shown]:
        if name not in self.arms:
            return ["n/a", "n/a"]
        found = scores(answers(self.arms[name], *splits), self.draws.tables)
        return [found.macro_f1, found.min_class_recall]

    def panels(self) -> tuple[list[str], list[Panel]]:
        """Return macro-F1 and the smallest recall of every system and baseline, as a picture has them."""
        baselines = baselines_of(next(iter(self.arms.values())).first)
        known = [self.scores(name) for name in self.systems]
        rows = [*(self.labels[name] for name in self.systems), *(name for name, _ in baselines)]
        values: dict[str, list[Figure | None]] = {
            "macro-F1": [*(one.macro_f1 for one in known), *(one.get("macro_f1") for _, one in baselines)],
            "smallest recall": [
                *(one.min_class_recall for one in known),
                *(one.get("min_class_recall") for _, one in baselines),
            ],
        }
        return rows, [Panel(title=title, before=(), after=tuple(some)) for title, some in values.items()]

    def progress(self, names: Sequence[str]) -> list[CurveRecord]:
        """Return validation scores of arms over their steps, with bands from the lowest seed to the highest."""
        found: list[CurveRecord] = []
        for metric, title in _PROGRESS.items():
            lines: list[tuple[str, tuple[int, ...], tuple[Figure, ...]]] = []
            for name in names:
                line = arm_line(self.arms[name], metric, self.labels[name], series_mark(0))
                low, high = line.low or [None] * len(line.values), line.high or [None] * len(line.values)
                figures = tuple(Figure(*one) for one in zip(line.values, low, high, strict=True))
                lines.append((self.labels[name], tuple(line.steps), figures))
            label = f"{title}, validation"
            name = metric.replace("/", "-")
            found.append(CurveRecord(name=name, label=label, axis="step", shares=True, lines=tuple(lines)))
        return found

    def settings(self) -> dict[str, object]:
        """Return the settings that decided the results: of all runs, and what arms have of their own."""
        own = {name: {**arm.first.config.settings} for name, arm in self.arms.items()}
        first = next(iter(own.values()))
        alike = {key: value for key, value in first.items() if all(one.get(key) == value for one in own.values())}
        found: dict[str, object] = {key: value for key, value in alike.items() if key != "seed"}
        for name, settings in own.items():
            found |= {f"{name}.{key}": value for key, value in settings.items() if key not in alike and key != "seed"}
        return found


def answers(arm: Arm, *splits: Split) -> Runs:
    """Return every seed's answers on the first of these splits that it has."""
    found = [
        next((one for split in splits if (one := member.gathered.last(split)) is not None), None)
        for member in arm.members
    ]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        raise DataError(f"a run of {arm.name} has no answers to the test split", field="cells")
    return combine(arm.name, there)


def scores(runs: Runs, draws: Bootstrap) -> Scores:
    """Score a system's answers, with intervals."""

    def of(metric: Metric) -> Measure:
        return from_estimate(estimate(runs, metric, draws))

    return Scores(
        label_match=of(Metric.LABEL_MATCH),
        macro_f1=of(Metric.MACRO_F1),
        balanced_accuracy=of(Metric.BALANCED_ACCURACY),
        min_class_recall=of(Metric.MIN_CLASS_RECALL),
        by_seed=tuple(one.score(Metric.MACRO_F1) for one in runs.confusions()),
    )


def baselines_of(run: Run) -> tuple[tuple[str, Mapping[str, Measure]], ...]:
    """Return the scores of a run's slice's baselines, by name; empty where there are none."""
    if run.baselines is None:
        return ()
    return tuple((one.name, dict(one.measures)) for one in baseline_systems(run.baselines))


def _metric(on: object) -> Metric:
    assert isinstance(on, OnLabels), "the study is on labels"
    return on.metric


def standings_of(*arms: str) -> Callable[[Results], str]:
    """Return a note of a sentence for each arm: above, below or indistinguishable from the baselines of its slice."""

    def note(results: Results) -> str:
        found = results.labelled
        return standing_words(standings([found.arms[name] for name in arms], found.draws.claims))

    return note
