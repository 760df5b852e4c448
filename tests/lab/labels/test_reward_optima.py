"""Where each reward leads on a world of four kinds of papers whose posteriors are known."""

import numpy as np
import pytest
from task_cases import per_label_at

from tinsmith.lab.labels.rewards import make_reward
from tinsmith.lab.labels.task import TASKS

POSTERIORS = np.array([[0.36, 0.38, 0.26], [0.36, 0.26, 0.38], [0.31, 0.40, 0.29], [0.3033, 0.2933, 0.4033]])
"""Four kinds of papers, equally frequent; each class has a third of the papers."""


def climbed(name: str) -> np.ndarray:
    """The confusion after gradient ascent on a table of label probabilities, from even shares."""
    reward = make_reward(name, TASKS["disruption"])
    logits = np.zeros((4, 3))
    for _ in range(4000):
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy /= policy.sum(axis=1, keepdims=True)
        confusion = (POSTERIORS[:, :, None] * policy[:, None, :]).mean(axis=0)
        values = POSTERIORS @ per_label_at(reward, confusion)
        # The natural gradient of the expected reward; bounded, so that no label is ever lost.
        logits += 0.1 * (values - (policy * values).sum(axis=1, keepdims=True))
        logits = (logits - logits.mean(axis=1, keepdims=True)).clip(-12, 12)
    return confusion


@pytest.mark.parametrize(
    ("name", "accuracy", "recalls"),
    [
        # What looks at one answer ends in one label per paper, and loses a class, or all but one.
        ("soft", 0.391, (0.0, 0.585, 0.587)),
        ("strong", 0.391, (0.0, 0.585, 0.587)),
        ("exp5", 0.333, (1.0, 0.0, 0.0)),
        # What reacts ends in a mixture in which every class keeps its third.
        ("macro_f1", 0.384, (0.36, 0.40, 0.40)),
        ("g_mean", 0.384, (0.370, 0.391, 0.391)),
        ("prior_matching", 0.384, (0.352, 0.399, 0.402)),
        ("inverse_share", 0.384, (0.347, 0.402, 0.404)),
    ],
)
def test_the_rule_that_a_reward_makes_optimal(name: str, accuracy: float, recalls: tuple[float, ...]) -> None:
    confusion = climbed(name)
    assert np.trace(confusion) == pytest.approx(accuracy, abs=2e-3)
    assert np.diag(confusion) * 3 == pytest.approx(recalls, abs=5e-3)
