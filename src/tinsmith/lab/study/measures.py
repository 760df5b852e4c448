"""Figures of a study's finished runs: values by item and seed, gains, gaps between arms, and claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import Run, Split
from tinsmith.lab.study.labelled import Labelled
from tinsmith.lab.study.record import ArmGain, Draws, as_measure
from tinsmith.lab.study.study import (
    UNTRAINED,
    Arm,
    Beats,
    Learned,
    Listing,
    Measure,
    OnLabels,
    PerItem,
    Samples,
    Study,
    in_families,
    named_baseline,
)
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.lab.user_task.records import TaskRollout
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.claims import MeanBeats, MeanLearned, judge_beats, judge_learned
from tinsmith.stats.intervals import mean_over_seeds
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.significance import holm
from tinsmith.types.errors import DataError

BEFORE, AFTER = 0, -1
"""The evaluation before training, and the last one."""
Answers = Mapping[str, Sequence[TaskRollout]]
"""By item."""


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """Finished runs of an arm, one a seed, as measures read them."""

    arm: Arm
    read: ArmRead
    clusters: Callable[[str], str]
    before: int = 0
    seeds_draw_items: bool = False
    """True if seeds hold out other items: then a seed's mean is one value, paired with the same seed's of others."""
    made: tuple[Any, ...] = ()
    """Of an arm that stands on other runs: what was made of each."""
    _answers: dict[int, tuple[Answers, ...]] = field(default_factory=dict[int, tuple[Answers, ...]])

    def step(self, at: int) -> int:
        """Return the step of an evaluation."""
        return self.read.steps[self.before if at == BEFORE else at]

    def per_item(self, one: PerItem, at: int = AFTER, *, greedy: bool = False) -> MeanRuns:
        """Return a measure's values at an evaluation, by seed and item."""
        greedy = greedy or one.is_greedy
        if self.arm.values is not None:
            return self._together(self.arm.label, [self.arm.values(some, at, greedy) for some in self.made])
        return self.at_step(one, self.step(at), greedy=greedy)

    def at_step(self, one: PerItem, step: int, *, greedy: bool = False) -> MeanRuns:
        """Return a measure's values at a step at which all runs were evaluated."""
        where = one.where or bool  # no item has an empty name
        if one.answers is not None:
            made = [{item: one.answers(some) for item, some in each.items()} for each in self._answers_at(step)]
        else:
            combine, runs = one.of or mean, self.read.reads
            exams = [next((e for e in (r.greedy if greedy else r.sampled) if e.step == step), None) for r in runs]
            found = [exam.rewards for exam in exams if exam is not None]
            if len(found) < len(exams):
                raise DataError("a run has no such evaluation", field="step", value=step)
            if not all(one.metric in rewards for rewards in found):
                raise DataError("a run has no such score", field="score", value=one.metric)
            made = [{item: Fraction(combine(some)) for item, some in each[one.metric].items()} for each in found]
            if any(len(each[one.metric]) < len(each["total"]) for each in found) and not self.seeds_draw_items:
                asked = set[str].intersection(*(set(each["total"]) for each in found))
                clusters = {item: self.clusters(item) for item in asked}
                return MeanRuns.some(self.arm.label, made, [one for one in asked if where(one)], clusters)
        made = [{item: value for item, value in each.items() if where(item)} for each in made]
        return self._together(self.arm.label, made)

    def baseline(self, name: str, metric: str = "total") -> MeanRuns | None:
        """Return what a baseline of the task earns; None where that is not known."""
        tasks = [one.task.baselines for one in self.read.reads]
        known = [each.exact(metric) for some in tasks for each in some if each.name == name]
        if not all(known) or len(known) < len(tasks):
            return None
        return self._together(name, known if self.seeds_draw_items else known[:1])

    def _together(self, name: str, by_seed: Sequence[Mapping[str, Fraction]]) -> MeanRuns:
        if self.seeds_draw_items:
            seeds = [str(one.run.config.seed) for one in self.read.reads]
            return MeanRuns.of(name, [{seed: mean(list(v.values())) for seed, v in zip(seeds, by_seed, strict=True)}])
        return MeanRuns.of(name, by_seed, {item: self.clusters(item) for each in by_seed for item in each})

    def answers(self, at: int = AFTER) -> tuple[Answers, ...]:
        """Return every item's sampled answers at an evaluation, a mapping for each seed."""
        return self._answers_at(self.step(at))

    def _answers_at(self, step: int) -> tuple[Answers, ...]:
        if step not in self._answers:
            self._answers[step] = tuple(_answers(one.run.folder / ROLLOUTS, step) for one in self.read.reads)
            for one, found in zip(self.read.reads, self._answers[step], strict=True):
                lost = next((item.id for item in one.task.items if item.id not in found), None)
                if lost is not None:
                    raise DataError("every answer to an item failed", field="cells", value=f"{self.arm.label}: {lost}")
        return self._answers[step]

    def samples(self, at: int = AFTER, metric: str = "total") -> list[Samples]:
        """Return the values of every item's answers, of all seeds."""
        step = self.step(at)
        exams = [next(e for e in one.sampled if e.step == step) for one in self.read.reads]
        return [samples for exam in exams for samples in exam.rewards[metric].values()]

    def per_run(self, metric: str, at: int = AFTER) -> tuple[float, ...]:
        """Return a metric of an evaluation, one value a run."""
        return tuple(self._metric(metric, self.step(at)))

    def _metric(self, metric: str, step: int) -> list[float]:
        found = [one.run.metrics.get(step, {}).get(metric) for one in self.read.reads]
        there = [value for value in found if value is not None]
        if len(there) < len(found):
            raise DataError("a run did not measure this", field=metric, value=self.arm.label)
        return there

    def over_steps(self, metric: str) -> dict[int, float]:
        """Return the mean of an evaluation's metric over the runs, by step."""
        steps = self.read.steps[self.before :]
        return {step: math.fsum(found) / len(found) for step in steps if (found := self._metric(metric, step))}

    def in_training(self, metric: str) -> list[float]:
        """Return a metric of all steps of all runs that have it."""
        rows = [row for one in self.read.reads for row in one.run.metrics.values()]
        return [value for row in rows if (value := row.get(metric)) is not None]

    def runs_with(self, metric: str) -> int:
        """Return the number of runs that have a metric in some step, such as an alarm."""
        return sum(any(metric in row for row in one.run.metrics.values()) for one in self.read.reads)

    def trained_on(self) -> tuple[tuple[TaskRollout, ...], ...]:
        """Return the rollouts of training that did not fail, for each run."""
        return tuple(
            tuple(
                line
                for line in json_lines(one.run.folder / ROLLOUTS, TaskRollout, [])
                if line.split == Split.TRAIN and line.failure is None
            )
            for one in self.read.reads
        )

    def setting(self, key: str, default: int = 0) -> int:
        """Return a number among the settings of the runs."""
        return int(str(self.read.reads[0].run.config.settings.get(key, default)))

    @property
    def examples(self) -> int:
        """Number of items that a run trains on, again where they come again."""
        steps, shown = self.setting("steps"), self.setting("sft_steps")
        batch = self.setting("groups_per_batch") or self.setting("batch_size", 1)
        return (steps - shown) * batch + shown * self.setting("sft_batch_size", batch)


def examples_of(arm: ArmRuns) -> int:
    """Return the number of items that an arm trains on."""
    return arm.examples


def mean(samples: Samples) -> Fraction:
    """Return the mean of an item's answers."""
    return sum(samples, Fraction()) / len(samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything measured in a study."""

    study: Study
    arms: Mapping[str, ArmRuns]
    draws: Draws
    gains: Mapping[str, ArmGain]
    """By arm; empty where runs were evaluated at their end only."""
    more_gains: Mapping[str, tuple[ArmGain, ...]]
    """By the label of a further score."""
    figures: Mapping[str, Mapping[str, Figure | str | None]]
    """By arm, then by measure."""
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]
    labels: Labelled | None = None
    """Of a study on labels, whose arms these are instead."""

    @property
    def labelled(self) -> Labelled:
        """Everything of a study on labels."""
        assert self.labels is not None, "its arms are experiments on labels"
        return self.labels

    @property
    def runs(self) -> Mapping[str, Sequence[Run]]:
        """Finished runs, by arm."""
        if self.labels is not None:
            return {name: [one.run for one in arm.members] for name, arm in self.labels.arms.items()}
        return {name: [one.run for one in arm.read.reads] for name, arm in self.arms.items()}

    @property
    def reported(self) -> tuple[str, ...]:
        """Labels of the arms, but for those that are read aside."""
        if self.labels is not None:
            return tuple(arm.name for arm in self.labels.arms.values())
        return tuple(arm.arm.label for arm in self.arms.values() if not arm.arm.is_aside)

    @property
    def num_items(self) -> int:
        """Number of held-out items."""
        if self.labels is not None:
            return max((one.num_items for one in self.labels.systems.values()), default=0)
        return len(next(iter(self.arms.values())).read.reads[0].task.items)

    def figure(self, arm: str, measure: str) -> Figure:
        """Return a figure of an arm."""
        found = self.figures[arm][measure]
        if not isinstance(found, Figure):
            raise DataError("a figure is not known", field=measure, value=arm)
        return found

    def after(self, arm: str, measure: PerItem) -> Figure:
        """Return a measure of an arm after training."""
        return estimated(self.arms[arm].per_item(measure), self.draws)

    def gap(self, first: str, second: str, measure: PerItem) -> Figure:
        """Return the difference of one arm from another after training, over seeds and items."""
        mine, other = (self.arms[name].per_item(measure) for name in (first, second))
        return as_measure(mean_difference(mine, other, self.draws.tables))


def gain_of(
    named: tuple[str, str], sampled: tuple[MeanRuns, MeanRuns], greedy: tuple[float, float], draws: Bootstrap
) -> ArmGain:
    """Return a gain that is corrected for nothing.

    Args:
        named: the arm's name, and what it is called on the page.
        sampled: what items earned before and after, by the same runs.
        greedy: the means where the likeliest answer was taken.
        draws: how intervals are drawn.
    """
    before, after = sampled
    gap = mean_difference(after, before, draws, same_models=True)
    return ArmGain(
        name=named[0],
        words=named[1],
        before=from_estimate(before.estimate(draws)),
        after=from_estimate(after.estimate(draws)),
        gain=as_measure(gap),
        p_value=gap.p_value,
        p_holm=gap.p_value,
        greedy_before=greedy[0],
        greedy_after=greedy[1],
    )


def corrected(gains: Sequence[ArmGain]) -> tuple[ArmGain, ...]:
    """Return gains as one family, by Holm."""
    p_holm = holm([one.p_value for one in gains])
    return tuple(replace(one, p_holm=p) for one, p in zip(gains, p_holm, strict=True))


def estimated(values: MeanRuns, draws: Draws) -> Figure:
    """Return a mean with its interval over seeds and clusters."""
    return from_estimate(values.estimate(draws.tables))


def measure_labels(study: Study, labels: Labelled) -> Results:
    """Put the claims of a study on labels to the gate."""
    beats, learned = labels.judged(study)
    return Results(
        study=study,
        arms={},
        draws=labels.draws,
        gains={},
        more_gains={},
        figures={},
        beats=beats,
        learned=learned,
        labels=labels,
    )


def measure_study(study: Study, arms: Mapping[str, ArmRuns], draws: Draws) -> Results:
    """Measure finished runs, and put the study's claims to the gate."""
    _require_same_items(arms)
    measures = [
        one
        for table in study.tables
        if not isinstance(table, Listing)
        for one in table.measures
        if isinstance(one, Measure)
    ]
    judged = [one for one in study.judged(arms) if _names(one) <= arms.keys() | {UNTRAINED}]
    gate, score = _Gate(study, arms, draws), item_score(study.score)
    told = {name: one for name, one in arms.items() if not one.arm.is_aside}
    several = all(one.arm.on is not None or len(one.read.steps) > one.before + 1 for one in arms.values())
    return Results(
        study=study,
        arms=arms,
        draws=draws,
        gains={one.name: one for one in _gains(score, told, draws)} if several else {},
        more_gains={one.label: _gains(one, told, draws) for one in study.scores} if several else {},
        figures={name: {one.name: figure_of(one, arm, draws) for one in measures} for name, arm in arms.items()},
        beats=in_families([one for one in judged if isinstance(one, Beats)], gate.judge_beats),
        learned=in_families([one for one in judged if isinstance(one, Learned)], gate.judge_learned),
    )


def _require_same_items(arms: Mapping[str, ArmRuns]) -> None:
    asked = {name: {(item.id, item.prompt) for item in one.read.reads[0].task.items} for name, one in arms.items()}
    first = next(iter(asked.values()))
    for name, items in asked.items():
        if items != first:
            raise DataError("arms of one study are evaluated on the same items", field="cells", value=name)


def figure_of(measure: Measure, arm: ArmRuns, draws: Draws) -> Figure | str | None:
    """Return a measure of an arm with its interval; None where it is not known."""
    read = measure.read(arm)
    if read is None or isinstance(read, Figure | str):
        return read
    if isinstance(read, MeanRuns):
        return estimated(read, draws)
    if isinstance(read, int | float):
        return Figure(float(read))
    value, interval = mean_over_seeds(list(read))
    return Figure(value) if interval is None else Figure(value, interval.low, interval.high)


def item_score(score: PerItem | OnLabels) -> PerItem:
    """Return a score of items."""
    assert isinstance(score, PerItem), "the study is of a task"
    return score


def _names(one: Beats | Learned) -> set[str]:
    if isinstance(one, Learned):
        return {one.arm, one.control} - {""}
    return {one.first} if named_baseline(one.second) is not None else {one.first, one.second}


def _gains(score: PerItem, arms: Mapping[str, ArmRuns], draws: Draws) -> tuple[ArmGain, ...]:
    found = [
        gain_of(
            (name, arm.arm.label),
            (arm.per_item(score, BEFORE), arm.per_item(score)),
            (arm.per_item(score, BEFORE, greedy=True).mean(), arm.per_item(score, greedy=True).mean()),
            draws.tables,
        )
        for name, arm in arms.items()
    ]
    return corrected(found)


@dataclass(frozen=True, slots=True)
class _Gate:
    """Evidence for the claims of a study."""

    study: Study
    arms: Mapping[str, ArmRuns]
    draws: Draws

    def judge_beats(self, claims: Sequence[Beats]) -> Sequence[Claim]:
        """Judge a family of claims that arms end above others."""
        return judge_beats([self.beats(one) for one in claims], self.draws.claims)

    def judge_learned(self, claims: Sequence[Learned]) -> Sequence[Claim]:
        """Judge a family of claims that arms learned something."""
        return judge_learned([self.learned(one) for one in claims], self.draws.claims)

    def beats(self, one: Beats) -> MeanBeats:
        """Return the evidence that one arm ends above another."""
        score, first = item_score(one.on or self.study.score), self.arms[one.first]
        beaten = named_baseline(one.second)
        if beaten is not None:
            return self._beats_baseline(first, beaten, score)
        untrained = one.second == UNTRAINED
        second = first if untrained else self.arms[one.second]
        ends = second.per_item(score, BEFORE if untrained else AFTER)
        on = first.arm.on
        return MeanBeats(
            first=first.per_item(score),
            second=replace(ends, name="the base" if on is None else on.before) if untrained else ends,
            metric=score.label,
            same_models=untrained or (on is not None and on is second.arm.on),
            training=(self._training(one.first), self._training(one.second if not untrained else UNTRAINED)),
            parity=self._parity([first, second]),
        )

    def _beats_baseline(self, first: ArmRuns, name: str, score: PerItem) -> MeanBeats:
        found = first.baseline(name, score.metric)
        if found is None:
            raise DataError("a baseline is not known", field="baseline", value=name)
        return MeanBeats(
            first=first.per_item(score),
            second=replace(found, name=f"the baseline {name}"),
            metric=score.label,
            training=(self._training(first.arm.name), self._training(UNTRAINED)),
            parity=self._parity([first]),
        )

    def learned(self, one: Learned) -> MeanLearned:
        """Return the evidence that an arm learned something."""
        arm, score = self.arms[one.arm], item_score(one.on or self.study.score)
        end = arm.per_item(score)
        untrained = self.study.untrained
        known = [arm.baseline(each.name, score.metric) for each in arm.read.reads[0].task.baselines]
        return MeanLearned(
            system=end,
            metric=score.label,
            before=self.arms[untrained].per_item(score) if untrained else arm.per_item(score, BEFORE),
            baselines=tuple(
                MeanRuns.of(each.name, [{item: row[item] for item in end.items} for row in each.by_seed], end.clusters)
                for each in known
                if each is not None
            ),
            control=self.arms[one.control].per_item(score) if one.control else None,
            control_words=self.study.control_label,
            parity=self._parity([arm]),
        )

    def _training(self, name: str) -> Training:
        arm = self.arms[name or next(iter(self.arms))]
        count = self.study.effort or examples_of
        examples = 0 if name in (UNTRAINED, self.study.untrained) else count(arm)
        return Training(arm.read.reads[0].run.config.data.fingerprint, examples)

    def _parity(self, arms: Sequence[ArmRuns]) -> ParityRecord | None:
        """Return sampler against trainer; what other runs say of the engine holds for those that sample nothing."""
        return parity_of(_reads(arms)) or parity_of(_reads(self.arms.values()))


def _reads(arms: Iterable[ArmRuns]) -> list[ArmRead]:
    """Return the runs that arms stand on, each once."""
    return list({one.read.reads[0].run.folder: one.read for one in arms}.values())


def _answers(file: Path, step: int) -> Answers:
    found: dict[str, list[TaskRollout]] = {}
    for line in json_lines(file, TaskRollout, []):
        if (line.split, line.step) == (Split.EVAL, step) and line.failure is None:
            found.setdefault(line.prompt_id, []).append(line)
    return found
