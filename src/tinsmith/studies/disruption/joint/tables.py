"""How often both labels of a run's answers are right, beside independence, constants and the slice's baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, prod

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.labels.answers import Outcome
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.runs.records import SPLIT_WORDS, Split
from tinsmith.pages.measures import BOOTSTRAP, Measure, from_estimate
from tinsmith.pages.tables import RowKind, Table, TableRow, absent, column, measured, text, whole
from tinsmith.stats.evaluation import Agreement, Answered, Evaluation, Evaluations
from tinsmith.stats.intervals import wilson
from tinsmith.studies.disruption.joint.gathering import JointRun

_TESTS = (Split.TEST, Split.TEST_GREEDY, Split.TEST_LAST, Split.TEST_LAST_GREEDY)
_EVALUATIONS = (Split.EVAL, Split.EVAL_GREEDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """How often both labels are right, for one system on the same papers."""

    name: str
    what: str
    evaluation: Evaluations
    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The pair of labels that would be right most often if it were said of every paper."""

    labels: tuple[str, ...]
    right: Measure


def models_of(read: JointRun) -> list[Both]:
    """Return the run's systems on the test split, or those of its last validation where it has none."""
    splits = _TESTS if read.last(Split.TEST) is not None else _EVALUATIONS
    found: list[Both] = []
    for split in splits:
        evaluation = read.last(split)
        if evaluation is not None:
            words = SPLIT_WORDS[split]
            found.append(_both(words[0].upper() + words[1:], "", evaluation))
    return found


def baselines_of(read: JointRun) -> list[Both]:
    """Return the slice's baselines, each for both labels, on the papers that were tested."""
    tested = read.last(Split.TEST)
    if tested is None:
        return []
    found: list[Both] = []
    for baseline in Baseline:
        tasks = {
            name: answered
            for name, member in read.tasks.items()
            if (answered := _answered(tested.tasks[name], member.run.baseline_answers.get(baseline, {})))
        }
        if len(tasks) == len(read.tasks):
            found.append(_both(*BASELINE_WORDS[baseline], Evaluations(tasks)))
    return found


def best_constant(evaluation: Evaluations) -> Constant:
    """Return the best constant answer, chosen on the very papers it is scored on: no constant can be better."""
    golds = _golds(evaluation)
    labels, count = max(Counter(golds).items(), key=lambda each: (each[1], each[0]))
    interval = wilson(count, len(golds))
    return Constant(labels=labels, right=Measure(count / len(golds), interval.low, interval.high))


def prior_guess(read: JointRun) -> float | None:
    """Return how often a guess by the training shares has both right; None: the shares are not known."""
    tested = read.last(Split.TEST)
    shares: list[Mapping[str, float]] = []
    for member in read.tasks.values():
        report = member.run.baselines
        if report is None or tested is None:
            return None
        total = sum(report.train.values())
        shares.append({label: count / total for label, count in report.train.items()})
    assert tested is not None
    golds = _golds(tested)
    chances = [prod(each[label] for each, label in zip(shares, labels, strict=True)) for labels in golds]
    return fsum(chances) / len(golds)


def both_table(
    models: list[Both], baselines: list[Both], constant: Constant | None, prior: float | None
) -> Table | None:
    """Return the table; None where nothing was evaluated."""
    if not models:
        return None
    names = list(models[0].evaluation.tasks)
    rows = [_row(one, chosen=place == 0) for place, one in enumerate(models)]
    rows.append(TableRow(name=text("Without a model, on the same papers"), kind=RowKind.GROUP))
    blank = [absent("n/a") for _ in range(2 + len(names))]
    if constant is not None:
        said = f"always {' and '.join(constant.labels)}, chosen in hindsight"
        cells = (whole(models[0].evaluation.num_items), measured(constant.right), *blank)
        rows.append(TableRow(name=text("Best constant pair", said), cells=cells))
    if prior is not None:
        said = "a guess by the training shares, label by label; expected value"
        cells = (whole(models[0].evaluation.num_items), measured(Measure(prior)), *blank)
        rows.append(TableRow(name=text("Prior", said), cells=cells))
    rows += [_row(one, chosen=False) for one in baselines]
    if not baselines:
        rows.append(
            TableRow(
                name=text("Constant, metadata only, TF-IDF"),
                remark="their answers were not kept, or the test split was not reached",
            )
        )
    return Table(
        caption="Each figure stands above its 95 % interval. If independent: the product of the shares of right "
        "answers for either label; the difference is above zero where the two tend to be right on the same papers.",
        heads=(
            text("System"),
            column("n"),
            column("both right"),
            column("if independent"),
            column("difference"),
            *(column("label_match", name) for name in names),
        ),
        rows=tuple(rows),
    )


def _row(both: Both, *, chosen: bool) -> TableRow:
    found = both.agreement
    alone = [from_estimate(one.estimates(BOOTSTRAP)["label_match"]) for one in both.evaluation.tasks.values()]
    estimates = (found.exact_match, found.independent, found.difference)
    return TableRow(
        name=text(both.name, both.what),
        cells=(
            whole(both.evaluation.num_items),
            *(measured(from_estimate(one)) for one in estimates),
            *(measured(one) for one in alone),
        ),
        kind=RowKind.CHOSEN if chosen else RowKind.PLAIN,
    )


def _both(name: str, what: str, evaluation: Evaluations) -> Both:
    agreement = evaluation.agreement(BOOTSTRAP)
    return Both(name=name, what=what, evaluation=evaluation, agreement=agreement)


def _answered(tested: Evaluation, said: Mapping[str, str]) -> Evaluation | None:
    """Return what a baseline answers to the papers that were tested; None where it left one out."""
    if any(one.item not in said for one in tested.answers):
        return None
    answers = tuple(
        Answered(item=one.item, gold=one.gold, predicted=said[one.item], outcome=Outcome.OK.value, parse_ok=True)
        for one in tested.answers
    )
    return Evaluation(tested.labels, answers)


def _golds(evaluation: Evaluations) -> list[tuple[str, ...]]:
    columns = [[answer.gold for answer in one.answers] for one in evaluation.tasks.values()]
    return list(zip(*columns, strict=True))
