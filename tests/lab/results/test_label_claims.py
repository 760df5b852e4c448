"""Claims about runs on labels: what is put to the gate, with which evidence, and what comes of it."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from fake_runs import LADDER, Story, seeds_of, without_splits, write_run
from kept_answers import keep_answers

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.page.comparison import RunsCompared
from tinsmith.lab.results.arms import LabelArm, arms_of, gather, label_arms
from tinsmith.lab.results.findings import sentences_of, verdict_of
from tinsmith.lab.results.label_page import compare_labels
from tinsmith.lab.results.systems import beside, rival, standing_rows, unpaired
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.study.checks import no_label_learned
from tinsmith.lab.study.record import Draws
from tinsmith.stats.estimates import Bootstrap, difference
from tinsmith.stats.gate import CheckName, Claim, Finding, Verdict
from tinsmith.stats.mean_runs import scores_by_seed
from tinsmith.stats.rates import Metric
from tinsmith.stats.seed_tests import seed_test

pytestmark = pytest.mark.whole

DRAWS = Draws(claims=Bootstrap(draws=2000))


def compared(folder: Path, *stories: Story) -> RunsCompared:
    return compare_labels([write_run(folder / str(i), story) for i, story in enumerate(stories)], draws=DRAWS)


def arms(folder: Path, *stories: Story) -> tuple[LabelArm, ...]:
    return arms_of(gather(read_run(write_run(folder / str(place), story))) for place, story in enumerate(stories))


def claim(found: RunsCompared, first: str, second: str = "") -> Claim:
    claims = found.results.beats if second else found.results.learned
    (one,) = [one for one in claims if one.first == first and second in ("", one.second)]
    return one


def test_seeds_of_one_experiment_are_one_arm(tmp_path: Path) -> None:
    found = arms(tmp_path, *seeds_of(LADDER["exp6"], 2, 0, 1), LADDER["sft"])
    assert [(arm.name, arm.seed_words()) for arm in found] == [("RL (macro-F1)", "0, 1, 2"), ("LoRA SFT", "0")]
    answers = found[0].answers_on()
    assert (answers.num_seeds, answers.num_items) == (3, 210)


def test_runs_on_two_named_models_are_two_arms(tmp_path: Path) -> None:
    arms(tmp_path, *seeds_of(LADDER["exp6"], 0, 1, 2))
    for seed, fingerprint in enumerate(("aa", "aa", "bb")):
        file = tmp_path / str(seed) / "manifest.json"
        model = {"circumstances": {"model_name": "/base"}, "identity": {"model": {"fingerprint": fingerprint}}}
        file.write_text(json.dumps({**json.loads(file.read_text()), **model}))
    found = arms_of(gather(read_run(tmp_path / str(seed))) for seed in range(3))
    assert [(arm.name, arm.seed_words()) for arm in found] == [
        ("RL (macro-F1) (base=aa)", "0, 1"),
        ("RL (macro-F1) (base=bb)", "2"),
    ]


def test_the_verdict_is_on_a_trained_arm_even_where_the_untrained_one_scores_more(tmp_path: Path) -> None:
    untrained = replace(LADDER["exp5"], name="control/zero_shot", steps=0)
    zero, worse = arms(tmp_path, untrained, LADDER["exp5"])
    first, then = (next(iter(one.systems.values())).measures["macro_f1"].value for one in (zero, worse))
    assert first > then
    (both,) = verdict_of([zero, worse])
    assert f"{then:.3f}" in both
    assert f"{first:.3f}" not in both
    (alone,) = verdict_of([zero])
    assert f"{first:.3f}" in alone


def test_a_seed_that_was_run_twice_is_one_seed(tmp_path: Path) -> None:
    found = compared(tmp_path, *seeds_of(LADDER["exp6"], 0, 1), *seeds_of(LADDER["exp6"], 0, 0), LADDER["sft"])
    arm = label_arms(found.results)["RL (macro-F1)"]
    assert [run.config.seed for run in arm.runs] == [0, 1]
    assert arm.answers_on().num_seeds == 2
    left_out = [note.partition(" is left out")[0] for note in found.record.notes if "seed is there already" in note]
    assert left_out == ["RL (macro-F1), seed 0: 2", "RL (macro-F1), seed 0: 3"]
    (table,) = [one for one in found.record.tables if one.title == "Runs"]
    assert [name for name, _ in table.rows] == ["0", "1", "4"]


@pytest.mark.parametrize("order", list(permutations(("aborted", "validated", "tested"), 2)))
def test_of_runs_with_one_seed_the_one_that_came_farthest_counts(tmp_path: Path, order: tuple[str, ...]) -> None:
    ended = {"aborted": ("test", "test_greedy", "eval", "eval_greedy"), "validated": ("test", "test_greedy")}
    for name in order:
        without_splits(write_run(tmp_path / name, LADDER["exp6"]), *ended.get(name, ()))
    (arm,) = arms_of(gather(read_run(tmp_path / name)) for name in order)
    assert arm.first.folder.name == max(order, key=["aborted", "validated", "tested"].index)


def test_runs_that_differ_by_more_than_the_seed_are_arms_apart(tmp_path: Path) -> None:
    found = arms(tmp_path, LADDER["exp6"], replace(LADDER["exp6"], steps=80))
    assert [arm.name for arm in found] == ["RL (macro-F1) (steps=60)", "RL (macro-F1) (steps=80)"]


def test_a_remedy_that_is_better_in_every_respect_may_be_claimed(tmp_path: Path) -> None:
    stories = [LADDER[key] for key in ("exp4", "exp6", "sft", "shuffled")]
    found = compared(tmp_path, *(replace(story, num_test=900) for story in stories))
    allowed = claim(found, "RL (macro-F1)", "RL (accuracy)")
    assert allowed.verdict is Verdict.ALLOWED, allowed.reasons
    assert allowed.interval.low > 0
    assert (len(allowed.checks), len(claim(found, "RL (macro-F1)").checks)) == (5, 6)
    refused = [one for one in found.results.beats if one.first == "RL (shuffled)"]
    assert [one.second for one in refused] == ["RL (macro-F1)", "LoRA SFT"]
    assert all(one.verdict is Verdict.REFUSED for one in refused)
    notes = [note for note in found.record.notes if note.startswith("The control on shuffled labels of")]
    assert notes == ["The control on shuffled labels of RL (accuracy) is that of RL (macro-F1)."]


def test_without_a_control_one_may_beat_another_and_nothing_is_learned(tmp_path: Path) -> None:
    found = compared(tmp_path, *(replace(LADDER[key], num_test=900) for key in ("exp4", "exp6")))
    assert claim(found, "RL (macro-F1)", "RL (accuracy)").verdict is Verdict.ALLOWED
    learned = claim(found, "RL (macro-F1)")
    assert learned.verdict is Verdict.REFUSED
    assert [one.name for one in learned.checks if one.finding is Finding.MISSING] == [CheckName.CONTROL]


def test_sft_is_also_to_be_beaten_with_its_offsets(tmp_path: Path) -> None:
    found = compared(tmp_path, LADDER["exp6"], replace(LADDER["sft"], name="sft/lora_offset", offset=True))
    assert [one.second for one in found.results.beats] == ["LoRA SFT", "LoRA SFT with offsets"]


def test_arms_that_cannot_be_compared_are_refused_with_the_reason(tmp_path: Path) -> None:
    elsewhere = compared(tmp_path / "a", LADDER["exp6"], replace(LADDER["sft"], papers="X"))
    assert elsewhere.results.beats == ()
    assert any("no test paper in common" in note for note in elsewhere.record.notes)
    folders = [write_run(tmp_path / "b" / key, LADDER[key]) for key in ("exp6", "sft")]
    (folders[1] / "rollouts.jsonl").unlink()
    untested = compare_labels(folders, draws=DRAWS)
    assert untested.results.beats == ()
    assert any("LoRA SFT has no answers on the test split" in note for note in untested.record.notes)


def test_training_for_longer_is_no_fair_way_to_beat_another(tmp_path: Path) -> None:
    longer = replace(LADDER["exp6"], steps=80, num_test=900)
    one = claim(compared(tmp_path, longer, replace(LADDER["exp4"], num_test=900)), "RL (macro-F1)", "RL (accuracy)")
    assert [check.name for check in one.checks if not check.passed] == [CheckName.TRAINING]


def test_one_run_alone_is_held_against_the_baselines_of_its_slice(tmp_path: Path) -> None:
    found = compared(tmp_path, replace(LADDER["exp6"], num_test=900))
    assert [one.second for one in found.results.beats] == ["Metadata only", "TF-IDF"]
    assert all(one.verdict is Verdict.ALLOWED for one in found.results.beats)
    missing = [one.name for one in claim(found, "RL (macro-F1)").checks if one.finding is Finding.MISSING]
    assert missing == [CheckName.CONTROL]


def test_each_arm_but_the_control_stands_against_three_baselines(tmp_path: Path) -> None:
    found = standing_rows(
        arms(tmp_path, *(LADDER[name] for name in ("exp5", "exp6", "shuffled"))), Bootstrap(draws=200)
    )
    assert [(one[0], one[1]) for one in found] == [
        (arm, baseline)
        for arm in ("RL (weighted)", "RL (macro-F1)")
        for baseline in ("Constant", "Metadata only", "TF-IDF")
    ]
    # Exp5 answers one class nearly always, as the constant does: below whatever reads, above nothing by much.
    assert [one[3] for one in found[1:4]] == ["below", "below", "above"]


@pytest.mark.parametrize("baseline", [Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT])
def test_an_unpaired_baseline_has_the_confusion_of_the_report(tmp_path: Path, baseline: Baseline) -> None:
    (arm,) = arms(tmp_path, LADDER["exp6"])
    answers, report = arm.answers_on(), arm.first.baselines
    assert answers is not None
    (score,) = [one for one in report.scores if one.baseline is baseline]
    dealt = unpaired(score, answers)
    counts = dealt.counts()[0]
    expected = np.array([[row[b] for b in report.classes] for row in score.confusion.values()])
    assert np.abs(counts[:, :3] - expected).max() < 1
    assert counts.sum() == 210
    assert (dealt.predicted == unpaired(score, answers).predicted).all()


def test_kept_answers_make_the_comparison_with_a_baseline_paired(tmp_path: Path) -> None:
    story = replace(LADDER["exp6"], num_test=300)
    folders = [write_run(tmp_path / name, story) for name in ("kept", "alone")]
    for folder in folders:
        keep_answers(folder)
    (folders[1] / BASELINE_ANSWERS).unlink()
    kept, alone = (compare_labels([folder], draws=DRAWS) for folder in folders)
    paired, loose = (claim(one, "RL (macro-F1)", "Metadata only") for one in (kept, alone))
    assert paired.value == pytest.approx(loose.value)
    # The baseline errs where the run does: what is common to both cancels in a paired difference.
    assert paired.interval.high - paired.interval.low < 0.6 * (loose.interval.high - loose.interval.low)
    assert paired.interval.above(0.0)
    assert not loose.interval.above(0.0)
    learned = [claim(one, "RL (macro-F1)").checks for one in (kept, alone)]
    findings = [one.finding for checks in learned for one in checks if one.name is CheckName.METADATA]
    assert findings == [Finding.PASSED, Finding.FAILED]
    assert ["compared unpaired" in " ".join(one.record.notes) for one in (kept, alone)] == [False, True]


def test_a_baselines_own_answers_come_out_as_they_were_kept(tmp_path: Path) -> None:
    expected = keep_answers(write_run(tmp_path / "run", LADDER["exp6"]))
    (arm,) = arms_of([gather(read_run(tmp_path / "run"))])
    answers, report = arm.answers_on(), arm.first.baselines
    own = rival(Baseline.METADATA, arm.first, answers)
    assert {i: own.labels[c] for i, c in zip(own.items, own.predicted[0], strict=True)} == expected
    # A paper that the baseline never answered makes all of it unpaired, and so do answers that are not there.
    scores = {score.baseline: score for score in report.scores}
    del expected[answers.items[0]]
    fewer = replace(arm.first, baseline_answers={Baseline.METADATA: expected})
    for name in (Baseline.METADATA, Baseline.TEXT):
        dealt = unpaired(scores[name], answers).predicted
        assert (rival(name, fewer, answers).predicted == dealt).all()


def without_neutral(folder: Path) -> Path:
    """Take the papers of a label out of a run's test."""
    file = folder / "rollouts.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [one for one in lines if not (one["split"].startswith("test") and one.get("gold") == "neutral")]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    return folder


def test_chance_is_that_of_the_labels_that_the_test_has(tmp_path: Path) -> None:
    constant = replace(LADDER["shuffled"], end=((1.0, 0.0, 0.0),) * 3)
    stories = {"exp6": LADDER["exp6"], "shuffled": constant}
    found = compare_labels(
        [without_neutral(write_run(tmp_path / key, one)) for key, one in stories.items()], draws=DRAWS
    )
    arms = label_arms(found.results)
    assert [arm.chance for arm in arms.values()] == [0.5, 0.5]
    assert no_label_learned("RL (shuffled)")(found.results).met
    (words,) = [note for note in sentences_of(tuple(arms.values())) if note.startswith("Trained on shuffled labels")]
    assert words.endswith("not above chance.")
    (scores,) = [one for one in found.record.tables if one.title == "Scores"]
    assert "balanced accuracy|chance 0.500" in [column.head for column in scores.columns]


def test_papers_whose_rollouts_failed_under_every_seed_are_left_out_of_claims(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / key, LADDER[key]) for key in ("exp6", "exp4")]
    for folder in folders:
        file, lines, tested = folder / "rollouts.jsonl", list[str](), 0
        for one in map(json.loads, file.read_text().splitlines()):
            tested += one["split"] == "test"
            if one["split"] == "test" and tested <= 21:
                failed = {"where": "sample", "what": "no answer"}
                one = {key: one[key] for key in ("step", "split", "prompt_id", "sample")} | {"failure": failed}
            lines.append(f"{json.dumps(one)}\n")
        file.write_text("".join(lines))
    judged = claim(compare_labels(folders, draws=DRAWS), "RL (macro-F1)", "RL (accuracy)")
    (items,) = [check for check in judged.checks if check.name is CheckName.ITEMS]
    assert (items.finding, judged.num_items) == (Finding.FAILED, 189)


def test_five_seeds_are_guarded_by_t_against_baselines_too(tmp_path: Path) -> None:
    ends = [LADDER[name].end for name in ("exp6", "sft", "exp4", "exp6", "sft")]
    stories = [replace(LADDER["exp6"], seed=seed, end=end) for seed, end in enumerate(ends)]
    (arm,) = arms(tmp_path, *stories)
    draws, answers = Bootstrap(draws=200), arm.answers_on()
    free = difference(answers, rival(Baseline.TEXT, arm.first, answers), Metric.MACRO_F1, draws)
    guarded, test = beside(arm, Baseline.TEXT, draws), seed_test(scores_by_seed(answers, Metric.MACRO_F1), [0.0])
    assert guarded.value == free.value
    assert guarded.high == pytest.approx(free.value + test.at(0.95).high - test.value)
    assert guarded.high > free.interval.high
