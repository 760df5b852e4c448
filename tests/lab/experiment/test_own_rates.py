"""A model that is not the nano base: its rates are its own, or those of a place that is made for it."""

import json
from pathlib import Path

import pytest

from tinsmith.cli.registered import find, plan_of, study_named
from tinsmith.lab.experiment.estimate import dry_run
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.experiment.materials import CARD, require_own_rates, require_possible
from tinsmith.types.errors import ConfigError

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


def test_a_model_that_is_not_there_is_not_asked_for_its_rate() -> None:
    assert refused("ladder/exp4", model_name="/nowhere").what == "there is no such model"


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


@pytest.mark.parametrize("name", ["crossroads", "crossroads/sft", "lookup"])
def test_a_packaged_task_has_the_rate_of_its_small_base_and_of_no_other_model(name: str, deep: Path) -> None:
    with pytest.raises(ConfigError, match="no usual learning rate"):
        plan_of(name, {"model_name": str(deep)})
    assert plan_of(name, {"model_name": str(deep), "learning_rate": "1e-4"}).settings.learning_rate == 1e-4


def test_a_packaged_task_takes_the_usual_rate_of_another_size() -> None:
    rates = {at: plan_of("crossroads", {"at": at}).settings.learning_rate for at in ("nano", "small")}
    assert rates == {"nano": 1e-3, "small": 3e-4}


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("dead_groups", {"learning_rate": "1e-4"}),
        ("study/adapters", {"rates": "1e-5,2e-5,4e-5,8e-5,1e-4"}),
        ("study/sft_vs_rl", dict.fromkeys(("sft_rates", "rl_rates"), "1e-5,2e-5,4e-5,8e-5,1e-4")),
        ("sparse_select", {"learning_rate": "1e-4", "sparse_rates": "1e-4"}),
    ],
)
def test_a_packaged_study_asks_for_the_rates_of_another_model(name: str, rates: dict[str, str], deep: Path) -> None:
    study = study_named(name)
    assert study is not None
    for missing in rates:
        with pytest.raises(ConfigError) as caught:
            study.read({"model_name": str(deep), **{key: rates[key] for key in rates if key != missing}})
        assert f"{missing}=..." in (caught.value.fix or "")
    study.read({"model_name": str(deep), **rates})


def test_a_study_of_rates_names_its_own_keys_for_them(deep: Path, tmp_path: Path) -> None:
    study = study_named("study/learning")
    assert study is not None
    with pytest.raises(ConfigError) as caught:
        study.read({"task": "crossroads", "model_name": str(deep)})
    assert "sft_rates=... rl_rates=..." in (caught.value.fix or "")
    own = tmp_path / "own.py"
    own.write_text(
        "import tinsmith as ts\n"
        "task = ts.Task(items=['a b'] * 20, prompt=str, reward=lambda item, text: 1.0, keys={'learning_rate': 1e-4})\n"
    )
    study.read({"task": str(own), "model_name": str(deep)})


@pytest.mark.parametrize("name", ["crossroads", "ladder/exp4"])
def test_a_dry_run_names_the_fetch_of_a_model_that_is_not_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    dry = plan_of(name, {"at": "small", "dry_run": "true"})
    require_possible(dry)
    lines = dry_run(dry)
    assert any("tinsmith base fetch smollm2" in line for line in lines)
    assert "unknown" not in lines[-1]
    with pytest.raises(ConfigError, match="not fetched yet"):
        require_possible(plan_of(name, {"at": "small"}))
