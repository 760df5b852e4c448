"""Fitting of all baselines of a slice on its training split, and their scores on its test split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tinsmith.data.baselines.answers import BASELINE_ANSWERS, AnswersRow, write_answers
from tinsmith.data.baselines.models import Metadata, Texts, boosted, linear
from tinsmith.data.baselines.report import Baseline, BaselineReport, BaselineScore, Figure, TargetReport, write_report
from tinsmith.data.baselines.scores_by_row import (
    CONFIDENCE,
    RESAMPLES,
    Figures,
    figures,
    interval,
    prior_figures,
    resampled,
)
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.replacing import replacing
from tinsmith.data.slices.card import BASELINES
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.settings import Task
from tinsmith.data.slices.splits import Split
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.seeds import derive

TRAIN_ROWS = 50_000
"""Default number of training rows; more hardly change a linear model on words."""


def run_baselines(
    source: Slice, *, seed: int = 0, train_rows: int = TRAIN_ROWS, progress: Progress | None = None
) -> BaselineReport:
    """Fit and score all baselines of `source`, and save them to its `baselines.json`.

    Each answer to each test paper is written to `baseline_answers.jsonl` beside it.

    The first `train_rows` of the training split are used. One thread, fixed seeds: the same slice
    gives the same report.

    Raises:
        ConfigError: `train_rows` is below 1.
        DataError: a split is empty, or the training split has a single class.
    """
    if train_rows < 1:
        raise ConfigError("the baselines need rows to train on", field="train_rows", value=train_rows)
    train = list(islice(source.rows(Split.TRAIN), train_rows))
    test = list(source.rows(Split.TEST))
    for split, rows in ((Split.TRAIN, train), (Split.TEST, test)):
        if not rows:
            raise DataError(f"the {split} split has no rows", fix="cut a larger slice: tinsmith data slice ...")
    causes = _causes(source, len(train))
    task = source.card.settings.task
    targets = (Task.DISRUPTION, Task.NOVELTY) if task is Task.JOINT else (task,)
    progress = progress or Silent()
    progress.begin("fitting baselines", 1 + len(targets) * len(Baseline))
    with threadpool_limits(1):
        texts = Texts.learn(train)
        progress.advance()
        fitted = [_fit(_Material(target, train, test, texts, causes, seed), progress) for target in targets]
    # The report is renamed last: it names the answers by their hash, so they must exist first.
    with replacing(source.folder / BASELINES) as part, replacing(source.folder / BASELINE_ANSWERS) as answers:
        write_answers((row for each in fitted for row in each.rows(test)), answers)
        report = BaselineReport(
            slice_sha256=source.card.sha256,
            seed=seed,
            train_rows=len(train),
            train_rows_available=source.card.splits[Split.TRAIN].rows,
            resamples=RESAMPLES,
            confidence=CONFIDENCE,
            targets=[each.report for each in fitted],
            answers_sha256=file_sha256(answers),
        )
        write_report(report, part)
    return report


def _causes(source: Slice, train_rows: int) -> tuple[pl.Series, pl.Series] | None:
    """Return the causes of the training and the test rows; None unless the world is synthetic."""
    frame = source.metrics("split", "cause")
    if frame["cause"].null_count():
        return None
    train = frame.filter(pl.col("split") == Split.TRAIN.value)["cause"].head(train_rows)
    return train, frame.filter(pl.col("split") == Split.TEST.value)["cause"]


@dataclass(frozen=True, slots=True, eq=False)
class _Material:
    """Input of all baselines for one label."""

    target: Task
    train: Sequence[PaperRow]
    test: Sequence[PaperRow]
    texts: Texts | None
    causes: tuple[pl.Series, pl.Series] | None
    seed: int

    def gold(self, rows: Sequence[PaperRow]) -> NDArray[np.int64]:
        """Return the rows' classes, (n,)."""
        place = {label: code for code, label in enumerate(self.target.classes)}
        labels = ((row.novelty_label if self.target is Task.NOVELTY else row.disruption_label) for row in rows)
        codes = [-1 if label is None else place[label.value] for label in labels]
        if -1 in codes:
            raise DataError(f"row {codes.index(-1) + 1} has no {self.target} label")
        return np.array(codes, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """Results of all baselines for one label."""

    report: TargetReport
    predicted: dict[Baseline, NDArray[np.int64]]
    """Classes of the test rows, (n,), of the baselines that decide paper by paper."""

    def rows(self, test: Sequence[PaperRow]) -> Iterator[AnswersRow]:
        """Yield the answers to each test paper, in the order of the split."""
        for place, paper in enumerate(test):
            answers = {
                baseline: self.report.classes[self.predicted[baseline][place]]
                for baseline in Baseline
                if baseline in self.predicted
            }
            yield AnswersRow(target=self.report.target, id=paper.openalex_id, answers=answers)


def _fit(material: _Material, progress: Progress) -> _Fitted:
    classes = list(material.target.classes)
    train, test = material.gold(material.train), material.gold(material.test)
    counts = np.bincount(train, minlength=len(classes))
    if np.count_nonzero(counts) < 2:
        raise DataError(
            "all training rows have one label, so there is nothing to learn",
            field=str(material.target),
            value=classes[int(counts.argmax())],
            fix="cut the slice with another --cut, or with --per-class",
        )
    metadata = Metadata.learn(material.train)
    left_out = dict(metadata.left_out)
    if not metadata.names:
        left_out[Baseline.METADATA.value] = "the rows have neither year, citations nor field"
        left_out[Baseline.BOTH.value] = left_out[Baseline.METADATA.value]
    if material.texts is None:
        left_out[Baseline.TEXT.value] = "the training texts have no words in common"
        left_out[Baseline.BOTH.value] = left_out[Baseline.TEXT.value]
    if material.causes is None:
        left_out[Baseline.ORACLE.value] = "the papers have no known cause: not a synthetic world"
    scores = [_prior(test, counts, classes, _seed(material, Baseline.PRIOR))]
    answers: dict[Baseline, NDArray[np.int64]] = {}
    for baseline, predicted in _predictions(material, metadata, train, counts):
        answers[baseline] = predicted
        confusion = np.zeros((len(classes), len(classes)))
        np.add.at(confusion, (test, predicted), 1)
        occurs = confusion.sum(1) > 0
        spread = figures(resampled(confusion, _seed(material, baseline)), occurs)
        exact = figures(confusion[None], occurs)
        scores.append(_score(baseline, exact, spread, confusion, classes))
        progress.advance()
    progress.advance(len(Baseline) - len(scores) + 1)  # the prior, and left-out baselines
    order = list(Baseline)
    report = TargetReport(
        target=material.target.value,
        classes=classes,
        train={name: int(count) for name, count in zip(classes, counts, strict=True)},
        scores=sorted(scores, key=lambda score: order.index(score.baseline)),
        left_out=left_out,
    )
    return _Fitted(report, answers)


def _seed(material: _Material, baseline: Baseline) -> int:
    return derive(material.seed, "baselines", material.target.value, baseline.value)


def _predictions(
    material: _Material, metadata: Metadata, gold: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterator[tuple[Baseline, NDArray[np.int64]]]:
    """Yield each fitted baseline's classes for the test rows, (n,)."""
    train, test, texts = material.train, material.test, material.texts
    yield Baseline.MAJORITY, np.full(len(test), counts.argmax())
    if metadata.names:
        yield Baseline.METADATA, boosted(metadata, train, gold, test)
    if texts is not None:
        yield Baseline.TEXT, linear(texts, None, train, gold, test)
    if texts is not None and metadata.names:
        yield Baseline.BOTH, linear(texts, metadata, train, gold, test)
    if material.causes is not None:
        yield Baseline.ORACLE, _oracle(*material.causes, gold, counts)


def _oracle(train: pl.Series, test: pl.Series, gold: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Predict for each cause the most frequent class of its training papers."""
    causes = train.to_numpy()
    best = {
        cause: int(np.bincount(gold[causes == cause], minlength=len(counts)).argmax())
        for cause in sorted(set(train.to_list()))
    }
    return np.array([best.get(cause, int(counts.argmax())) for cause in test.to_list()], np.int64)


def _prior(test: NDArray[np.int64], counts: NDArray[np.int64], classes: list[str], seed: int) -> BaselineScore:
    gold = np.bincount(test, minlength=len(classes))
    shares = counts / counts.sum()
    expected = gold[:, None] * shares[None, :]
    spread = figures(resampled(expected, seed), gold > 0)
    return _score(Baseline.PRIOR, prior_figures(gold, shares), spread, expected, classes)


def _score(
    baseline: Baseline, exact: Figures, spread: Figures, confusion: NDArray[np.float64], classes: list[str]
) -> BaselineScore:
    def figure(value: NDArray[np.float64], resamples: NDArray[np.float64]) -> Figure:
        return Figure(float(value[0]), *interval(resamples))

    return BaselineScore(
        baseline=baseline,
        n=round(float(confusion.sum())),
        accuracy=figure(exact.accuracy, spread.accuracy),
        macro_f1=figure(exact.macro_f1, spread.macro_f1),
        min_class_recall=figure(exact.min_recall, spread.min_recall),
        recall={
            name: figure(exact.recall[:, k], spread.recall[:, k])
            for k, name in enumerate(classes)
            if confusion[k].sum() > 0
        },
        confusion={name: dict(zip(classes, confusion[k].tolist(), strict=True)) for k, name in enumerate(classes)},
    )
