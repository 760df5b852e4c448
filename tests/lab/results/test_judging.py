from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_runs import LADDER, Story, seeds_of, write_run
from kept_answers import keep_answers

from sentences import missing
from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import Arm, arms_of
from tinsmith.lab.results.baseline_rivals import rival, unpaired
from tinsmith.lab.results.judging import Judged, judge_alone, judge_arms, pairing
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Split
from tinsmith.stats.gate.claim import CheckName, ClaimKind, Finding, Verdict
from tinsmith.studies.disruption.comparison import compare_labels

pytestmark = pytest.mark.whole


def arms(folder: Path, *stories: Story) -> tuple[Arm, ...]:
    return arms_of(read_run(write_run(folder / str(place), story)) for place, story in enumerate(stories))


def claim(judged: tuple[Judged, ...], first: str, second: str) -> Judged:
    (found,) = [one for one in beats(judged) if (one.first, one.second) == (first, second)]
    return found


def beats(judged: tuple[Judged, ...]) -> list[Judged]:
    return [one for one in judged if one.kind is ClaimKind.BEATS]


def learned(judged: tuple[Judged, ...], first: str) -> Judged:
    (found,) = [one for one in judged if one.kind is ClaimKind.LEARNED and one.first == first]
    return found


def test_seeds_of_one_experiment_are_one_arm(tmp_path: Path) -> None:
    found = arms(tmp_path, *seeds_of(LADDER["exp6"], 2, 0, 1), LADDER["sft"])
    assert [(arm.name, arm.seeds()) for arm in found] == [("remedy/exp6@1", "0, 1, 2"), ("sft/lora@1", "0")]
    answers = found[0].answers()
    assert answers is not None
    assert answers.num_seeds == 3
    assert answers.num_items == 210


def test_a_seed_that_was_run_twice_is_one_seed(tmp_path: Path) -> None:
    story = LADDER["exp6"]
    (found,) = arms(tmp_path, *seeds_of(story, 0, 1), *seeds_of(story, 0, 0))
    answers = found.answers()
    assert answers is not None
    assert answers.num_seeds == 2
    assert (found.seeds(), found.seeds(Split.TEST)) == ("0, 0, 0, 1", "0, 1")
    compared = compare_labels([member.run.folder for member in found.members])
    assert any(missing(note, "seed 0", 3) == [] for note in compared.notes)


def test_runs_that_differ_by_more_than_the_seed_are_arms_apart(tmp_path: Path) -> None:
    longer = replace(LADDER["exp6"], steps=80)
    found = arms(tmp_path, LADDER["exp6"], longer)
    assert [arm.name for arm in found] == ["remedy/exp6@1 (steps=60)", "remedy/exp6@1 (steps=80)"]


def test_a_remedy_that_is_better_in_every_respect_may_be_claimed(tmp_path: Path) -> None:
    stories = [LADDER[key] for key in ("exp4", "exp6", "sft", "shuffled")]
    found = judge_arms(arms(tmp_path, *(replace(story, num_test=900) for story in stories)))
    allowed = claim(found, "remedy/exp6@1", "ladder/exp4@1")
    assert allowed.verdict is Verdict.ALLOWED, allowed.reasons
    assert allowed.interval is not None
    assert allowed.interval.low > 0
    assert len(allowed.checks) == 5
    something = learned(found, "remedy/exp6@1")
    assert len(something.checks) == 6
    assert something.note == ""


def test_what_was_trained_on_shuffled_labels_may_claim_nothing(tmp_path: Path) -> None:
    found = judge_arms(arms(tmp_path, *(LADDER[key] for key in ("exp6", "sft", "shuffled"))))
    refused = [one for one in found if one.first == "control/shuffled_labels@1"]
    assert [one.second for one in beats(tuple(refused))] == ["remedy/exp6@1", "sft/lora@1"]
    assert all(one.verdict is Verdict.REFUSED for one in refused)


def test_without_a_control_one_may_beat_another_and_nothing_is_learned(tmp_path: Path) -> None:
    stories = [replace(LADDER[key], num_test=900) for key in ("exp4", "exp6")]
    found = judge_arms(arms(tmp_path, *stories))
    better = claim(found, "remedy/exp6@1", "ladder/exp4@1")
    assert better.verdict is Verdict.ALLOWED, better.reasons
    one = learned(found, "remedy/exp6@1")
    assert one.verdict is Verdict.REFUSED
    assert "no run on shuffled labels was scored on these items" in one.reasons


def test_a_control_of_another_method_is_named(tmp_path: Path) -> None:
    found = judge_arms(arms(tmp_path, *(LADDER[key] for key in ("exp4", "sft", "shuffled"))))
    note = learned(found, "ladder/exp4@1").note
    assert missing(note, "shuffled", "remedy/exp6") == []


def test_sft_is_also_to_be_beaten_with_its_offsets(tmp_path: Path) -> None:
    offset = replace(LADDER["sft"], name="sft/lora_offset", offset=True)
    found = judge_arms(arms(tmp_path, LADDER["exp6"], offset))
    assert [one.second for one in beats(found)] == ["sft/lora_offset@1", "sft/lora_offset@1 with offsets"]


def test_arms_on_other_papers_are_refused_in_words(tmp_path: Path) -> None:
    elsewhere = replace(LADDER["sft"], papers="X")
    (one,) = beats(judge_arms(arms(tmp_path, LADDER["exp6"], elsewhere)))
    assert one.verdict is Verdict.REFUSED
    assert one.reasons == ("the two have no test paper in common",)
    assert one.value is None


def test_a_run_without_a_test_is_refused_in_words(tmp_path: Path) -> None:
    first, second = arms(tmp_path, LADDER["exp6"], LADDER["sft"])
    (tmp_path / "1" / "rollouts.jsonl").unlink()
    found = judge_arms(arms_of([first.first, read_run(tmp_path / "1")]))
    (reason,) = found[0].reasons
    assert missing(reason, "sft/lora@1", "test") == []
    assert second.answers() is not None


def test_one_run_alone_is_held_against_the_baselines_of_its_slice(tmp_path: Path) -> None:
    (arm,) = arms(tmp_path, replace(LADDER["exp6"], num_test=900))
    found = judge_alone(arm)
    beaten = beats(found)
    assert [one.second for one in beaten] == ["Constant", "Metadata only", "TF-IDF"]
    assert all(one.verdict is Verdict.ALLOWED for one in beaten)
    assert all(one.higher for one in beaten)
    alone = learned(found, arm.name)
    assert alone.verdict is Verdict.REFUSED
    missing = [check.name for check in alone.checks if check.finding is Finding.MISSING]
    assert missing == [CheckName.CONTROL]


@pytest.mark.parametrize("baseline", [Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT])
def test_an_unpaired_baseline_has_the_confusion_of_the_report(tmp_path: Path, baseline: Baseline) -> None:
    (arm,) = arms(tmp_path, LADDER["exp6"])
    answers, report = arm.answers(), arm.first.baselines
    assert answers is not None
    assert report is not None
    (score,) = [one for one in report.scores if one.baseline is baseline]
    dealt = unpaired(score, answers)
    counts = dealt.counts()[0]
    told = np.array([[row[b] for b in report.classes] for row in score.confusion.values()])
    assert np.abs(counts[:, :3] - told).max() < 1
    assert counts.sum() == 210
    assert (dealt.predicted == unpaired(score, answers).predicted).all()


# Baselines whose answers were kept


def kept_and_not(folder: Path) -> tuple[Arm, Arm]:
    """One run twice: with the answers of its baselines, and with the report on them alone."""
    stories = [replace(LADDER["exp6"], num_test=300)] * 2
    for place, story in enumerate(stories):
        keep_answers(write_run(folder / str(place), story))
    (folder / "1" / BASELINE_ANSWERS).unlink()
    (kept,) = arms_of([read_run(folder / "0")])
    (alone,) = arms_of([read_run(folder / "1")])
    return kept, alone


def test_kept_answers_make_the_comparison_with_a_baseline_paired(tmp_path: Path) -> None:
    kept, alone = kept_and_not(tmp_path)
    assert "paper by paper" in pairing([kept])
    assert "unpaired" in pairing([alone])
    found = [claim(judge_alone(arm), arm.name, "Metadata only") for arm in (kept, alone)]
    paired, loose = (each.interval for each in found)
    assert paired is not None
    assert loose is not None
    assert found[0].value == pytest.approx(found[1].value)
    # The baseline errs where the run does: what is common to both cancels in a paired difference.
    assert paired.high - paired.low < 0.6 * (loose.high - loose.low)
    assert paired.above(0.0)
    assert not loose.above(0.0)


def test_the_gate_of_a_comparison_uses_kept_answers(tmp_path: Path) -> None:
    kept, alone = kept_and_not(tmp_path)
    (sft,) = arms(tmp_path / "sft", replace(LADDER["sft"], num_test=300))
    findings = []
    for arm in (kept, alone):
        judged = learned(judge_arms([arm, sft]), arm.name)
        findings += [one.finding for one in judged.checks if one.name is CheckName.METADATA]
    assert findings == [Finding.PASSED, Finding.FAILED]


def test_a_baselines_own_answers_come_out_as_they_were_kept(tmp_path: Path) -> None:
    told = keep_answers(write_run(tmp_path / "run", LADDER["exp6"]))
    (arm,) = arms_of([read_run(tmp_path / "run")])
    answers, report = arm.answers(), arm.first.baselines
    assert answers is not None
    assert report is not None
    scores = {score.baseline: score for score in report.scores}
    own = rival(scores[Baseline.METADATA], arm.first, answers)
    assert {i: own.labels[c] for i, c in zip(own.items, own.predicted[0], strict=True)} == told
    # A paper that the baseline never answered makes all of it unpaired, and so do answers that are not there.
    del told[answers.items[0]]
    fewer = replace(arm.first, baseline_answers={Baseline.METADATA: told})
    for score, run in ((scores[Baseline.METADATA], fewer), (scores[Baseline.TEXT], fewer)):
        expected = unpaired(score, answers).predicted
        assert (rival(score, run, answers).predicted == expected).all()


def test_training_for_longer_is_no_fair_way_to_beat_another(tmp_path: Path) -> None:
    longer = replace(LADDER["exp6"], steps=80, num_test=900)
    found = judge_arms(arms(tmp_path, longer, replace(LADDER["exp4"], num_test=900)))
    one = claim(found, "remedy/exp6@1", "ladder/exp4@1")
    assert one.verdict is Verdict.REFUSED
    assert [check.name for check in one.checks if not check.passed] == [CheckName.TRAINING]
