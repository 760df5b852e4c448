"""A probed task: a reply is cut where its answer begins, shaping changes advantages, and other tasks are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_task import KEYS as SHORT

from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.runs.files import METRICS
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

KEYS = {
    **{**SHORT, "steps": "1", "group_size": "2", "eval_every": "0", "max_tokens": "8", "base_steps": "2"},
    **{"zero_variance_filter": "false", "watch": "confidence", "confidence_penalty": "1.0"},
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("run") / "out"
    conduct(plan_of("countdown", {**KEYS, "log_path": str(out)}), say=unsaid)
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def test_a_step_tells_what_it_paid_for(rows: list[dict[str, Any]]) -> None:
    first = rows[0]
    assert first["train/confidence/tokens_sent"] > first["train/confidence/tokens_computed"] > 0.0
    assert -1.0 <= first["train/confidence/penalty"] <= 1.0
    assert first["optim/grad_norm"] > 0.0


def test_an_evaluation_tells_confidence_and_both_controls(rows: list[dict[str, Any]]) -> None:
    last = rows[-1]
    for name in ("rho", "rho_shuffled", "rho_foreign"):
        assert -1.0 <= last[f"watch/confidence/{name}"] <= 1.0
    assert 0.0 < last["watch/confidence/gold_0.0"] < 1.0
    assert last["watch/confidence/certainty_1.0"] >= 0.0


@pytest.mark.parametrize("given", [{"watch": "confidence"}, {"confidence_penalty": "0.5"}])
def test_a_task_that_is_not_probed_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="reasoning ends"):
        plan_of("sandbagger", given)


def test_a_list_of_papers_has_no_such_key() -> None:
    with pytest.raises(ConfigError, match="confidence_penalty"):
        plan_of("ladder/baseline", {"confidence_penalty": "1.0"})


def test_where_reasoning_ends(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(
        "from tinsmith import Probed, Task\n"
        "task = Task(items=[{'a': 1}, {'a': 2}], prompt='{a}', reward=lambda item, text: 1.0,\n"
        "    demonstrate=lambda item, random: 'x so 1',\n"
        "    probed=Probed(before_answer=' so ', options=lambda item: ['1', '2'], gold=lambda item: '1'))\n"
    )
    plan = plan_of(str(file), {"watch": "confidence"})
    assert plan.settings.watch == "confidence"
