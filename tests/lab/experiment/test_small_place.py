"""`at=small` and other models than the nano base: what their runs are told, their rates, and their forecasts."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tinsmith.cli.registered import EXPERIMENTS, find, plan_of, source_of
from tinsmith.lab.experiment.estimate import (
    MEASURED_PARAMETERS,
    START_SECONDS,
    Lengths,
    correction,
    dry_run,
    machine_pace,
    remember,
    run_seconds,
)
from tinsmith.lab.experiment.experiment import Plan, key_help, make_plan
from tinsmith.lab.experiment.key_text import SMALL_MODEL, At
from tinsmith.lab.experiment.materials import CARD, require_own_rates
from tinsmith.lab.papers.estimate import minutes
from tinsmith.lab.papers.labels import task_asked
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import RlSettings, Watched
from tinsmith.lab.study.sizes import cells_of
from tinsmith.lab.user_task.entry import task_help
from tinsmith.studies.adapters import SMALL_RATES
from tinsmith.studies.adapters import study as adapters_study
from tinsmith.studies.sft_vs_rl import study as sft_vs_rl
from tinsmith.types.errors import ConfigError

LENGTHS = Lengths(prompt=200, answer=20, labels=3, examined=40, tested=100)


def small(name: str, **changes: str) -> Plan:
    return make_plan(find(name), {"at": "small", **changes})


@pytest.mark.parametrize("name", ["ladder/baseline", "ladder/exp5", "remedy/exp6", "sft/qdora"])
def test_the_ladder_asks_what_a_small_chat_model_can_answer(name: str) -> None:
    plan = small(name)
    assert (task_asked(plan).prompt, task_asked(plan).contract.form) == ("short", "two_key")
    assert plan.circumstances.model_name == SMALL_MODEL
    assert task_asked(small(name, prompt="plain")).prompt == "plain", "the command line goes before it"


def test_rl_on_labels_begins_with_supervised_steps_at_a_rate_for_this_size() -> None:
    for name in ("ladder/exp4", "remedy/exp6", "control/shuffled_labels"):
        settings = small(name).settings
        assert isinstance(settings, RlSettings)
        nano = make_plan(find(name), {}).settings
        assert 0 < settings.sft_steps < settings.steps
        assert settings.learning_rate < nano.learning_rate


def test_help_has_a_column_for_every_place_where_an_experiment_runs() -> None:
    assert all(set(key.values) == set(At) for key in task_help(source_of("rlvr", {}), {})[1])
    assert all(At.SMALL not in key.values for key in key_help(find("joint/disruption_novelty")))


def test_more_work_and_a_larger_model_take_longer() -> None:
    settings, pace = small("remedy/exp6").settings, machine_pace(MEASURED_PARAMETERS)
    usual = run_seconds(settings, LENGTHS, pace)
    assert run_seconds(settings, LENGTHS, machine_pace(2 * MEASURED_PARAMETERS)) > 1.8 * usual
    assert run_seconds(replace(settings, steps=2 * settings.steps), LENGTHS, pace) > 1.3 * usual
    assert run_seconds(settings, replace(LENGTHS, tested=500), pace) > usual
    assert run_seconds(settings, replace(LENGTHS, examined=80), pace) > usual


def test_what_is_watched_takes_time_too() -> None:
    settings, pace = small("remedy/exp6").settings, machine_pace(MEASURED_PARAMETERS)
    usual, probed = run_seconds(settings, LENGTHS, pace), replace(LENGTHS, options=100)
    assert run_seconds(settings, probed, pace) == usual
    informed = replace(settings, watch=Watched.MUTUAL_INFORMATION)
    assert run_seconds(informed, LENGTHS, pace) > usual
    sure = replace(settings, watch=Watched.CONFIDENCE)
    assert run_seconds(sure, probed, pace) > run_seconds(sure, LENGTHS, pace) > usual
    shaped = replace(settings, confidence_penalty=1.0)
    assert run_seconds(shaped, probed, pace) > run_seconds(shaped, LENGTHS, pace) > usual


@pytest.mark.parametrize("name", [one for one in EXPERIMENTS if "joint" not in one and "adversarial" not in one])
def test_a_dry_run_tells_minutes_for_every_experiment(name: str) -> None:
    assert any(line.startswith("time: about ") for line in dry_run(small(name)))


def test_a_model_of_unknown_size_or_elsewhere_has_no_forecast(tmp_path: Path) -> None:
    assert minutes(small("sft/lora", model_name="who/knows")) is None
    assert minutes(small("sft/lora", base_url="http://127.0.0.1:9")) is None
    assert minutes(small("sft/lora", device="cuda", arithmetic="fast")) is None
    shape = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64}
    shape |= {"num_hidden_layers": 30, "num_attention_heads": 2, "num_key_value_heads": 1}
    shape |= {"intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 512}
    shape |= {"rms_norm_eps": 1e-5, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    tiny, usual = (minutes(small("sft/lora", model_name=one)) for one in (str(tmp_path), SMALL_MODEL))
    assert tiny is not None
    assert usual is not None
    assert tiny < usual / 10


def test_both_studies_have_numbers_for_it() -> None:
    adapters = cells_of(adapters_study, {"at": "small"})
    assert {arm.rates for arm in adapters.arms} == {tuple(map(float, SMALL_RATES.split(",")))}
    assert all(
        make_plan(cell.experiment, cell.overrides).frame.at is At.SMALL
        for arm in adapters.arms
        for cell in adapters.tuning(arm).values()
    )
    assert cells_of(sft_vs_rl, {"at": "small", "world": "planted"}).shared["at"] == "small"
    assert "at" not in cells_of(sft_vs_rl, {}).shared, "an identity that was there before"
    with pytest.raises(ConfigError) as caught:
        cells_of(sft_vs_rl, {"at": "seed"})
    assert caught.value.allowed == "nano, small"


def test_rubrics_have_no_test_split_to_limit() -> None:
    with pytest.raises(ConfigError, match="test_items"):
        plan_of("rlvr", {"test_items": "5"})
    assert make_plan(find("sft/lora"), {"test_items": "5"}).settings.test_items == 5
    assert plan_of("rlvr", {"at": "small"}).frame.kind is Kind.RLVR


DEEP = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 30,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder of a deep model of little width, as far as its config goes."""
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(DEEP))
    return folder


def refused(name: str, **changes: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        require_own_rates(make_plan(find(name), changes))
    return caught.value


@pytest.mark.parametrize("name", ["ladder/exp4", "sft/lora"])
def test_another_model_is_not_trained_at_the_nano_base_rate(name: str, deep: Path) -> None:
    error = refused(name, model_name=str(deep))
    assert error.field == "model_name"
    assert "at=small" in (error.fix or "")
    assert "learning_rate=" in (error.fix or "")
    require_own_rates(make_plan(find(name), {"model_name": str(deep), "learning_rate": "1e-4"}))
    require_own_rates(make_plan(find(name), {"model_name": str(deep), "at": "small"}))


def test_supervised_steps_before_rl_have_a_rate_of_their_own(deep: Path) -> None:
    given = {"model_name": str(deep), "learning_rate": "1e-4"}
    error = refused("remedy/sft_then_rl", **given)
    assert "sft_learning_rate=" in (error.fix or "")
    given["sft_learning_rate"] = "1e-4"
    require_own_rates(make_plan(find("remedy/sft_then_rl"), given))


def test_a_kind_that_has_no_small_place_is_not_sent_there(deep: Path) -> None:
    assert "at=small" not in (refused("joint/disruption_novelty", model_name=str(deep)).fix or "")


def test_what_a_server_elsewhere_serves_is_another_model_too() -> None:
    assert refused("ladder/exp4", base_url="http://127.0.0.1:9", model_name="x").value == "x"


def test_a_nano_base_is_one_wherever_it_lies(deep: Path) -> None:
    (deep / CARD).write_text("{}")
    require_own_rates(make_plan(find("ladder/exp4"), {"model_name": str(deep)}))


def test_where_nothing_is_trained_no_rate_is_asked_for(deep: Path) -> None:
    require_own_rates(make_plan(find("control/zero_shot"), {"model_name": str(deep)}))


def test_a_dry_run_refuses_it_too(deep: Path) -> None:
    with pytest.raises(ConfigError):
        dry_run(make_plan(find("ladder/exp4"), {"model_name": str(deep)}))


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    return plan_of("crossroads", {})


def test_a_forecast_is_corrected_by_what_the_last_run_took(plan: Plan) -> None:
    assert correction(plan) == 1.0
    remember(plan, START_SECONDS + 100.0, START_SECONDS + 300.0)
    assert correction(plan) == 3.0
    # The next forecast had that in it, and was twice too long.
    remember(plan, START_SECONDS + 300.0, START_SECONDS + 150.0)
    assert correction(plan) == 1.5


def test_a_run_on_one_thread_is_forecast_to_take_longer_until_one_was_measured(plan: Plan) -> None:
    alone = plan_of("crossroads", {"threads": "1"})
    assert correction(plan_of("rlvr", {"threads": "1", "at": "small"})) == 2.0
    assert correction(alone) == pytest.approx(math.sqrt(2.0))
    assert correction(plan_of("crossroads", {"threads": "4"})) == 1.0
    remember(alone, START_SECONDS + 200.0, START_SECONDS + 100.0)
    assert correction(alone) == pytest.approx(math.sqrt(0.5))
    assert correction(plan) == 1.0


def test_short_runs_and_unknown_forecasts_are_no_measure(plan: Plan) -> None:
    remember(plan, None, 500.0)
    remember(plan, 2 * START_SECONDS, 500.0)
    assert correction(plan) == 1.0


def test_a_correction_has_bounds_and_a_damaged_file_is_none(plan: Plan, tmp_path: Path) -> None:
    remember(plan, START_SECONDS + 100.0, START_SECONDS + 1e6)
    assert correction(plan) == 16.0
    (tmp_path / "paces.json").write_text("[")
    assert correction(plan) == 1.0
