"""Interface of a loss for the engine: a built-in loss with its settings, or a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.exact import fsum
from tinsmith.ops.objectives.loss_inputs import require_finite
from tinsmith.ops.objectives.losses import LOSSES, LossConfig, LossInputs, LossValue
from tinsmith.types.datum import FloatArray, LossName
from tinsmith.types.errors import ConfigError, InputError


class Objective(Protocol):
    """Loss ready for computation: a sum over datums of a function of each datum alone."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Numbers of dimensions that a datum's targets may have."""
        ...

    def check(self, inputs: LossInputs, shape: tuple[int, ...], field: str) -> None:
        """Reject a datum whose inputs, apart from its targets of this shape, do not match the loss.

        Raises:
            InputError: naming the input under `field`, its value and what is allowed.
        """
        ...

    def value(self, logprobs: FloatArray, inputs: LossInputs) -> LossValue:
        """Return value and gradient of one datum.

        Raises:
            InputError: it cannot be computed.
        """
        ...

    def metrics(self, values: Sequence[LossValue]) -> dict[str, float]:
        """Return a request's metrics, by `name:reduction`, from its datums' values in any order."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Loss of the registry with its settings."""

    name: LossName
    config: LossConfig

    @property
    def ranks(self) -> tuple[int, ...]:
        """Numbers of dimensions that a datum's targets may have."""
        return LOSSES[self.name].ranks

    def check(self, inputs: LossInputs, shape: tuple[int, ...], field: str) -> None:
        """Reject a datum with a missing or superfluous input, or one of another shape or not finite."""
        entry = LOSSES[self.name]
        for name in entry.required:
            if name not in inputs:
                raise InputError(
                    f"the loss {self.name} needs this input",
                    field=f"{field}.{name}",
                    allowed=f"{', '.join(entry.required)} for every datum",
                )
        known = (*entry.required, *entry.optional)
        for name in sorted(set(inputs) - set(known)):
            raise InputError(
                f"the loss {self.name} does not read this input, and would ignore it",
                field=f"{field}.{name}",
                allowed=known,
            )
        for name in known:
            if name not in inputs or name == "target_tokens":
                continue
            if inputs[name].shape != shape:
                raise InputError(
                    "a loss input has another shape than its targets",
                    field=f"{field}.{name}",
                    value=inputs[name].shape,
                    allowed=str(shape),
                )
            require_finite(inputs[name], f"{field}.{name}")

    def value(self, logprobs: FloatArray, inputs: LossInputs) -> LossValue:
        """Return value and gradient of one datum."""
        return LOSSES[self.name].value(logprobs, inputs, self.config)

    def metrics(self, values: Sequence[LossValue]) -> dict[str, float]:
        """Return the sum of the loss and of every metric."""
        found = {"loss:sum": fsum(np.array([value.total for value in values]))}
        for name in LOSSES[self.name].metrics:
            found[f"{name}:sum"] = fsum(np.array([value.metrics[name] for value in values]))
        return found


def objective_of(loss: LossName | CustomLoss, settings: Mapping[str, object]) -> Objective:
    """Return a loss with a request's `loss_fn_config`, ready for that request.

    Raises:
        ConfigError: for an unknown setting; a custom loss takes none.
    """
    if isinstance(loss, LossName):
        return BuiltIn(loss, LossConfig.from_mapping(loss, settings))
    for key, value in settings.items():
        raise ConfigError(
            "a custom loss has no settings",
            field=f"loss_fn_config.{key}",
            value=value,
            allowed="none; what varies is an input of the loss",
        )
    return loss.objective()
