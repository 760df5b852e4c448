"""What `moe/wander` is asked for: which mixture, how many texts, in which batches, by whose arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.key_text import truth
from tinsmith.lab.study.keys import DRY_RUN, StudyKey, StudyKeys, count, numbers
from tinsmith.types.errors import ConfigError

WANDER: Final = "moe/wander"
QUESTION: Final = "Do a mixture's routes, log-probabilities and RL steps depend on who else is in the batch?"
MOE_NANO: Final = "tinsmith/moe-nano"


class Engine(StrEnum):
    """Who computes."""

    CANONICAL = "canonical"
    FAST = "fast"
    """Our decoder on the vendor's kernels."""
    TRANSFORMERS = "transformers"
    """As it comes: its own attention and its own experts."""


class Dtype(StrEnum):
    """In which numbers."""

    FP32 = "fp32"
    BF16 = "bf16"
    """Canonical: weights rounded to bf16, computed with in fp32. Fast: products of bf16. transformers: all of it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One arithmetic."""

    engine: Engine
    dtype: Dtype

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}"


WANDER_KEYS: Final = StudyKeys(
    own=(
        StudyKey("model", MOE_NANO, "The mixture: a built-in one, or a folder."),
        StudyKey("out", "runs/moe-wander", "The folder that it is written to."),
        StudyKey(
            "base_steps",
            "120",
            "Steps of next-token training on the built-in corpus before anything is measured; 0 for a model that is "
            "trained already.",
        ),
        StudyKey("prompts", "24", "How many."),
        StudyKey("samples", "4", "Texts of each prompt: a group of RL."),
        StudyKey("prompt_tokens", "40", "Most tokens of a prompt; lengths differ."),
        StudyKey("tokens", "32", "Of a text."),
        StudyKey(
            "batches", "8,32", "How many texts are computed at once, beside one by one; the RL step is of the largest."
        ),
        StudyKey("sides", "canonical,fast,transformers", "Whose arithmetic."),
        StudyKey("seed", "0", "Of weights, prompts, texts and rewards."),
        DRY_RUN,
    ),
    more="The texts are drawn once, by canonical arithmetic; every side is asked about the same ones.",
)
"""What it can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WanderSettings:
    """See the keys."""

    model: str
    out: Path
    base_steps: int
    prompts: int
    samples: int
    prompt_tokens: int
    tokens: int
    batches: tuple[int, ...]
    sides: tuple[Side, ...]
    seed: int
    dry_run: bool = False


def wander_settings(given: Mapping[str, str]) -> WanderSettings:
    """Read `key=value` texts.

    Raises:
        ConfigError: an unknown key, or a value that is not allowed.
    """
    WANDER_KEYS.require(given)

    def whole(name: str, least: int) -> int:
        return count(name, WANDER_KEYS.value(given, name), least)

    batches = tuple(numbers("batches", WANDER_KEYS.value(given, "batches"), int))
    if min(batches) < 2 or len(set(batches)) < len(batches):
        raise ConfigError(
            "every batch holds several texts; one by one is computed anyhow",
            field="batches",
            value=WANDER_KEYS.value(given, "batches"),
            allowed="different whole numbers, 2 or more, with commas between them",
        )
    return WanderSettings(
        model=WANDER_KEYS.value(given, "model"),
        out=Path(WANDER_KEYS.value(given, "out")),
        base_steps=whole("base_steps", 0),
        prompts=whole("prompts", 1),
        samples=whole("samples", 2),
        prompt_tokens=whole("prompt_tokens", 8),
        tokens=whole("tokens", 2),
        batches=batches,
        sides=_sides(WANDER_KEYS.value(given, "sides")),
        seed=whole("seed", 0),
        dry_run=truth("dry_run", WANDER_KEYS.value(given, "dry_run")),
    )


def _sides(text: str) -> tuple[Side, ...]:
    named = text.split(",")
    if not set(named) <= set(Engine) or len(set(named)) < len(named):
        raise ConfigError("there is no such arithmetic here", field="sides", value=text, allowed=", ".join(Engine))
    return tuple(Side(engine, dtype) for engine in Engine if engine in named for dtype in Dtype)
