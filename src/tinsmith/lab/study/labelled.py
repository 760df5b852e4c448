"""Figures of a study on labels of papers: answers of its systems to the test split, scores, differences and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import Arm, gather
from tinsmith.lab.results.label_tables import panels_of, score_heads, score_rows
from tinsmith.lab.results.systems import Scored, measures_of, rival_named, standing_rows, systems_of
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Config, Split
from tinsmith.lab.study.record import CurveRecord, Draws, Panel, Shown, apart
from tinsmith.lab.study.study import Beats, Learned, Listing, Study
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.estimates import Bootstrap, Difference, Runs, difference
from tinsmith.stats.evaluation import combine
from tinsmith.stats.gate import Beats as BeatsEvidence
from tinsmith.stats.gate import Claim, ParityRecord, Training, judge_beats, judge_learned
from tinsmith.stats.gate import Learned as LearnedEvidence
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError

if TYPE_CHECKING:
    from tinsmith.lab.study.measures import Results
    from tinsmith.lab.study.sizes import StudyArm

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
    systems: Mapping[str, Runs]  # Answers to the test split, of the arms and the further ways to decide, by name.
    training: Mapping[str, Training | None]  # Data and number of examples that each system was trained on.
    scored: Scored  # Scores by the label of an arm on the page, and split.
    draws: Draws
    tuned: Mapping[str, StudyArm] = field(default_factory=dict[str, "StudyArm"])  # Of a study, by name.

    @classmethod
    def read(cls, arms: Mapping[str, Arm], systems: Mapping[str, tuple[Runs, Arm]], draws: Draws) -> Labelled:
        """Collect it from runs; `systems` are answers by name, with their arm."""
        # Of each system what its runs were trained on, and how many papers they saw; None where that is not stated.
        trained = {name: {_training(one.run.config) for one in arm.members} for name, (_, arm) in systems.items()}
        return cls(
            arms=arms,
            systems={name: runs for name, (runs, _) in systems.items()},
            training={name: next(iter(some)) if len(some) == 1 else None for name, some in trained.items()},
            scored={arm.name: systems_of(arm, draws.tables) for arm in arms.values()},
            draws=draws,
        )

    @classmethod
    def of(cls, study: Study, tuned: Mapping[str, StudyArm], draws: Draws) -> Labelled:
        """Collect it from the arms' runs."""
        arms: dict[str, Arm] = {}
        for name, one in tuned.items():
            runs = [read_run(cell.folder) for cell in one.cells]
            arms[name] = Arm(name=one.label, members=tuple(map(gather, runs)))
        systems = {name: (answers(arm, Split.TEST), arm) for name, arm in arms.items()}
        for name, (label, arm, split) in study.ways.items():
            systems[name] = replace(answers(arms[arm], split), name=label), arms[arm]
        found = cls.read(arms, systems, draws)
        papers = {name: None if study.papers is None else study.papers(name) for name in arms}
        data = {name: arm.first.config.data.fingerprint for name, arm in arms.items()}
        looked_at = {name: Training(data[name], number) for name, number in papers.items() if number is not None}
        return replace(found, tuned=tuned, training={**found.training, **looked_at})

    @property
    def labels(self) -> Mapping[str, str]:
        """Names of the systems on the page."""
        return {name: runs.name for name, runs in self.systems.items()}

    def difference(self, first: str, second: str, metric: Metric) -> Difference:
        """Return how far one system scores above another, over seeds and papers."""
        return difference(self.systems[first], self.systems[second], metric, self.draws.claims)

    def scores(self, name: str) -> Mapping[str, Figure]:
        """Return the scores of a system's answers to the test split, by their names in metrics.jsonl."""
        return measures_of(self.systems[name], draws=self.draws.tables)

    def judged(self, study: Study) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
        """Put the study's claims to the gate, family by family."""
        assert isinstance(study.score, Metric), "the study is on labels"
        claims = [] if study.claims is None or callable(study.claims) else study.claims
        there = [one for one in claims if (one.first if isinstance(one, Beats) else one.arm) in self.systems]
        beats, learned = partial(self._beats, study.score), partial(self._learned, study.score)
        return judged(there, beats, learned, self.draws.claims)

    def _beats(self, score: Metric, one: Beats) -> BeatsEvidence[Runs]:
        first, baseline = self.systems[one.first], one.baseline
        mine, run = self.training[one.first], self._arm(one.first).first
        if baseline is None:
            second, theirs = self.systems[one.second], self.training[one.second]
        else:
            second, theirs = rival_named(baseline, run, first), Training(run.config.data.fingerprint, None)
        assert second is not None, "the slice has this baseline"
        return BeatsEvidence(
            first=first,
            second=second,
            metric=_metric(one.on or score),
            training=None if mine is None or theirs is None else (mine, theirs),
            parity=self._parity(one.first),
        )

    def _learned(self, score: Metric, one: Learned) -> LearnedEvidence[Runs]:
        system = self.systems[one.arm]
        control = self.systems[one.control] if one.control else None
        if control is not None:  # against the true labels: its own may be the shuffled ones
            there = set(control.items)
            items = [item for item in system.items if item in there]
            golds = system.on(items).golds
            control = Runs(control.name, system.labels, tuple(items), golds, control.on(items).predicted)
        return LearnedEvidence(
            system=system,
            metric=_metric(one.on or score),
            metadata=rival_named(Baseline.METADATA, self._arm(one.arm).first, system),
            control=control,
            parity=self._parity(one.arm),
        )

    def _arm(self, name: str) -> Arm:
        return self.arms.get(name) or next(iter(self.arms.values()))

    def _parity(self, name: str) -> ParityRecord | None:
        """Return sampler against trainer of an arm; of all arms where it samples nothing, as they share an engine."""
        own = self._arm(name).parity()
        known = [record for arm in self.arms.values() if (record := arm.parity()) is not None]
        steps, unequal = sum(one.steps for one in known), sum(one.unequal_bits for one in known)
        return own or (ParityRecord(steps=steps, unequal_bits=unequal) if known else None)

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
        rates = {one.label: one.rate for one in self.tuned.values()}
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


def answers(arm: Arm, split: Split) -> Runs:
    """Return every seed's answers on a split."""
    found = [one for member in arm.members if (one := member.last(split)) is not None]
    if len(found) < len(arm.members):
        raise DataError(f"a run of {arm.name} has no answers to the test split", field="cells")
    return combine(arm.name, found)


def _training(config: Config) -> Training | None:
    settings = {key: value for key, value in config.settings.items() if isinstance(value, int)}
    steps, before = config.steps, settings.get("sft_steps", 0)
    batch = settings.get("batch_size" if config.kind is Kind.SFT else "groups_per_batch")
    batch_before = settings.get("sft_batch_size") if before else 0
    if steps == 0:
        return Training(config.data.fingerprint, 0)
    if steps is None or batch is None or batch_before is None:
        return None
    return Training(config.data.fingerprint, (steps - before) * batch + before * batch_before)


def curve(label: str, name: str, lines: Mapping[str, tuple[Arm, str]]) -> CurveRecord:
    """Return metrics of arms over their steps, by name of the line: means over seeds, with the lowest and highest."""
    drawn: list[tuple[str, tuple[int, ...], tuple[Figure, ...]]] = []
    for line, (arm, key) in lines.items():
        rows = [member.run.metrics for member in arm.members]
        known = {
            step: [value for each in rows if (value := each.get(step, {}).get(key)) is not None] for step in rows[0]
        }
        found = {
            step: Figure(sum(some) / len(some), *((min(some), max(some)) if len(some) > 1 else ()))
            for step, some in known.items()
            if len(some) == len(rows)
        }
        drawn.append((line, tuple(found), tuple(found.values())))
    return CurveRecord(name=name.replace("/", "-"), label=label, axis="step", shares=True, lines=tuple(drawn))


def judged(
    claims: Sequence[Beats | Learned],
    beats: Callable[[Beats], object],
    learned: Callable[[Learned], object],
    draws: Bootstrap,
) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Judge claims by the evidence for each, and correct every family by itself."""
    found: list[tuple[Claim, ...]] = []
    gates: Sequence[Any] = ((Beats, judge_beats, beats), (Learned, judge_learned, learned))
    for kind, gate, evidence in gates:
        mine = [one for one in claims if isinstance(one, kind)]
        some = [[evidence(one) for one in mine if one.family == name] for name in dict.fromkeys(o.family for o in mine)]
        found.append(tuple(claim for family in some for claim in gate(family, draws)))
    return found[0], found[1]


def _metric(on: object) -> Metric:
    assert isinstance(on, Metric), "the study is on labels"
    return on


def standings_of(*arms: str) -> Listing:
    """Return the table of where arms, or all, stand against the baselines of their slice."""

    def rows(results: Results) -> list[list[Shown]]:
        found = results.labelled
        return standing_rows([found.arms[name] for name in arms or found.arms], found.draws.claims)

    caption = "macro-F1 on the test split, sampled, less a baseline's: a difference without any gate."
    return Listing("Against the baselines", caption, ("Baseline", apart("difference"), "Finding"), rows)
