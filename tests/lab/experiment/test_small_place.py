"""`at=small`: what its runs are told, how long they are said to take, and what limits a look."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_slice import Made

from tinsmith.cli.registered import EXPERIMENTS, find, plan_of, source_of
from tinsmith.lab.experiment import estimate
from tinsmith.lab.experiment.estimate import (
    MEASURED_PARAMETERS,
    Lengths,
    dry_run,
    machine_pace,
    run_seconds,
    time_and_disk,
    unusual,
)
from tinsmith.lab.experiment.experiment import Plan, key_help, make_plan
from tinsmith.lab.experiment.key_text import SMALL_MODEL, At
from tinsmith.lab.papers.labels import label_task_of
from tinsmith.lab.papers.run_data import minutes, missing_before
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import SparseSettings, Watched
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
    assert (label_task_of(plan).prompt, label_task_of(plan).contract.form) == ("short", "two_key")
    assert plan.circumstances.model_name == SMALL_MODEL
    assert label_task_of(small(name, prompt="plain")).prompt == "plain", "the command line goes before it"


def test_rl_on_labels_begins_with_supervised_steps_at_a_rate_for_this_size() -> None:
    for name in ("ladder/exp4", "remedy/exp6", "control/shuffled_labels"):
        settings = small(name).settings
        nano = make_plan(find(name), {}).settings
        assert 0 < settings.sft_steps < settings.steps
        assert settings.learning_rate < nano.learning_rate


def test_help_has_a_column_for_every_place_where_an_experiment_runs() -> None:
    assert all(set(key.values) == set(At) for key in task_help(source_of("rlvr", {}), {})[1])
    assert all(At.SMALL not in key.values for key in key_help(find("joint/disruption_novelty")))


@pytest.mark.usefixtures("own_home")
def test_a_dry_run_on_labels_tries_an_answer_and_counts_what_is_built_before() -> None:
    plan = make_plan(find("remedy/exp6"), {})
    lines = dry_run(plan)
    (reward,) = [line.split() for line in lines if line.startswith("  reward ")]
    assert float(reward[1]) > float(reward[6])  # a right answer before a wrong one
    assert any(line.startswith("  parse gave ") for line in lines)
    assert len([line for line in lines if line.startswith("first a synthetic world and a small base: ")]) == 1
    assert not any(line.startswith("first ") for line in dry_run(small("remedy/exp6")))
    assert not any(line.startswith("  reward ") for line in dry_run(make_plan(find("sft/lora_offset"), {})))


def test_a_dry_run_looks_whether_the_world_and_the_base_are_there(made: Made, own_home: Path) -> None:
    plan = make_plan(find("remedy/exp6"), {"data": str(made.data)})
    first = [line for line in dry_run(plan) if line.startswith("first ")]
    assert len(first) == 1
    assert "world" not in first[0]
    ((place, taken),) = missing_before(plan).items()
    assert (place.parent, taken > 0.0) == (own_home / "bases", True)
    place.mkdir(parents=True)
    assert not any(line.startswith("first ") for line in dry_run(plan))


@pytest.mark.parametrize(("at", "model"), [("small", "tinsmith/nano"), ("nano", "tinsmith/nano"), ("small", "")])
def test_a_small_base_with_the_settings_of_a_pretrained_model_is_warned_about(at: str, model: str) -> None:
    plan = make_plan(find("ladder/exp4"), {"at": at, **({"model_name": model} if model else {})})
    assert bool(unusual(plan)) == (at == "small" and model == "tinsmith/nano")


@pytest.mark.parametrize(
    ("at", "model", "url"),
    [
        ("nano", "smollm2", ""),
        ("nano", "meta-llama/Llama-3.1-8B", "http://127.0.0.1:8000"),
        ("seed", "meta-llama/Llama-3.1-8B", "http://127.0.0.1:8000"),
        ("nano", "tinsmith/nano", "http://127.0.0.1:8000"),
        ("small", "smollm2", ""),
    ],
)
def test_a_pretrained_model_with_the_settings_of_a_nano_base_is_warned_about(at: str, model: str, url: str) -> None:
    given = {"at": at, "model_name": model, "learning_rate": "6e-4" if at == "nano" else "4e-5"}
    lines = unusual(plan_of("rlvr", {**given, **({"base_url": url} if url else {})}))
    assert bool(lines) == (at == "nano" and model != "tinsmith/nano")
    assert all("at=small" in line and "at=seed" in line for line in lines)


@pytest.mark.parametrize(("loss", "temperature", "warned"), [("ppo", "0.7", True), ("ppo", "1.0", False)])
def test_a_ratio_that_is_clipped_before_any_update_is_warned_about(loss: str, temperature: str, warned: bool) -> None:
    plan = plan_of("rlvr", {"loss_fn": loss, "temperature": temperature})
    assert any("before any update" in line for line in unusual(plan)) == warned


def test_a_forecast_beside_other_work_is_one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = time_and_disk(3.0, 20)
    monkeypatch.setattr(estimate, "other_work", lambda: 2.0)
    assert "6.0 minutes" in time_and_disk(3.0, 20)
    assert "3.0 minutes" in alone


def test_more_work_and_a_larger_model_take_longer() -> None:
    settings, pace = small("remedy/exp6").settings, machine_pace(MEASURED_PARAMETERS)
    usual = run_seconds(settings, LENGTHS, pace)
    assert run_seconds(settings, LENGTHS, machine_pace(2 * MEASURED_PARAMETERS)) > 1.8 * usual
    assert run_seconds(replace(settings, steps=2 * settings.steps), LENGTHS, pace) > 1.3 * usual
    assert run_seconds(settings, replace(LENGTHS, tested=500), pace) > usual
    assert run_seconds(settings, replace(LENGTHS, examined=80), pace) > usual
    assert run_seconds(replace(settings, kl_penalty_coef=0.1), LENGTHS, pace) > usual
    requests = run_seconds(settings, replace(LENGTHS, replies=5.0), pace) - usual
    later = 4 * settings.group_size * settings.groups_per_batch * (settings.steps - settings.sft_steps)
    assert requests >= later * pace.request  # each reply after the first is a request of its own


def test_what_is_watched_takes_time_too() -> None:
    settings, pace = small("remedy/exp6").settings, machine_pace(MEASURED_PARAMETERS)
    usual, probed = run_seconds(settings, LENGTHS, pace), replace(LENGTHS, options=100)
    assert run_seconds(settings, probed, pace) == usual
    informed = replace(settings, watch=Watched.MUTUAL_INFORMATION)
    assert run_seconds(informed, LENGTHS, pace) > usual
    sure = replace(settings, watch=Watched.CONFIDENCE)
    assert run_seconds(sure, replace(probed, option_texts=20.0), pace) > run_seconds(sure, probed, pace)
    assert run_seconds(sure, probed, pace) > run_seconds(sure, LENGTHS, pace) > usual
    forced = replace(settings, force_options=True)
    assert run_seconds(forced, probed, pace) > run_seconds(forced, LENGTHS, pace) > usual
    shaped = replace(settings, confidence_penalty=1.0)
    assert run_seconds(shaped, probed, pace) > run_seconds(shaped, LENGTHS, pace) > usual


def test_answers_of_the_base_before_the_first_step_take_time() -> None:
    settings = SparseSettings(steps=10, learning_rate=1e-3)
    usual, pace = run_seconds(settings, LENGTHS, machine_pace(MEASURED_PARAMETERS)), machine_pace(MEASURED_PARAMETERS)
    more = run_seconds(replace(settings, base_rollouts=2 * settings.base_rollouts), LENGTHS, pace) - usual
    assert more == pytest.approx(settings.asked_items * settings.base_rollouts * LENGTHS.answer * pace.written)


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


@pytest.mark.parametrize("given", [{"sft_steps": "5"}, {}])
def test_a_key_that_changes_nothing_is_warned_of(given: dict[str, str]) -> None:
    plan = plan_of("crossroads", {"sft_batch_size": "2", **given})
    assert any("sft_batch_size changes nothing" in line for line in unusual(plan)) != bool(given)
