"""The baselines of a slice: who sees what, what is left out, and the same bytes every time."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from labelled import labelled_corpus, labelled_frames, write_corpus

from tinsmith.data.baselines.answers import BASELINE_ANSWERS, read_answers
from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.baselines.report import Baseline, BaselineScore, TargetReport, read_report
from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
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
    assert found is not None
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
