"""Variance of reward terms within groups, and their correlation with being right, against numpy."""

from random import Random

import numpy as np
import pytest

from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.study.terms import audited


def line(prompt: str, sample: int, terms: dict[str, float], **metrics: float) -> TaskRollout:
    return TaskRollout(step=0, split="train", prompt_id=prompt, sample=sample, terms=terms, metrics=metrics)


def groups(*names: str, count: int = 40) -> list[list[TaskRollout]]:
    random = Random(3)
    found: list[list[TaskRollout]] = []
    for place in range(count):
        level, group = random.random(), list[TaskRollout]()
        for sample in range(random.randint(2, 6)):
            right = float(random.random() < level)
            terms = {"right": right, "form": random.choice((0.0, 0.2)), "level": level}
            terms = {name: terms[name] for name in names}
            group.append(line(str(place), sample, terms, right=right))
        found.append(group)
    return found


def test_every_figure_is_that_of_deviations_from_the_groups_means() -> None:
    names = ("right", "form", "level")
    some = groups(*names)
    found = audited(one for group in some for one in group)

    def centred(of: str) -> np.ndarray:
        values = [np.array([one.terms[of] if of else sum(one.terms.values()) for one in group]) for group in some]
        return np.concatenate([each - each.mean() for each in values])

    reward, right = centred(""), centred("right")
    for name in names:
        values = centred(name)
        assert found[name].variance == pytest.approx(np.mean(values**2), abs=1e-15)
        assert found[name].share == pytest.approx(values @ reward / (reward @ reward), abs=1e-12)
    assert found["form"].with_right == pytest.approx(np.corrcoef(centred("form"), right)[0, 1], abs=1e-12)
    assert sum(one.share or 0.0 for one in found.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_term_that_differs_between_groups_alone_teaches_nothing() -> None:
    level = audited(one for group in groups("right", "form", "level") for one in group)["level"]
    assert (level.variance, level.share, level.differs, level.with_right) == (0.0, 0.0, 0.0, None)


def test_a_term_that_is_being_right_goes_with_it_wholly() -> None:
    assert audited(one for group in groups("right") for one in group)["right"].with_right == pytest.approx(1.0)


def test_groups_of_one_and_answers_whose_rightness_was_not_measured_are_in_no_figure_of_it() -> None:
    one, other = (line("a", sample, {"form": 1.0 - sample}) for sample in (0, 1))
    assert audited([one]) == {}
    unknown = audited([one, other])["form"]
    assert (unknown.variance, unknown.with_right) == (0.25, None)


def test_two_groups_of_one_prompt_in_a_step_are_two() -> None:
    found = audited(line("a", sample, {"form": value}) for value in (0.0, 1.0) for sample in range(4))["form"]
    assert (found.variance, found.differs) == (0.0, 0.0)
