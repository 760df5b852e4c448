"""How a prediction may be challenged: for the true label, for a wrong one, or without a claim."""

from __future__ import annotations

from enum import StrEnum


class Arm(StrEnum):
    """What a challenger argues for. Drawn before it is known whether the prediction is right."""

    TRUTHFUL = "truthful"
    """The gold label, whatever was predicted."""
    MISLEADING = "misleading"
    """A wrong label."""
    NULL = "null"
    """Nothing: it asks whether the prediction is sure."""
