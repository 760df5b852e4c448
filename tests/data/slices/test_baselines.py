"""The baselines of a slice: who sees what, what is left out, and the same bytes every time."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import labelled_corpus, labelled_frames, write_corpus
from sklearn.metrics import accuracy_score, f1_score, recall_score

from tinsmith.data.baselines.answers import BASELINE_ANSWERS, read_answers
from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.baselines.report import Baseline, BaselineScore, TargetReport, read_report
from tinsmith.data.baselines.scores_by_row import figures, interval, prior_figures, resampled
from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.lab.labels.objectives import ShareTable
from tinsmith.stats.rates import Confusion, Metric
from tinsmith.types.errors import DataError

pytestmark = pytest.mark.whole


SETTINGS = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=200)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 1000)


def _slice(corpus: Corpus, out: Path, settings: SliceSettings = SETTINGS) -> Slice:
    make_slice(corpus, settings, out)
    return Slice.open(out)


def _scores(target: TargetReport) -> dict[Baseline, BaselineScore]:
    return {score.baseline: score for score in target.scores}


def test_baselines_see_what_they_may_and_rank_as_they_must(corpus: Corpus, tmp_path: Path) -> None:
    source = _slice(corpus, tmp_path)
    report = run_baselines(source)
    (target,) = report.targets
    scores = _scores(target)
    assert list(scores) == list(Baseline)
    assert target.left_out == {}
    value = {name: score.macro_f1.value for name, score in scores.items()}
    assert value[Baseline.MAJORITY] < value[Baseline.PRIOR] < 0.4
    assert value[Baseline.ORACLE] > value[Baseline.TEXT] > 0.6
    assert value[Baseline.METADATA] > 0.5
    assert value[Baseline.BOTH] > value[Baseline.METADATA]
    gold = Counter(str(row.disruption_label) for row in source.rows(Split.TEST))
    for score in scores.values():
        assert score.n == sum(gold.values())
        for name in target.classes:
            assert sum(score.confusion[name].values()) == pytest.approx(gold[name])
        for figure in (score.accuracy, score.macro_f1, score.min_class_recall):
            assert figure.low <= figure.value <= figure.high
        least = min(score.recall[name].value for name in target.classes)
        if score.baseline is not Baseline.PRIOR:  # its least recall is an expectation of a least
            assert score.min_class_recall.value == least


def test_majority_and_oracle_by_hand(corpus: Corpus, tmp_path: Path) -> None:
    source = _slice(corpus, tmp_path, replace(SETTINGS, per_class=None))
    scores = _scores(run_baselines(source).targets[0])
    train, test = (
        source.metrics("split", "cause", "disruption_label")
        .filter(pl.col("split") == split.value)
        .select("cause", "disruption_label")
        .rows()
        for split in (Split.TRAIN, Split.TEST)
    )
    common = Counter(label for _, label in train).most_common(1)[0][0]
    hits = sum(label == common for _, label in test)
    assert scores[Baseline.MAJORITY].accuracy.value == pytest.approx(hits / len(test))
    best = {
        cause: Counter(label for c, label in train if c == cause).most_common(1)[0][0]
        for cause in {cause for cause, _ in train}
    }
    hits = sum(label == best[cause] for cause, label in test)
    assert scores[Baseline.ORACLE].accuracy.value == pytest.approx(hits / len(test))


def test_a_rerun_saves_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    source = _slice(corpus, tmp_path)
    report = run_baselines(source)
    files = [tmp_path / "baselines.json", tmp_path / BASELINE_ANSWERS]
    first = [file.read_bytes() for file in files]
    assert read_report(tmp_path) == report
    run_baselines(Slice.open(tmp_path))
    assert [file.read_bytes() for file in files] == first
    assert run_baselines(source, seed=1) != report


def test_fields_the_slice_leaves_out_are_named(corpus: Corpus, tmp_path: Path) -> None:
    source = _slice(corpus, tmp_path / "a", replace(SETTINGS, year=False, citations=False))
    target = run_baselines(source).targets[0]
    assert set(target.left_out) == {"year", "citations"}
    assert Baseline.METADATA in _scores(target)


def test_without_any_metadata_or_cause_their_baselines_are_left_out(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(300)
    corpus = write_corpus(tmp_path / "c", papers.drop("field", "cause"), metrics)
    settings = replace(SETTINGS, per_class=None, year=False, citations=False)
    target = run_baselines(_slice(corpus, tmp_path / "s", settings)).targets[0]
    assert set(_scores(target)) == {Baseline.MAJORITY, Baseline.PRIOR, Baseline.TEXT}
    assert set(target.left_out) == {
        *("year", "citations", "field"),
        *(Baseline.METADATA, Baseline.BOTH, Baseline.ORACLE),
    }


def test_a_joint_slice_has_both_targets(corpus: Corpus, tmp_path: Path) -> None:
    report = run_baselines(_slice(corpus, tmp_path, replace(SETTINGS, task=Task.JOINT, per_class=30)))
    assert [target.target for target in report.targets] == ["disruption", "novelty"]
    assert report.targets[1].classes == ["novel", "balanced", "conventional"]


def test_training_rows_can_be_limited(corpus: Corpus, tmp_path: Path) -> None:
    report = run_baselines(_slice(corpus, tmp_path), train_rows=50)
    assert report.train_rows == sum(report.targets[0].train.values()) == 50
    assert report.train_rows_available > 50


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(100)
    corpus = write_corpus(tmp_path / "c", papers, metrics.with_columns(cd=pl.lit(0.5)))
    source = _slice(corpus, tmp_path / "s", replace(SETTINGS, per_class=None))
    with pytest.raises(DataError, match="one label"):
        run_baselines(source)


def test_an_empty_split_is_said(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(3)
    corpus = write_corpus(tmp_path / "c", papers, metrics)
    source = _slice(corpus, tmp_path / "s", replace(SETTINGS, per_class=None))
    with pytest.raises(DataError, match="train"):
        run_baselines(source)


def test_a_damaged_report_is_refused(tmp_path: Path) -> None:
    assert read_report(tmp_path) is None
    (tmp_path / "baselines.json").write_text("{}")
    with pytest.raises(DataError, match="tinsmith data baselines"):
        read_report(tmp_path)


def test_answers_are_kept_paper_by_paper(corpus: Corpus, tmp_path: Path) -> None:
    source = _slice(corpus, tmp_path, replace(SETTINGS, task=Task.JOINT, per_class=30))
    report = run_baselines(source)
    papers = list(source.rows(Split.TEST))
    for target in report.targets:
        kept = read_answers(tmp_path, report, target.target)
        # The prior guesses at random; all others say one thing of each paper.
        assert list(kept) == [each for each in Baseline if each is not Baseline.PRIOR]
        for score in target.scores:
            if score.baseline is Baseline.PRIOR:
                continue
            confusion = {gold: dict.fromkeys(target.classes, 0.0) for gold in target.classes}
            for row in papers:
                gold = row.novelty_label if target.target == "novelty" else row.disruption_label
                confusion[str(gold)][kept[score.baseline][row.openalex_id]] += 1
            assert confusion == score.confusion


def test_a_slice_that_kept_no_answers_still_opens(corpus: Corpus, tmp_path: Path) -> None:
    report = run_baselines(_slice(corpus, tmp_path))
    older = msgspec.json.decode((tmp_path / "baselines.json").read_bytes())
    del older["answers_sha256"]
    (tmp_path / "baselines.json").write_bytes(msgspec.json.encode(older))
    found = read_report(tmp_path)
    assert found.targets == report.targets
    # Answers that no report names are nobody's; those of a report may be absent.
    assert read_answers(tmp_path, found, "disruption") == {}
    (tmp_path / BASELINE_ANSWERS).unlink()
    assert read_answers(tmp_path, report, "disruption") == {}


def test_answers_of_another_report_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    report = run_baselines(_slice(corpus, tmp_path))
    with (tmp_path / BASELINE_ANSWERS).open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(DataError, match=r"baseline_answers\.jsonl"):
        read_answers(tmp_path, report, "disruption")


def test_texts_without_words_leave_out_the_baselines_of_words(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(300)
    papers = papers.with_columns(title=pl.lit("\u222b \u2211"), abstract=pl.lit("x + y = z"))
    corpus = write_corpus(tmp_path / "c", papers, metrics)
    target = run_baselines(_slice(corpus, tmp_path / "s", replace(SETTINGS, per_class=None))).targets[0]
    assert {Baseline.TEXT, Baseline.BOTH} <= set(target.left_out)
    assert Baseline.METADATA in _scores(target)


def _confusion(gold: list[int], predicted: list[int], classes: int = 3) -> np.ndarray:
    matrix = np.zeros((1, classes, classes))
    np.add.at(matrix[0], (gold, predicted), 1)
    return matrix


labels = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)


@given(labels)
def test_figures_equal_scikit_learns(rows: list[tuple[int, int]]) -> None:
    gold, predicted = [list(column) for column in zip(*rows, strict=True)]
    present = sorted(set(gold))
    found = figures(_confusion(gold, predicted), np.isin(np.arange(3), present))
    recalls = recall_score(gold, predicted, labels=present, average=None, zero_division=0)
    f1 = f1_score(gold, predicted, labels=[0, 1, 2], average="macro", zero_division=0)
    assert found.accuracy[0] == pytest.approx(accuracy_score(gold, predicted))
    assert found.macro_f1[0] == pytest.approx(f1)
    assert found.min_recall[0] == pytest.approx(recalls.min())
    assert found.recall[0, present] == pytest.approx(recalls)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(lambda g: 0 < sum(g) <= 5),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_expected_figures_of_a_guess_equal_the_enumeration(gold: list[int], weights: list[int]) -> None:
    shares = np.array(weights) / sum(weights)
    rows = [k for k, count in enumerate(gold) for _ in range(count)]
    occurs = np.array(gold) > 0
    accuracy = macro_f1 = least = 0.0
    for guess in itertools.product(range(3), repeat=len(rows)):
        chance = math.prod(shares[k] for k in guess)
        one = figures(_confusion(rows, list(guess)), occurs)
        accuracy += chance * one.accuracy[0]
        macro_f1 += chance * one.macro_f1[0]
        least += chance * one.min_recall[0]
    exact = prior_figures(np.array(gold), shares)
    assert exact.accuracy[0] == pytest.approx(accuracy)
    assert exact.macro_f1[0] == pytest.approx(macro_f1)
    assert exact.min_recall[0] == pytest.approx(least)
    assert exact.recall[0, occurs] == pytest.approx(shares[occurs])


def test_the_seeds_held_out_split_by_its_own_shares() -> None:
    gold = np.array([145, 166, 189])
    found = prior_figures(gold, gold / 500)
    assert found.accuracy[0] == pytest.approx((145**2 + 166**2 + 189**2) / 500**2)
    majority = figures(_confusion([0] * 145 + [1] * 166 + [2] * 189, [2] * 500), gold > 0)
    assert majority.accuracy[0] == 0.378
    assert majority.min_recall[0] == 0


def test_intervals_are_seeded_and_as_wide_as_theory_says() -> None:
    confusion = np.array([[80.0, 10, 10], [30, 60, 10], [20, 20, 60]])
    first, again, other = (resampled(confusion, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.sum((1, 2)) == 300).all()
    low, high = interval(figures(first, np.ones(3, np.bool_)).accuracy)
    p = 200 / 300
    half = 1.96 * math.sqrt(p * (1 - p) / 300)
    assert (low, high) == pytest.approx((p - half, p + half), abs=0.012)


def test_a_class_that_a_resample_misses_does_not_break_the_interval() -> None:
    confusion = np.array([[1.0, 0, 0], [0, 20, 0], [0, 0, 20]])
    found = figures(resampled(confusion, 0), np.ones(3, np.bool_))
    assert np.isnan(found.recall[:, 0]).any()
    assert interval(found.recall[:, 0]) == (1.0, 1.0)
    assert interval(found.min_recall) == (1.0, 1.0)
    assert interval(np.array([np.nan])) == (0.0, 1.0)


def test_a_class_that_is_never_found_keeps_the_least_recall_at_nothing() -> None:
    confusion = np.array([[26.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    found = figures(resampled(confusion, 0), confusion.sum(1) > 0)
    assert np.isnan(found.min_recall).any()  # a resample without one of the classes says nothing of it
    assert interval(found.min_recall) == (0.0, 0.0)


def test_macro_f1_is_one_definition_for_baselines_runs_and_rewards() -> None:
    cells = [[5, 1, 0], [2, 4, 0], [0, 0, 0]]
    by_run = Confusion(("a", "b", "c"), np.array([[*row, 0] for row in cells])).score(Metric.MACRO_F1)
    by_baseline = figures(np.array([cells], np.float64), np.array([True, True, False])).macro_f1[0]
    by_reward = ShareTable(tuple(tuple(n / 12 for n in (*row, 0)) for row in cells)).macro_f1()
    assert by_baseline == by_run == pytest.approx((10 / 13 + 8 / 11) / 3)
    assert by_reward == pytest.approx(by_run)
