"""The one sentence that a study's page and console begin with."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kept_pages import read_kept

from tinsmith.lab.study.record import StudyRecord
from tinsmith.lab.study.report import headline, page_of_study, sentences
from tinsmith.pages.measures import Measure

VALUES = sorted((Path(__file__).parents[3] / "docs" / "results" / "values").glob("*.json"))
LONGEST = 200
"""Characters of a headline that a narrow screen shows without scrolling."""


def record(name: str) -> StudyRecord:
    return read_kept((VALUES[0].parent / f"{name}.json").read_text(encoding="utf-8")).results


@pytest.mark.parametrize("name", [one.stem for one in VALUES])
def test_a_page_begins_with_one_short_sentence_that_has_figure_interval_and_verdict(name: str) -> None:
    study = record(name)
    text = headline(study)
    assert text == sentences(study)[0] == page_of_study(study, {}).verdict
    assert len(text) <= LONGEST
    assert re.search(r"\d\.\d{3} \(-?\d\.\d{3} to ", text)
    met = sum(one.met for one in study.expectations)
    assert f"{met} of {len(study.expectations)} expectations" in text


def test_the_main_arm_is_that_of_the_first_allowed_claim_beside_what_it_beats() -> None:
    study = record("dead-groups")
    chance, always = (
        next(one for one in study.gains if one.words == name) for name in ("fails by chance", "always fails")
    )
    for value in (chance.after, chance.before, always.after):
        assert f"{value.value:.3f}" in headline(study)


@pytest.mark.parametrize(
    ("gain", "p_holm", "verdict"),
    [(0.3, 0.01, "Gain shown: "), (-0.3, 0.01, "Loss shown: "), (0.3, 0.06, "No gain shown (Holm p = 0.060): ")],
)
def test_it_begins_with_whether_the_main_arm_s_gain_is_shown(gain: float, p_holm: float, verdict: str) -> None:
    study = record("dead-groups")
    measured = Measure(gain, gain - 0.1, gain + 0.1)
    gains = tuple(replace(one, gain=measured, p_holm=p_holm) for one in study.gains)
    assert headline(replace(study, gains=gains)).startswith(f"{verdict}fails by chance: right 0.756 ")


def test_it_says_of_the_main_arm_that_a_baseline_does_better() -> None:
    study = record("confidence")
    assert study.baseline is not None
    name, best = study.baseline
    assert f"below the baseline {best.value:.3f} ({name})" in headline(study)
    assert "below the baseline" not in headline(replace(study, baseline=(name, Measure(0.0, 0.0, 0.0))))


def test_without_expectations_the_verdict_is_on_claims_and_without_gains_notes_lead() -> None:
    study = replace(record("dead-groups"), expectations=())
    assert "2 of 9 claims" in headline(study)
    assert sentences(replace(study, gains=()))[: len(study.notes)] == study.notes
    bare = replace(record("bridge"), panels=())
    assert headline(bare) == "5 of 6 expectations were met."
    missed = replace(bare.expectations[0], met=False)
    assert headline(replace(bare, expectations=(missed,))) == "0 of 1 expectation was met."


def test_rates_and_seconds_are_shown_in_the_order_of_the_arms_however_files_sort_them() -> None:
    page = read_kept((VALUES[0].parent / "sft-vs-rl-planted.json").read_text(encoding="utf-8"))
    study, seconds = page.results, page.seconds
    assert list(study.rates) == sorted(study.rates) != [name for name in study.arms if name in study.rates]
    turned = replace(study, rates={name: study.rates[name] for name in sorted(study.rates, reverse=True)})
    assert list(seconds) == sorted(seconds) != list(study.arms)
    turned_seconds = {label: seconds[label] for label in sorted(seconds, reverse=True)}
    assert page_of_study(turned, turned_seconds) == page_of_study(study, seconds)
    line = next(one for one in sentences(study) if "may be chance" in one)
    assert line.index("for SFT") < line.index("for RL from base") < line.index("for SFT then RL")


def test_a_chosen_rate_is_an_end_of_what_was_tried_in_whatever_order() -> None:
    study = record("sft-vs-rl-planted")
    turned = replace(study, rates={arm: tuple(reversed(rates)) for arm, rates in study.rates.items()})
    shuffled = replace(study, rates={arm: (*rates[1:], rates[0]) for arm, rates in study.rates.items()})
    assert any("is an end of" in line for line in sentences(study))
    assert sentences(study) == sentences(turned) == sentences(shuffled)


def test_the_task_s_best_baseline_stands_beside_it() -> None:
    study = record("dead-groups")
    beside = headline(replace(study, baseline=("the nearest door", Measure(0.123))))
    assert "baseline 0.123 (the nearest door)" in beside
    assert "baseline" not in headline(replace(study, baseline=None))
