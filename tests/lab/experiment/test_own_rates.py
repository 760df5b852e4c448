"""A model that is not the nano base: its rates are its own, or those of a place that is made for it."""

import json
from pathlib import Path

import pytest

from tinsmith.cli.registered import find
from tinsmith.lab.experiment.estimate import dry_run
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.experiment.materials import CARD, require_own_rates
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
