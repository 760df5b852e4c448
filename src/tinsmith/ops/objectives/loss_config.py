"""Settings of a loss: the keys of each, and Tinker's defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn, Self

from tinsmith.types.datum import LossName
from tinsmith.types.errors import ConfigError

_PPO_CLIP = MappingProxyType({"clip_low_threshold": 0.8, "clip_high_threshold": 1.2})

DEFAULTS: Mapping[LossName, Mapping[str, float | None]] = MappingProxyType(
    {
        LossName.CROSS_ENTROPY: MappingProxyType({}),
        LossName.IMPORTANCE_SAMPLING: MappingProxyType({}),
        LossName.PPO: _PPO_CLIP,
        LossName.CISPO: MappingProxyType({"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}),
        LossName.DRO: MappingProxyType({"beta": None}),
        LossName.GSPO: _PPO_CLIP,
    }
)
"""Keys of `loss_fn_config` per loss; None means no default, so that the key is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """Settings of one loss. The field defaults are neutral: no clipping, no penalty."""

    clip_low_threshold: float = 0.0
    """Lower bound of the ratio p/q itself (not of its distance from 1)."""
    clip_high_threshold: float = math.inf
    """Upper bound of the ratio p/q itself."""
    beta: float = 0.0
    """Weight of DRO's quadratic penalty, in 1/nats**2."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.clip_low_threshold < math.inf:
            _refuse("clip_low_threshold", self.clip_low_threshold, ">= 0 and finite")
        if not self.clip_high_threshold >= self.clip_low_threshold:
            allowed = f">= clip_low_threshold = {self.clip_low_threshold}"
            _refuse("clip_high_threshold", self.clip_high_threshold, allowed)
        if not 0.0 <= self.beta < math.inf:
            _refuse("beta", self.beta, ">= 0 and finite")

    @classmethod
    def from_mapping(cls, loss: LossName, mapping: Mapping[str, object]) -> Self:
        """Return the settings of `loss` from a request's `loss_fn_config`; missing keys take their defaults.

        Source: Tinker's loss documentation (PPO 0.8/1.2, CISPO 0/4). It publishes no default of
        DRO's beta, which is therefore required, nor of GSPO's thresholds, which are PPO's here.

        Raises:
            ConfigError: for an unknown key, a missing key without default, or a value that is not a number in its
                range.
        """
        defaults = DEFAULTS[loss]
        allowed = ", ".join(defaults) or f"none: {loss} has no settings"
        for key, value in mapping.items():
            if key not in defaults:
                raise ConfigError(
                    f"the loss {loss} does not know this setting",
                    field=f"loss_fn_config.{key}",
                    value=value,
                    allowed=allowed,
                )
        settings: dict[str, float] = {}
        for key, default in defaults.items():
            value = mapping.get(key, default)
            if value is None:
                raise ConfigError(
                    f"the loss {loss} needs this setting: it has no published default",
                    field=f"loss_fn_config.{key}",
                    value=value,
                    allowed="a number",
                    fix=f"pass loss_fn_config={{{key!r}: ...}}",
                )
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                _refuse(key, value, "a number")
            try:
                settings[key] = float(value)
            except OverflowError:
                _refuse(key, value, "a number of float64")
        return cls(**settings)


def _refuse(key: str, value: object, allowed: str) -> NoReturn:
    raise ConfigError("the loss cannot have this value", field=f"loss_fn_config.{key}", value=value, allowed=allowed)
