"""A reward that is learned during a run: what it pays and keeps, and its steering term beside finite differences."""

import json
from typing import Any

import numpy as np
import pytest

from tinsmith.lab.user_task.learned_reward import LabelsAlone, LearnedReward, influence
from tinsmith.lab.user_task.step_reward import Conversation, Failed
from tinsmith.stats.ridge import Floats, Moments, dots
from tinsmith.types.errors import ConfigError, DataError

ANSWERS, WIDTH, RIDGE = 6, 3, 0.05
FEATURES = np.random.default_rng(2).normal(size=(ANSWERS, WIDTH))
LABELS = np.random.default_rng(3).normal(size=ANSWERS)
THETA = np.random.default_rng(4).normal(size=ANSWERS)


def policy(theta: Floats) -> Floats:
    shares: Floats = np.exp(theta - theta.max())
    return shares / shares.sum()


def moments(shares: Floats) -> Moments:
    """Return the sums over every answer, each as often as the policy gives it."""
    return Moments(1.0, FEATURES.T @ (FEATURES * shares[:, None]), (shares * LABELS) @ FEATURES)


def reached(theta: Floats) -> float:
    """Return the mean reward of a policy under the model that is fitted to its own answers: the two-stage objective."""
    shares = policy(theta)
    return float(shares @ dots(FEATURES, moments(shares).fitted(RIDGE)))


def test_the_exact_term_is_the_derivative_of_the_two_stage_objective() -> None:
    shares = policy(THETA)
    now = moments(shares)
    learned = dots(FEATURES, now.fitted(RIDGE))
    paid = learned - (learned - LABELS) * influence(now, RIDGE, FEATURES, shares @ FEATURES)
    exact, myopic = (shares * (each - shares @ each) for each in (paid, learned))
    step = 1e-6
    different = np.array(
        [(reached(THETA + step * one) - reached(THETA - step * one)) / (2 * step) for one in np.eye(ANSWERS)]
    )
    assert np.abs(exact - different).max() < 1e-8
    assert np.abs(myopic - different).max() > 0.01


def test_with_a_constant_feature_and_hardly_a_penalty_the_exact_term_pays_labels() -> None:
    rows = np.concatenate([FEATURES, np.ones((ANSWERS, 1))], axis=1)
    now = Moments.none(WIDTH + 1).with_rows(rows, LABELS)
    learned = dots(rows, now.fitted(1e-9))
    assert learned - (learned - LABELS) * influence(now, 1e-9, rows, rows.mean(axis=0)) == pytest.approx(
        LABELS, abs=1e-6
    )


def reward(**changed: Any) -> LearnedReward:
    parts: dict[str, Any] = {"label": lambda item, text: float(text == item), "every": 2, "ridge": 1e-6}
    return LearnedReward(**{**parts, "features": lambda item, text: [len(text), float(text == item)], **changed})


def asked(*texts: str) -> list[Conversation]:
    return [Conversation(item="ab", replies=(text,), text=text) for text in texts]


def test_it_pays_nothing_before_its_first_fit_and_then_what_it_learned() -> None:
    one, step = reward(), asked("ab", "b", "abc", "ab")
    assert [each.total for each in one(step)] == [0.0] * 4
    found = one(step)
    assert [each.total for each in found] == pytest.approx([1.0, 0.0, 0.0, 1.0], abs=1e-3)
    assert [each.metrics["label"] for each in found] == [1.0, 0.0, 0.0, 1.0]
    assert abs(one.train_figures([found])["overrated"]) < 1e-3


def test_it_is_fitted_every_so_many_steps_and_goes_on_from_its_state_to_the_bit() -> None:
    one, other = reward(decay=0.5), reward(decay=0.5)
    fits: list[bytes] = []
    for texts in (("ab", "b"), ("a", "ab"), ("abc", "ab"), ("b", "bb")):
        other.restore(json.loads(json.dumps(one.state())))
        assert [each.total for each in other(asked(*texts))] == [each.total for each in one(asked(*texts))]
        assert other.state() == one.state()
        fits.append(one.weights.tobytes())
    assert [fits[0] == fits[1], fits[1] == fits[2], fits[2] == fits[3]] == [True, False, True]


def test_features_that_are_a_text_need_a_run() -> None:
    with pytest.raises(ConfigError):
        reward(features=lambda item, text: f"{item} {text}")(asked("ab"))


def test_an_answer_without_a_label_fails_alone_and_is_not_learned_from() -> None:
    def label(item: object, text: str) -> float:
        del item
        if text == "raises":
            raise ValueError(text)
        return float("nan") if text == "nan" else float(text == "ab")

    odd, plain = reward(label=label, every=1), reward(label=label, every=1)
    found = odd(asked("ab", "nan", "b", "raises"))
    assert [isinstance(one, Failed) for one in found] == [False, True, False, True]
    plain(asked("ab", "b"))
    assert odd.state() == plain.state()


@pytest.mark.parametrize("odd", ["raises", "nan", "of a wrong kind"])
def test_an_answer_without_features_fails_alone_and_is_not_fitted(odd: str) -> None:
    def features(item: str, text: str) -> Any:
        del item
        if text == "raises":
            raise ValueError(text)
        return {"nan": [float("nan"), 1.0], "of a wrong kind": [None, 1.0]}.get(text, [len(text), 1.0])

    broken, plain = reward(features=features, every=1), reward(features=features, every=1)
    assert [isinstance(one, Failed) for one in broken(asked("ab", odd, "b"))] == [False, True, False]
    plain(asked("ab", "b"))
    assert broken.state() == plain.state()
    assert isinstance(LabelsAlone(learned=broken)(asked(odd))[0], Failed)


def test_answers_with_unlike_features_are_refused() -> None:
    unlike = reward(features=lambda _, text: [1.0] * len(text))
    with pytest.raises(DataError) as refused:
        unlike(asked("ab", "b"))
    assert refused.value.field == "features"
