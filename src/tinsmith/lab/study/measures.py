"""Figures of a study's finished runs: values by item and seed, gains, gaps between arms, and claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import TaskRunRecords, json_lines, read_run, read_task_run
from tinsmith.lab.runs.records import Run, Split, TaskRollout
from tinsmith.lab.study.record import ArmGain, Draws, GainsRecord, Panel
from tinsmith.lab.study.study import UNTRAINED, Arm, Beats, Learned, Measure, PerItem, Samples, Score, Study, Table
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import finite, from_estimate, over_all
from tinsmith.stats.estimates import Difference
from tinsmith.stats.gate import Beats as BeatsEvidence
from tinsmith.stats.gate import Claim, ParityRecord, Training, judge_beats, judge_learned
from tinsmith.stats.gate import Learned as LearnedEvidence
from tinsmith.stats.mean_runs import MeanRuns, exact_mean, mean_difference, shared_items, varied_difference
from tinsmith.stats.significance import holm
from tinsmith.types.errors import DataError

BEFORE: Final = 0
"""The evaluation before training."""
AFTER: Final = -1
"""The last evaluation."""
Answers = Mapping[str, Sequence[TaskRollout]]  # By item.
REWARD: Final = PerItem("reward", "reward")
C = TypeVar("C", Beats, Learned)


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """Finished runs of an arm, one a seed and evaluated on the same items, as measures read them."""

    arm: Arm
    reads: tuple[TaskRunRecords, ...]
    clusters: Callable[[str], str] | None = None  # Names what an item is learned with; None: the task's units.
    before: int = 0
    seeds_draw_items: bool = False
    """True if seeds hold out other items: then a seed's mean is one value, paired with the same seed's of others."""
    made: tuple[Any, ...] = ()  # Of an arm that stands on other runs: what was made of each.
    _answers: dict[tuple[Split, int], tuple[Answers, ...]] = field(default_factory=dict[Any, Any])

    rival_examples: ClassVar[int | None] = 0
    """Number of items that a baseline was trained on; None: as many as change anything."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its runs."""
        return tuple(one.run for one in self.reads)

    @property
    def num_items(self) -> int:
        """Number of held-out items."""
        return len(self.reads[0].task.items)

    def system(self, score: Score) -> Any:  # noqa: ANN401 - Runs of labels, MeanRuns of all else, as the gate takes both
        """Return what all seeds answer to held-out items at the end, as claims are computed from."""
        return self.per_item(item_score(score))

    def rival(self, name: str, score: Score) -> Any:  # noqa: ANN401 - likewise
        """Return what a baseline answers to them; None where that is not known."""
        known = self.baseline(name, item_score(score))
        return None if known is None else replace(known, name=f"the baseline {name}")

    def learned(self, score: Score, control: ArmRuns | None, untrained: ArmRuns | None) -> LearnedEvidence[Any]:
        """Return the evidence that something was learned, but for what all arms have alike."""
        before = self.per_item(item_score(score), BEFORE) if self.has_before and untrained is None else None
        return LearnedEvidence(
            system=self.per_item(item_score(score)),
            before=untrained.system(score) if untrained is not None else before,
            baselines=self.baselines(item_score(score)),
            control=None if control is None else control.system(score),
        )

    def baselines(self, score: PerItem) -> tuple[MeanRuns, ...]:
        """Return what the task's baselines earn on the items that the arm is scored on."""
        end = self.per_item(score)
        known = [self.baseline(one.name, score) for one in self.reads[0].task.baselines]
        own = [(one, [{k: row[k] for k in end.items if k in row} for row in one.by_seed]) for one in known if one]
        made = [MeanRuns.of(one.name, rows, end.clusters) for one, rows in own]
        return tuple(replace(one, items_are_seeds=end.items_are_seeds) for one in made)

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seeds of its runs."""
        return tuple(run.config.seed for run in self.runs)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps at which every run was evaluated."""
        found = [{one.step for one in read.sampled} for read in self.reads]
        return tuple(sorted(found[0].intersection(*found[1:])))

    @property
    def has_before(self) -> bool:
        """True if it was evaluated before its training, and after it."""
        return self.arm.on is not None or len(self.steps) > self.before + 1

    def step(self, at: int) -> int:
        """Return the step of an evaluation; raise DataError where there was none before training."""
        if at == BEFORE and not self.has_before:
            raise DataError("its runs were evaluated at their end only", field="before", value=self.arm.label)
        return self.steps[self.before if at == BEFORE else at]

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
            found = self._answers_at(step, Split.EVAL_GREEDY if greedy else Split.EVAL)
            made = [{item: Fraction(one.answers(some)) for item, some in each.items()} for each in found]
        else:
            combine, runs = one.of or exact_mean, self.reads
            exams = [next((e for e in (r.greedy if greedy else r.sampled) if e.step == step), None) for r in runs]
            found = [exam.rewards for exam in exams if exam is not None]
            if len(found) < len(exams):
                raise DataError("a run has no such evaluation", field="step", value=step)
            if not all(one.metric in rewards for rewards in found):
                known = sorted(set[str].intersection(*(set(rewards) for rewards in found)))
                raise DataError("a run has no such score", field="score", value=one.metric, allowed=known)
            values = [{item: combine(some) for item, some in each[one.metric].items()} for each in found]
            made = [{item: Fraction(value) for item, value in each.items() if math.isfinite(value)} for each in values]
            if not all(any(map(where, each)) for each in made):
                raise DataError("no item has this value", field=one.name, value=self.arm.label)
            lacks = any(len(mine) < len(each["total"]) for mine, each in zip(made, found, strict=True))
            if lacks and not self.seeds_draw_items:
                items = set[str].intersection(*(set(each["total"]) for each in found))
                return MeanRuns.some(self.arm.label, made, [one for one in items if where(one)], self._clusters(items))
        made = [{item: value for item, value in each.items() if where(item)} for each in made]
        return self._together(self.arm.label, made)

    def baseline(self, name: str, score: PerItem = REWARD) -> MeanRuns | None:
        """Return a baseline's score; None where it is not known, as of answers for which no metric is named."""
        tasks, of = [one.task.baselines for one in self.reads], score.of or exact_mean
        if score.answers is not None and score.metric == REWARD.metric:
            return None
        known = [each.exact(score.metric) for some in tasks for each in some if each.name == name]
        known = [{i: Fraction(one) for i, v in each.items() if math.isfinite(one := of([v]))} for each in known]
        if not all(known) or len(known) < len(tasks):
            return None
        return self._together(name, known if self.seeds_draw_items else known[:1])

    def _together(self, name: str, by_seed: Sequence[Mapping[str, Fraction]]) -> MeanRuns:
        if self.seeds_draw_items:
            seeds = [str(one.run.config.seed) for one in self.reads]
            means = {seed: exact_mean(list(v.values())) for seed, v in zip(seeds, by_seed, strict=True)}
            return replace(MeanRuns.of(name, [means]), items_are_seeds=True)
        return MeanRuns.of(name, by_seed, self._clusters({item for each in by_seed for item in each}))

    def _clusters(self, items: Iterable[str]) -> dict[str, str]:
        units = self.reads[0].units if self.clusters is None else {}
        return {item: units.get(item, item) if self.clusters is None else self.clusters(item) for item in items}

    def answers(self, at: int = AFTER) -> tuple[Answers, ...]:
        """Return every item's sampled answers at an evaluation, a mapping for each seed."""
        return self._answers_at(self.step(at))

    def _answers_at(self, step: int, split: Split = Split.EVAL) -> tuple[Answers, ...]:
        if (split, step) not in self._answers:
            made: list[dict[str, list[TaskRollout]]] = []
            for read in self.reads:
                found: dict[str, list[TaskRollout]] = {}
                for line in json_lines(read.run.folder / ROLLOUTS, TaskRollout, []):
                    if (line.split, line.step) == (split, step) and line.failure is None:
                        found.setdefault(line.prompt_id, []).append(line)
                lost = next((item.id for item in read.task.items if item.id not in found), None)
                if lost is not None:
                    raise DataError("every answer to an item failed", field="cells", value=f"{self.arm.label}: {lost}")
                made.append(found)
            self._answers[split, step] = tuple(made)
        return self._answers[split, step]

    def samples(self, at: int = AFTER, metric: str = "total") -> list[Samples]:
        """Return the values of every item's answers, of all seeds."""
        step = self.step(at)
        exams = [next(e for e in one.sampled if e.step == step) for one in self.reads]
        return [samples for exam in exams for samples in exam.rewards[metric].values()]

    def per_run(self, metric: str, at: int = AFTER) -> tuple[float, ...]:
        """Return a metric of an evaluation, one value a run."""
        return tuple(self._metric(metric, self.step(at)))

    def _metric(self, metric: str, step: int) -> list[float]:
        found = [one.run.metrics.get(step, {}).get(metric) for one in self.reads]
        there = [value for value in found if value is not None]
        if len(there) < len(found):
            raise DataError("a run did not measure this", field=metric, value=self.arm.label)
        return there

    def over_steps(self, metric: str) -> dict[int, float]:
        """Return the mean of an evaluation's metric over the runs, by step."""
        steps = self.steps[self.before :]
        return {step: math.fsum(found) / len(found) for step in steps if (found := self._metric(metric, step))}

    def in_training(self, metric: str) -> list[float]:
        """Return a metric of all steps of all runs that have it."""
        rows = [row for run in self.runs for row in run.metrics.values()]
        return [value for row in rows if (value := row.get(metric)) is not None]

    def runs_with(self, metric: str) -> int:
        """Return the number of runs that have a metric in some step, such as an alarm."""
        return sum(any(metric in row for row in one.run.metrics.values()) for one in self.reads)

    def trained_on(self) -> tuple[tuple[TaskRollout, ...], ...]:
        """Return the rollouts of training that did not fail, for each run."""
        runs = [json_lines(one.run.folder / ROLLOUTS, TaskRollout, []) for one in self.reads]
        return tuple(tuple(one for one in run if one.split == Split.TRAIN and one.failure is None) for run in runs)

    def setting(self, key: str, default: int = 0) -> int:
        """Return a number among the settings of the runs."""
        return int(str(self.runs[0].config.settings.get(key, default)))

    @property
    def examples(self) -> int | None:
        """Number of items that a run trains on, again where they come again; None where that is not known."""
        steps, shown = self.setting("steps"), self.setting("sft_steps")
        batch = self.setting("groups_per_batch") or self.setting("batch_size", 1)
        return (steps - shown) * batch + shown * self.setting("sft_batch_size", batch)


def read_runs(folders: Sequence[Path]) -> tuple[TaskRunRecords, ...]:
    """Read the runs of an arm, which are evaluated on the same items."""
    reads = tuple(read_task_run(read_run(folder)) for folder in folders)
    for read in reads:
        if not read.sampled:
            raise DataError("a run was never evaluated", field="cells", value=str(read.run.folder))
        if _items(read) != _items(reads[0]):
            what, fix = "runs of one study are evaluated on the same items", "hold items out by a rule, not by the seed"
            raise DataError(what, field="cells", value=str(read.run.folder), fix=fix)
    return reads


def _items(read: TaskRunRecords) -> set[tuple[str, str]]:
    return {(one.id, one.prompt) for one in read.task.items}


def parity_of(arms: Iterable[ArmRuns]) -> ParityRecord | None:
    """Return sampler against trainer over every step that samples, of all runs; None where they were never compared.

    Supervised steps sample nothing: what the other runs of a study say of its engine holds for them too.
    """
    known = {one.runs[0].folder: one for one in arms}.values()
    unequal_bits = [value for one in known for value in one.in_training("optim/unequal_logprob_bits")]
    return ParityRecord(steps=len(unequal_bits), unequal_bits=int(sum(unequal_bits))) if unequal_bits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything measured in a study."""

    study: Study
    arms: Mapping[str, ArmRuns]
    draws: Draws
    gains: Mapping[str, ArmGain] = field(default_factory=dict[str, ArmGain])
    """By arm; empty where runs were evaluated at their end only."""
    baseline: tuple[str, Figure] | None = None
    """The task's best, by name, in the study's score."""
    more_gains: tuple[GainsRecord, ...] = ()
    """In further scores."""
    figures: Mapping[str, Mapping[str, Figure | str | None]] = field(
        default_factory=dict[str, Mapping[str, Figure | str | None]]
    )
    """By arm, then by measure."""
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]

    @property
    def reported_arms(self) -> Mapping[str, ArmRuns]:
        """Arms that have gains and claims."""
        return {name: arm for name, arm in self.arms.items() if not arm.arm.is_aside}

    @property
    def reported(self) -> tuple[str, ...]:
        """Labels of the arms, but for those that are read aside."""
        return tuple(arm.arm.label for arm in self.reported_arms.values())

    @property
    def left_out(self) -> set[str]:
        """Names of the arms that the size leaves out."""
        return set(self.study.names) - self.arms.keys()

    @property
    def num_items(self) -> int:
        """Number of held-out items."""
        return max(arm.num_items for arm in self.arms.values())

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence on each arm of which rollouts failed, beside gains or expectations."""
        found: list[str] = []
        for arm in self.reported_arms.values() if self.gains or self.study.expectations else ():
            failed, score = sum(sum(one.failures.values()) for one in arm.reads), self.study.score
            if failed and arm.arm.values is None and isinstance(score, PerItem):
                end = _ends(arm, score)[1] if self.gains else arm.per_item(score)
                of = sum(map(score.where or bool, (one.id for one in arm.reads[0].task.items)))
                means = f"; its means are over {end.num_items} of {of} items" if end.num_items < of else ""
                lost = f"{failed:,} of {sum(one.rollouts for one in arm.reads):,} rollouts of {arm.arm.label} failed"
                found.append(f"{lost}{means if not arm.seeds_draw_items else ''}.")
        return tuple(found)

    def figure(self, arm: str, measure: str) -> Figure:
        """Return a figure of an arm."""
        found = self.figures[arm][measure]
        if not isinstance(found, Figure):
            raise DataError("a figure is not known", field=measure, value=arm)
        return found

    def before(self, arm: str, measure: PerItem) -> Figure:
        """Return a measure of an arm before training."""
        return estimated(self.arms[arm].per_item(measure, BEFORE), self.draws)

    def after(self, arm: str, measure: PerItem) -> Figure:
        """Return a measure of an arm after training."""
        return estimated(self.arms[arm].per_item(measure), self.draws)

    def gap(self, first: str, second: str, measure: PerItem, *, paired: bool = False) -> Figure:
        """Return the difference of one arm from another after training, over items and seeds."""
        return from_estimate(self.tested_gap(first, second, measure, paired=paired))

    def tested_gap(self, first: str, second: str, measure: PerItem, *, paired: bool = False) -> Difference:
        """Return the same difference with its test.

        Seeds of the two are drawn apart, or each run together with the other arm's run of the same seed.
        """
        one, two = (self.arms[name] for name in (first, second))
        if paired and one.seeds != two.seeds:
            what = f"{one.arm.label} and {two.arm.label} are paired by their seeds"
            raise DataError(what, field="seeds", value=two.seeds, allowed=str(one.seeds))
        return varied_difference(one.per_item(measure), two.per_item(measure), self.draws.tables, paired=paired)


def estimated(values: MeanRuns, draws: Draws) -> Figure:
    """Return a mean with its interval over seeds and clusters."""
    return from_estimate(values.estimate(draws.tables))


def _ends(arm: ArmRuns, score: PerItem, *, greedy: bool = False) -> list[MeanRuns]:
    """Return a score before and after training, on the items that have both."""
    return shared_items([arm.per_item(score, at, greedy=greedy) for at in (BEFORE, AFTER)])[0]


def gain_of(arm: ArmRuns, score: PerItem, draws: Draws, *, greedy: bool = False) -> ArmGain:
    """Return an arm's gain in a score, which is corrected for nothing."""
    before, after = _ends(arm, score, greedy=greedy)
    gap = mean_difference(after, before, draws.tables, paired=True)
    greedily = [one.mean() for one in _ends(arm, score, greedy=True)]
    return ArmGain(
        name=arm.arm.name,
        words=arm.arm.label,
        before=estimated(before, draws),
        after=estimated(after, draws),
        gain=from_estimate(gap),
        p_value=gap.p_value,
        p_holm=gap.p_value,
        greedy_before=greedily[0],
        greedy_after=greedily[1],
    )


def corrected(gains: Sequence[ArmGain]) -> tuple[ArmGain, ...]:
    """Return gains as one family, by Holm."""
    p_holm = holm([one.p_value for one in gains]) if gains else ()
    return tuple(replace(one, p_holm=p) for one, p in zip(gains, p_holm, strict=True))


def ends_of(results: Results, score: PerItem) -> Panel:
    """Return every arm before and after training, as a picture has them."""
    before = [results.before(name, score) if results.gains else None for name in results.reported_arms]
    after = [results.after(name, score) for name in results.reported_arms]
    return Panel(title=score.label, before=tuple(before), after=tuple(after))


def measure_study(study: Study, arms: Mapping[str, ArmRuns], draws: Draws) -> Results:
    """Measure finished runs, and put the study's claims to the gate."""
    first = next(iter(arms.values())).reads[0]
    for name, arm in arms.items():
        if _items(arm.reads[0]) != _items(first):
            raise DataError("arms of one study are evaluated on the same items", field="cells", value=name)
        if arm.before and not arm.has_before:
            what, allowed = "its runs have too few evaluations", f"0 to {max(len(arm.steps) - 2, 0)}"
            raise DataError(f"{name}: {what}", field="before", value=arm.before, allowed=allowed)
    shown = [one for table in study.tables if isinstance(table, Table) for one in table.measures]
    measures = [one for one in shown if isinstance(one, Measure)]
    claims = study.judged(arms)
    beats = _families(one for one in claims if isinstance(one, Beats))
    learned = _families(one for one in claims if isinstance(one, Learned))
    several = all(one.has_before for one in arms.values())
    reported = [one for one in arms.values() if several and not one.arm.is_aside]
    # Arms on labels have no figures where no table has measures.
    figured = arms if measures or isinstance(study.score, PerItem) else {}
    gains, bootstrap = [gain_of(arm, item_score(study.score), draws) for arm in reported], draws.claims
    return Results(
        study=study,
        arms=arms,
        draws=draws,
        gains={one.name: one for one in corrected(gains)},
        baseline=_best_baseline(reported[0], item_score(study.score), draws) if reported else None,
        more_gains=tuple(
            GainsRecord(score=one.label, gains=corrected([gain_of(arm, one, draws) for arm in reported]))
            for one in (study.scores if several else ())
        ),
        figures={name: {one.name: figure_of(one, arm, draws) for one in measures} for name, arm in figured.items()},
        beats=tuple(it for some in beats for it in judge_beats([_beats(study, arms, one) for one in some], bootstrap)),
        learned=tuple(
            it for some in learned for it in judge_learned([_learned(study, arms, one) for one in some], bootstrap)
        ),
    )


def figure_of(measure: Measure, arm: ArmRuns, draws: Draws) -> Figure | str | None:
    """Return a measure of an arm with its interval; None where it is not known."""
    read = measure.read(arm)
    if isinstance(read, MeanRuns):
        return estimated(read, draws)
    if isinstance(read, Sequence) and not isinstance(read, str):
        read = over_all(read) if read else None
    return read if isinstance(read, str) else finite(read)


def _best_baseline(arm: ArmRuns, score: PerItem, draws: Draws) -> tuple[str, Figure] | None:
    """Return the best of the task's baselines in a score; None where none is known."""
    best = max(arm.baselines(score), key=MeanRuns.mean, default=None)
    return None if best is None else (best.name, estimated(best, draws))


def item_score(score: Score) -> PerItem:
    """Return a score of items."""
    assert isinstance(score, PerItem), "the study is of a task"
    return score


def score_name(score: Score) -> str:
    """Return the name of a score in claims."""
    return score.label if isinstance(score, PerItem) else score.value


def _families(claims: Iterable[C]) -> list[list[C]]:
    """Return claims by their family: each is corrected by itself."""
    found: dict[str, list[C]] = {}
    for one in claims:
        found.setdefault(one.family, []).append(one)
    return list(found.values())


def _beats(study: Study, arms: Mapping[str, ArmRuns], one: Beats) -> BeatsEvidence[Any]:
    """Return the evidence that one arm ends above another, itself before training, or a baseline."""
    score, first = one.on or study.score, arms[one.first]
    on, is_arm, second = first.arm.on, one.second in arms, arms.get(one.second, first)
    mine, theirs = (_training(study, arms, name) for name in (one.first, one.second if is_arm else UNTRAINED))
    if one.baseline is not None:
        ends = first.rival(one.baseline, score)
        theirs = Training(first.runs[0].config.data.fingerprint, first.rival_examples)
        if ends is None:
            raise DataError("a baseline is not known", field="baseline", value=one.baseline)
    elif one.second == UNTRAINED:
        ends = replace(second.per_item(item_score(score), BEFORE), name="the base" if on is None else on.before)
    else:
        ends = second.system(score)
    own = [first, second] if isinstance(score, PerItem) else [first]
    return BeatsEvidence(
        first=first.system(score),
        second=ends,
        metric=score_name(score),
        same_models=one.second == UNTRAINED or (is_arm and on is not None and on is second.arm.on),
        training=None if mine is None or theirs is None else (mine, theirs),
        parity=parity_of(own) or parity_of(arms.values()),
    )


def _learned(study: Study, arms: Mapping[str, ArmRuns], one: Learned) -> LearnedEvidence[Any]:
    arm, control, score = arms[one.arm], arms.get(one.control), one.on or study.score
    evidence = arm.learned(score, control, arms.get(study.untrained))
    if control is not None and not arm.arm.shuffled_is(control.arm):
        evidence = replace(evidence, control_words=f"the control '{control.arm.label}'")
    return replace(evidence, metric=score_name(score), parity=parity_of([arm]) or parity_of(arms.values()))


def _training(study: Study, arms: Mapping[str, ArmRuns], name: str) -> Training | None:
    arm = arms[name or next(iter(arms))]
    examples = (
        0 if name in (UNTRAINED, study.untrained) else arm.examples if study.effort is None else study.effort(arm)
    )
    return None if examples is None else Training(arm.runs[0].config.data.fingerprint, examples)
