"""Runs on two labels: each label as a run on it alone, and how often both are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import fsum, prod
from typing import Final

import msgspec

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.labels.answers import Outcome
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.results.arms import Member
from tinsmith.lab.results.gathering import gather
from tinsmith.lab.results.rivals import BASELINE_WORDS
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_baselines
from tinsmith.lab.runs.records import SPLIT_WORDS, Row, Run, Split
from tinsmith.pages.measures import BOOTSTRAP, Measure, from_estimate
from tinsmith.stats.evaluation import Answered, Evaluation, Evaluations
from tinsmith.stats.intervals import wilson

BOTH_HEADS: Final = ("n", "both right", "if independent", "difference")
_TESTS = (Split.TEST, Split.TEST_GREEDY, Split.TEST_LAST, Split.TEST_LAST_GREEDY)
_EVALUATIONS = (Split.EVAL, Split.EVAL_GREEDY)
Shown = Measure | str | None


def members_of(run: Run) -> dict[str, Member]:
    """Return what a run says of each of its labels."""
    if run.config.kind is not Kind.JOINT:
        return {run.config.task.name: Member(run=run, gathered=gather(run))}
    return {subject.value: label_alone(run, subject) for subject in Subject}


def label_alone(run: Run, subject: Subject) -> Member:
    """Return one label of a run on two, under the names of a run on it alone."""
    name, notes = subject.value, list(run.notes)
    task = msgspec.structs.replace(run.config.task, name=name, labels=subject.labels)
    config = msgspec.structs.replace(run.config, kind=Kind.RL, task=task)
    baselines, answers = read_baselines(run.folder, config, notes)
    alarms = tuple(alarm for alarm in run.alarms if alarm.task == name)
    view = replace(
        run,
        config=config,
        manifest=run.manifest and msgspec.structs.replace(run.manifest, alarms=alarms),
        metrics={step: _row(row, name) for step, row in run.metrics.items()},
        baselines=baselines,
        baseline_answers=answers,
        notes=tuple(notes),
    )
    return Member(run=view, gathered=gather(view, name), two_labels=True)


def _row(row: Row, task: str) -> Row:
    """Return a step's metrics as they would be of one task: `eval/TASK/name` as `eval/name`, others' left out."""
    others = {subject.value for subject in Subject}
    kept: dict[str, float | None] = {}
    for key, value in row.items():
        group, _, rest = key.partition("/")
        named, _, inner = rest.partition("/")
        if group == "alarm":  # `alarm/KIND/TASK/label`
            of, _, label = inner.partition("/")
            if of == task:
                kept["/".join(part for part in (group, named, label) if part)] = value
        elif named == task:
            kept[f"{group}/{inner}"] = value
        elif named not in others and f"{group}/{task}/{rest}" not in row:
            kept[key] = value
    return kept


def last_of_both(members: Mapping[str, Member], split: Split) -> Evaluations | None:
    """Return the last evaluation on a split, of all labels together."""
    found = {name: one.gathered.evaluations for name, one in members.items()}
    scored = set[tuple[str, int]].intersection(*(set(each) for each in found.values()))
    steps = [step for name, step in scored if name == split]
    return Evaluations({name: each[split, max(steps)] for name, each in found.items()}) if steps else None


def both_rows(members: Mapping[str, Member]) -> list[list[Shown]]:
    """Return how often all labels are right: of the run, of constants, of the prior and of the slice's baselines."""
    tested = last_of_both(members, Split.TEST)
    splits = _TESTS if tested is not None else _EVALUATIONS
    known = {split: one for split in splits if (one := last_of_both(members, split)) is not None}
    rows = [_scored(f"{SPLIT_WORDS[split][:1].upper()}{SPLIT_WORDS[split][1:]}", one) for split, one in known.items()]
    first = next(iter(known.values()), None)
    if first is not None:
        blank = ["n/a"] * (2 + len(members))
        golds = _golds(first)
        # Chosen on the very papers it is scored on: no constant can be better.
        labels, count = max(Counter(golds).items(), key=lambda each: (each[1], each[0]))
        ends = wilson(count, len(golds))
        right = Measure(count / len(golds), ends.low, ends.high)
        name = f"Best constant pair|always {' and '.join(labels)}, chosen in hindsight"
        rows.append([name, f"{len(golds):,}", right, *blank])
        prior = None if tested is None else _prior(members, golds)
        if prior is not None:
            name = "Prior|a guess by the training shares, label by label; expected value"
            rows.append([name, f"{len(golds):,}", Measure(prior), *blank])
    for baseline in Baseline if tested is not None else ():
        said = {name: one.run.baseline_answers.get(baseline, {}) for name, one in members.items()}
        answered = {name: _answered(one, said[name]) for name, one in (tested.tasks if tested else {}).items()}
        whole = {name: one for name, one in answered.items() if one is not None}
        if len(whole) == len(members):
            rows.append(_scored("|".join(BASELINE_WORDS[baseline]), Evaluations(whole)))
    return rows


def _scored(name: str, one: Evaluations) -> list[Shown]:
    found = one.agreement(BOOTSTRAP)
    alone = [each.estimates(BOOTSTRAP)["label_match"] for each in one.tasks.values()]
    figures = (found.exact_match, found.independent, found.difference, *alone)
    return [name, f"{one.num_items:,}", *map(from_estimate, figures)]


def _prior(members: Mapping[str, Member], golds: list[tuple[str, ...]]) -> float | None:
    """Return how often a guess by the training shares has all right; None: the shares are not known."""
    reports = [one.run.baselines for one in members.values()]
    shares = [{k: v / sum(one.train.values()) for k, v in one.train.items()} for one in reports if one]
    if len(shares) < len(reports):
        return None
    return fsum(prod(each[one] for each, one in zip(shares, some, strict=True)) for some in golds) / len(golds)


def _answered(tested: Evaluation, said: Mapping[str, str]) -> Evaluation | None:
    """Return what a baseline answers to the papers that were tested; None where it left one out."""
    if any(one.item not in said for one in tested.answers):
        return None
    answers = (
        Answered(item=one.item, gold=one.gold, predicted=said[one.item], outcome=Outcome.OK.value, parse_ok=True)
        for one in tested.answers
    )
    return Evaluation(tested.labels, tuple(answers))


def _golds(evaluation: Evaluations) -> list[tuple[str, ...]]:
    return list(zip(*([answer.gold for answer in one.answers] for one in evaluation.tasks.values()), strict=True))
