"""The settings of the losses: defaults, and errors that name the key."""

import math

import pytest
from loss_cases import ALL, config_of

from tinsmith.ops.objectives.losses import LOSSES, LossConfig
from tinsmith.types.datum import LossName
from tinsmith.types.errors import ConfigError


def test_defaults_are_tinker_s() -> None:
    ppo, cispo = config_of(LossName.PPO), config_of(LossName.CISPO)
    assert (ppo.clip_low_threshold, ppo.clip_high_threshold) == (0.8, 1.2)
    assert (cispo.clip_low_threshold, cispo.clip_high_threshold) == (0.0, 4.0)
    assert config_of(LossName.GSPO) == ppo


def test_given_settings_replace_the_defaults_one_by_one() -> None:
    config = LossConfig.from_mapping(LossName.PPO, {"clip_high_threshold": 2})
    assert config == LossConfig(clip_low_threshold=0.8, clip_high_threshold=2.0)


@pytest.mark.parametrize("loss", ALL)
def test_an_unknown_setting_is_named_with_the_known_ones(loss: LossName) -> None:
    with pytest.raises(ConfigError, match=r"loss_fn_config\.clip_hi = 1\.2") as caught:
        LossConfig.from_mapping(loss, {"clip_hi": 1.2})
    message = str(caught.value)
    assert all(key in message for key in LOSSES[loss].defaults)
    assert loss in message


def test_dro_without_beta_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss_fn_config\.beta"):
        LossConfig.from_mapping(LossName.DRO, {})


@pytest.mark.parametrize(
    ("loss", "settings", "field"),
    [
        (LossName.PPO, {"clip_low_threshold": -0.1}, "clip_low_threshold"),
        (LossName.PPO, {"clip_low_threshold": math.nan}, "clip_low_threshold"),
        (LossName.PPO, {"clip_low_threshold": math.inf}, "clip_low_threshold"),
        (LossName.PPO, {"clip_high_threshold": 0.5}, "clip_high_threshold"),
        (LossName.CISPO, {"clip_high_threshold": math.nan}, "clip_high_threshold"),
        (LossName.GSPO, {"clip_high_threshold": "1.2"}, "clip_high_threshold"),
        (LossName.PPO, {"clip_high_threshold": True}, "clip_high_threshold"),
        (LossName.DRO, {"beta": -1.0}, "beta"),
        (LossName.DRO, {"beta": math.inf}, "beta"),
        (LossName.DRO, {"beta": None}, "beta"),
    ],
)
def test_an_impossible_setting_is_named(loss: LossName, settings: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"loss_fn_config\.{field} = "):
        LossConfig.from_mapping(loss, settings)
