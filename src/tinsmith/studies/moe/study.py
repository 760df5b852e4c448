"""`tinsmith run moe/wander`: the same texts in other batches, by canonical arithmetic, the vendor's and others'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.study.files import write_json, write_text
from tinsmith.lab.study.keys import Measure, at_least
from tinsmith.types.datum import IntArray
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

Given = TypeVar("Given")
Made = TypeVar("Made")
Floats = NDArray[np.float32]
Digests = NDArray[np.int64]  # A number for each token that tells its experts in all layers.


class Engine(StrEnum):
    """Arithmetic that computes: canonical, our decoder on the vendor's kernels, or transformers as it comes."""

    CANONICAL = "canonical"
    FAST = "fast"
    TRANSFORMERS = "transformers"


class Dtype(StrEnum):
    """Type of the numbers; bf16 is of weights (canonical), of products (fast), or of all (transformers)."""

    FP32 = "fp32"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class Side:
    """One arithmetic."""

    engine: Engine
    dtype: Dtype

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Amount of what is measured."""

    base_steps: int = 120
    """Steps of next-token training on the built-in corpus before anything is measured; 0 for a model that is trained
    already."""
    prompts: int = 24
    """Number of prompts."""
    samples: int = 4
    """Texts of each prompt: a group of RL."""
    prompt_tokens: int = 40
    """Most tokens of a prompt; lengths differ."""
    tokens: int = 32
    """Tokens of a text."""
    batches: tuple[int, ...] = (8, 32)
    """Sizes of batches, beside one by one; the RL step is of the largest."""
    seed: int = 0
    """Of weights, prompts, texts and rewards."""

    def __post_init__(self) -> None:
        at_least(0, base_steps=self.base_steps, seed=self.seed)
        at_least(1, prompts=self.prompts)
        at_least(2, samples=self.samples, tokens=self.tokens)
        at_least(8, prompt_tokens=self.prompt_tokens)
        if min(self.batches) < 2 or len(set(self.batches)) < len(self.batches):
            what = "every batch holds several texts; one by one is computed anyhow"
            allowed = "different whole numbers, 2 or more, with commas between them"
            raise ConfigError(what, field="batches", value=",".join(map(str, self.batches)), allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A prompt and what was drawn after it."""

    prompt: IntArray
    completion: IntArray

    @property
    def tokens(self) -> IntArray:
        """Both."""
        return np.concatenate([self.prompt, self.completion]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """One text as it was computed: log-probabilities of the completion's tokens, in nats, and routes of all but one."""

    logprobs: Floats
    routes: Digests  # Of every token but the last.


def batched(compute: Callable[[Sequence[Given]], Sequence[Made]], items: Sequence[Given], size: int) -> list[Made]:
    """Return what is computed of some items, `size` at once."""
    return [one for at in range(0, len(items), size) for one in compute(items[at : at + size])]


WANDER_JSON: Final = "wander.json"
WANDER_PAGE: Final = "wander.html"
WANDER_MARKDOWN: Final = "wander.md"


def wander(
    *,
    model: str = "tinsmith/moe-nano",
    out: Path = Path("runs/moe-wander"),
    sides: tuple[Engine, ...] = tuple(Engine),
    dry_run: bool = False,
    **amounts: Annotated[object, Amounts],
) -> Measure:
    """Return what measures how a mixture's routes, log-probabilities and RL steps depend on who is in the batch.

    The texts are drawn once, by canonical arithmetic; every side computes the same ones.

    Args:
        model: The mixture: a built-in one, or a folder.
        out: The folder that it is written to.
        sides: Whose arithmetic.
        dry_run: Only say what is computed.
        amounts: See Amounts.
    """
    settings = Amounts(**cast("dict[str, Any]", amounts))
    if len(set(sides)) < len(sides):
        raise ConfigError("an arithmetic is named twice", field="sides", value=",".join(sides))
    both = [Side(engine, dtype) for engine in Engine if engine in sides for dtype in Dtype]

    def measure(say: Say) -> Path:
        ways = f"one by one and {', '.join(map(str, settings.batches))} at once"
        texts = settings.prompts * settings.samples
        say(f"{texts} texts of {settings.tokens} tokens, {ways}, by {', '.join(map(str, both))}")
        if dry_run:
            return out
        from tinsmith.pages.markdown import document_markdown
        from tinsmith.pages.page import document_html, write
        from tinsmith.studies.moe.bench import measured, wander_page, wander_story

        out.mkdir(parents=True, exist_ok=True)
        done = measured(model, out, settings, both, say)
        page = wander_page(done)
        write_json(done, out / WANDER_JSON)
        write(document_html(page), out / WANDER_PAGE)
        write_text(document_markdown(page), out / WANDER_MARKDOWN)
        for sentence in wander_story(done):
            say(sentence)
        return out

    return measure
