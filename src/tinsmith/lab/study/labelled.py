"""Figures of a study on labels of papers: answers of its systems to the test split, scores, differences and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.label_tables import panels_of, score_heads, score_rows
from tinsmith.lab.results.systems import Scored, measures_of, rival_named, standing_rows, systems_of
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Config, Split
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.record import Column, CurveRecord, Draws, Panel, Shown
from tinsmith.lab.study.study import Beats, Learned, Listing, OnLabels, Study, in_families, named_baseline
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.estimates import Difference, difference
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

CAPTION: Final = (
    "The test split, or the last validation where it was not reached. Means over seeds with 95 % intervals over seeds "
    "and papers; of one seed, over papers. Sampled: at the training temperature. Selected: by validation."
)
PROGRESS: Final = {
    "eval/macro_f1": "macro-F1",
    "eval_greedy/macro_f1": "macro-F1, greedy",
    "eval/min_class_recall": "smallest recall",
}
"""Metrics of the validation split that are drawn over the steps."""


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
    scored: Scored
    """Scores by the label of an arm on the page, and split."""
    draws: Draws

    @classmethod
    def read(cls, arms: Mapping[str, Arm], systems: Mapping[str, tuple[Runs, Arm]], draws: Draws) -> Labelled:
        """Collect it from runs that no study made; `systems` are answers by the name on the page, with their arm."""
        return cls(
            arms=arms,
            rates=dict.fromkeys(arms),
            systems={name: runs for name, (runs, _) in systems.items()},
            labels={name: name for name in systems},
            training={name: training_of(arm) for name, (_, arm) in systems.items()},
            cells={},
            scored={name: systems_of(arm, draws.tables) for name, arm in arms.items()},
            draws=draws,
        )

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
            scored={arm.name: systems_of(arm, draws.tables) for arm in arms.values()},
            draws=draws,
        )

    def difference(self, first: str, second: str, metric: Metric) -> Difference:
        """Return how far one system scores above another, over seeds and papers."""
        return difference(self.systems[first], self.systems[second], metric, self.draws.claims)

    def scores(self, name: str) -> Mapping[str, Figure]:
        """Return the scores of a system's answers to the test split, by their names in metrics.jsonl."""
        return measures_of(self.systems[name], draws=self.draws.tables)

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
        first, baseline = self.systems[one.first], named_baseline(one.second)
        mine = self.training[one.first]
        if baseline is None:
            second, theirs = self.systems[one.second], self.training[one.second]
        else:
            second = rival_named(baseline, self._arm(one.first).first, first)
            theirs = Training(self._arm(one.first).first.config.data.fingerprint, None)
        assert second is not None, "the slice has this baseline"
        return BeatsEvidence(
            first=first,
            second=second,
            metric=_metric(one.on or score),
            training=None if mine is None or theirs is None else (mine, theirs),
            parity=self._parity(one.first),
        )

    def _learned(self, one: Learned, score: OnLabels) -> LearnedEvidence:
        system = self.systems[one.arm]
        return LearnedEvidence(
            system=system,
            metric=_metric(one.on or score),
            metadata=rival_named(Baseline.METADATA, self._arm(one.arm).first, system),
            control=_with_true_labels(self.systems[one.control], system) if one.control else None,
            parity=self._parity(one.arm),
        )

    def _arm(self, name: str) -> Arm:
        return self.arms.get(name) or next(iter(self.arms.values()))

    def _parity(self, name: str) -> ParityRecord | None:
        """Return an arm's own record; that of all arms where it samples nothing, as they share an engine."""
        return self._arm(name).parity() or self.parity

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

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table of scores."""
        return score_heads(next(iter(self.arms.values())).labels)

    def rows(self, own: Callable[[str], Sequence[Shown]] = lambda _: ()) -> list[list[Shown]]:
        """Return the scores of every arm and of the slice's baselines; `own` returns further cells of an arm."""
        names = {arm.name: name for name, arm in self.arms.items()}
        rates = {arm.name: self.rates[name] for name, arm in self.arms.items()}
        rows = score_rows(list(self.arms.values()), self.scored, lambda label: own(names[label]))
        for row in rows:
            label, _, what = str(row[0]).partition("|")
            if rates.get(label) is not None:
                row[0] = f"{label}|{what}, rate {rates[label]:g}"
        return rows

    def panels(self) -> tuple[list[str], list[Panel]]:
        """Return the picture of scores of every system and baseline."""
        return panels_of(list(self.arms.values()), self.scored)

    def progress(self, names: Sequence[str]) -> list[CurveRecord]:
        """Return validation scores of arms over their steps, with bands from the lowest seed to the highest."""
        return [
            curve(f"{title}, validation", metric, {self.labels[name]: (self.arms[name], metric) for name in names})
            for metric, title in PROGRESS.items()
        ]

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
    found = [next((one for split in splits if (one := member.last(split)) is not None), None) for member in arm.members]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        raise DataError(f"a run of {arm.name} has no answers to the test split", field="cells")
    return combine(arm.name, there)


def training_of(arm: Arm) -> Training | None:
    """Return what each run of an arm was trained on, and how many papers it saw; None where that is not stated."""
    found = {_training(member.run.config) for member in arm.members}
    return found.pop() if len(found) == 1 else None


def _training(config: Config) -> Training | None:
    def asked(key: str) -> int | None:
        value = config.settings.get(key)
        return value if isinstance(value, int) else None

    steps, before = config.steps, asked("sft_steps") or 0
    batch = asked("batch_size" if config.kind is Kind.SFT else "groups_per_batch")
    batch_before = asked("sft_batch_size") if before else 0
    if steps == 0:
        return Training(config.data.fingerprint, 0)
    if steps is None or batch is None or batch_before is None:
        return None
    return Training(config.data.fingerprint, (steps - before) * batch + before * batch_before)


def _with_true_labels(control: Runs, first: Runs) -> Runs:
    """Return the control's answers against the true labels: its own may be the shuffled ones."""
    there = set(control.items)
    items = [item for item in first.items if item in there]
    return Runs(control.name, first.labels, tuple(items), first.on(items).golds, control.on(items).predicted)


def over_steps(arm: Arm, key: str) -> dict[int, Figure]:
    """Return a metric's mean over an arm's seeds, with the lowest and the highest, at the steps that all have."""
    rows = [member.run.metrics for member in arm.members]
    found: dict[int, Figure] = {}
    for step in rows[0]:
        values = [value for each in rows if (value := each.get(step, {}).get(key)) is not None]
        if len(values) == len(rows):
            ends = (min(values), max(values)) if len(values) > 1 else (None, None)
            found[step] = Figure(sum(values) / len(values), *ends)
    return found


def curve(label: str, name: str, lines: Mapping[str, tuple[Arm, str]], *, shares: bool = True) -> CurveRecord:
    """Return metrics of arms over their steps, by the names of the lines."""
    values = {label: over_steps(*one) for label, one in lines.items()}
    drawn = tuple((label, tuple(one), tuple(one.values())) for label, one in values.items())
    return CurveRecord(name=name.replace("/", "-"), label=label, axis="step", shares=shares, lines=drawn)


def _metric(on: object) -> Metric:
    assert isinstance(on, OnLabels), "the study is on labels"
    return on.metric


def standings_of(*arms: str) -> Listing:
    """Return the table of where arms, or all, stand against the baselines of their slice."""

    def rows(results: Results) -> list[list[Shown]]:
        found = results.labelled
        return standing_rows([found.arms[name] for name in arms or found.arms], found.draws.claims)

    caption = "macro-F1 on the test split, sampled, less a baseline's: a difference without any gate."
    heads = ("Baseline", Column(head="difference|95 % interval", form="+.3f"), "Finding")
    return Listing("Against the baselines", caption, heads, rows)
