"""Start-up certificate: evidence that this machine keeps the arithmetic's promise on a model's own shapes.

Each check computes one fixed row (or one fixed sequence) many times: in batches of many sizes, at several positions,
among other neighbours, for several thread counts, cached and uncached, and counts the distinct bit patterns. If a mode
promises one pattern and there are more, the engine refuses to start and names the op and the shape.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tinsmith.engine.checks.checked_mixtures import mixtures
from tinsmith.engine.checks.checked_model import sampler_and_trainer
from tinsmith.engine.checks.checked_ops import Check, attention, choice, logprobs, products, row_steps, weight_gradients
from tinsmith.engine.parts import SOUND, Parts
from tinsmith.models.decoder import Decoder
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import DeterminismError
from tinsmith.types.fingerprints import sha256_of

logger = logging.getLogger(__name__)

CHECKS: tuple[Callable[[Decoder, Parts], Iterator[Check]], ...] = (
    products,
    weight_gradients,
    row_steps,
    mixtures,
    logprobs,
    choice,
    attention,
    sampler_and_trainer,
)
"""Checks of a certificate, in order; each yields one finding per shape."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Checks and their findings. Equal certificates mean equal bits on everything checked, on any machine."""

    arithmetic: Arithmetic
    checks: tuple[Check, ...]

    @property
    def sha256(self) -> str:
        """SHA-256 of all findings."""
        return sha256_of(self)

    @property
    def holds(self) -> bool:
        """True if every input gave exactly one bit pattern."""
        return all(check.patterns == 1 for check in self.checks)


def certify(decoder: Decoder, *, parts: Parts = SOUND) -> Certificate:
    """Check every op on the shapes of `decoder`. A deliberate deviation causes a warning, not an error.

    Raises:
        DeterminismError: if the arithmetic promises one bit pattern and an op gave more.
    """
    checks = tuple(found for check in CHECKS for found in check(decoder, parts))
    certificate = Certificate(decoder.kernels.arithmetic, checks)
    bad = next((check for check in checks if check.patterns != 1), None)
    defect = "" if bad is None else f"{bad.op} on {bad.shape} gave {bad.patterns} bit patterns"
    if parts.deviation is not Deviation.NONE:
        logger.warning(
            "deviation=%s: this engine is wrong on purpose; %s",
            parts.deviation,
            defect or "its certificate does not show it",
        )
    elif bad is not None and decoder.kernels.arithmetic is not Arithmetic.FAST:
        raise DeterminismError(
            f"arithmetic={decoder.kernels.arithmetic} does not hold here: {defect}",
            field="arithmetic",
            value=decoder.kernels.arithmetic.value,
            allowed="one bit pattern for any batch, position, thread count and cache",
            fix="use arithmetic=fast if repeatable results do not matter, or report this machine",
        )
    return certificate
