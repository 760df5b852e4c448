"""Names by which pages call what code calls otherwise: every code name has one."""

from collections.abc import Callable

import pytest

from tinsmith.lab.labels.contracts import Form, Outcome
from tinsmith.lab.labels.rewards import REWARDS
from tinsmith.lab.results.arms import TITLES
from tinsmith.lab.settings import RlLoss
from tinsmith.stats.rates import Metric
from tinsmith.studies.disruption.experiments import EXPERIMENTS
from tinsmith.types.page_names import contract_name, metric_name, outcome_name, reward_name, setting_text

LONGEST_TITLE = 15
"""Characters that a table of 80 columns has for a row's name."""
NAMED = [
    *((outcome_name, one.value) for one in Outcome),
    *((contract_name, f"disruption/{one}") for one in Form),
    *((reward_name, one) for one in REWARDS),
    *((metric_name, one.value) for one in (Metric.MACRO_F1, Metric.LABEL_MATCH, Metric.MIN_CLASS_RECALL)),
]


@pytest.mark.parametrize(("named", "code"), NAMED)
def test_no_code_name_stands_on_a_page(named: Callable[[str], str], code: str) -> None:
    assert "_" not in named(code)
    assert "/" not in named(code)


def test_a_setting_has_its_name_and_its_code() -> None:
    for loss in RlLoss:
        text = setting_text("loss_fn", loss.value)
        assert text.endswith(f" ({loss.value})")
        assert text != f"{loss.value} ({loss.value})"
    assert setting_text("steps", "ppo") == "ppo"


def test_every_experiment_has_a_short_title() -> None:
    assert set(EXPERIMENTS) == set(TITLES)
    assert max(map(len, TITLES.values())) <= LONGEST_TITLE
