"""For which size of model an experiment's numbers are."""

from __future__ import annotations

import enum


class At(enum.StrEnum):
    """For which size of model the numbers are."""

    NANO = "nano"
    """The base that is built here, from scratch."""
    SMALL = "small"
    """A small pretrained chat model: SmolLM2-135M-Instruct, on two cores."""
    SEED = "seed"
    """As in the source notes: Llama-3.1-8B-Instruct on a hosted service."""
