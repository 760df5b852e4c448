"""What is found of runs that are made up, so that every figure of the study is known beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinsmith.lab.study.page import study_markdown
from tinsmith.lab.study.results import StudyValues
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import document_html
from tinsmith.stats.diagnostics.boredom import Boredom
from tinsmith.studies.environment_loss.page import environment_loss_page
from tinsmith.studies.environment_loss.reading import Course
from tinsmith.studies.environment_loss.results import LossFound, Weighed, found_of, speed
from tinsmith.studies.environment_loss.settings import ADVISED, ARMS, CONTROL, HIGH, NONE
from tinsmith.studies.environment_loss.story import sentences

VALUES = StudyValues(
    data="ab" * 32,
    num_items=48,
    seeds=(1, 2),
    tuning_seed=0,
    settings={"steps": "50"},
    rates={},
    hashes={"lambda-0-seed=1": {"weights_sha256": "c" * 64}},
)


def arm(name: str, to_half: tuple[int | None, ...], after: float, nll_last: float) -> Weighed:
    return Weighed(
        arm=name,
        before=Measure(0.1),
        after=Measure(after),
        to_half=to_half,
        steps=50,
        nll_first=(2.0, 2.0),
        nll_last=(nll_last, nll_last),
        entropy_first=3.0,
        entropy_last=2.5,
        different_first=0.5,
        different_last=0.4,
        alarms=(None, None),
    )


MADE = {
    NONE: arm(NONE, (40, None), 0.4, 1.9),
    "lambda-0.02": arm("lambda-0.02", (30, 30), 0.5, 1.5),
    ADVISED: arm(ADVISED, (20, 25), 0.6, 1.0),
    HIGH: arm(HIGH, (20, 25), 0.6, 0.9),
    CONTROL: arm(CONTROL, (45, None), 0.35, 2.1),
}


@pytest.fixture(scope="module")
def found() -> LossFound:
    return found_of(VALUES, [MADE[one.name] for one in ARMS])


def test_a_run_that_never_came_to_half_counts_as_all_of_its_steps() -> None:
    ratio, p_value = speed(MADE[NONE], MADE[ADVISED])
    assert ratio == (40 + 50) / (20 + 25)
    assert p_value == 0.5  # two seeds, of which both are faster: no more can be said


def test_the_step_of_one_half_is_that_of_the_last_steps_together() -> None:
    course = Course(seed=1, success=(0.0,) * 5 + (0.6,) * 6, nll_first=1.0, nll_last=1.0, bored=None)
    assert course.to_half == 10
    assert replace(course, success=(0.4,) * 20).to_half is None


def test_signs_and_what_did_not_come_out_stand_first(found: LossFound) -> None:
    assert [one.came_out for one in found.signs] == [True, True, True, False]
    told = sentences(found)
    assert told[0].startswith("Of 4 signs that were expected 3 came out: ")
    assert "; not: lambda = 0.2 bores: the alarm is raised in more runs than at 0 (alarms in 0 of 2 runs" in told[0]
    assert found.control_flat
    assert any("is flat" in one for one in told)


def test_a_control_that_learns_is_not_flat() -> None:
    learned = {**MADE, CONTROL: arm(CONTROL, (20, 20), 0.6, 0.5)}
    found = found_of(VALUES, list(learned.values()))
    assert not found.control_flat
    assert sentences(found)[0].endswith("and the control is not flat.")


def test_an_alarm_at_the_high_weight_is_the_fourth_sign() -> None:
    bored = {**MADE, HIGH: replace(MADE[HIGH], alarms=(30, None))}
    assert found_of(VALUES, list(bored.values())).signs[-1].came_out


def test_the_page_and_its_tables_say_the_same(found: LossFound) -> None:
    bored = Boredom(entropy_first=3.0, entropy_last=2.5, different_first=0.5, different_last=0.4, alarm=None)
    course = Course(seed=1, success=(0.1, 0.5), nll_first=2.0, nll_last=1.0, bored=bored)
    page = environment_loss_page(found, sentences(found), {one.name: (course,) for one in ARMS}, {})
    assert "Boredom" in document_html(page)
    tables = study_markdown(page)
    assert "| lambda = 0 | 0.100 | 0.400 | 40, never |" in tables
    assert "nan" not in tables


def test_what_bores_without_the_loss_too_is_not_its_doing() -> None:
    alike = {name: replace(MADE[name], alarms=(30, None)) for name in (HIGH, NONE)}
    assert not found_of(VALUES, list({**MADE, **alike}.values())).signs[-1].came_out
