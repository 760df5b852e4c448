"""`tinsmith run moe/wander`: the same texts in other batches, by canonical arithmetic, the vendor's and others'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, cast

from tinsmith.lab.measurement import Measure
from tinsmith.lab.study.files import write_json, write_text
from tinsmith.studies.moe.values import Amounts, Dtype, Engine, Side
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

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
    asked = Amounts(**cast("dict[str, Any]", amounts))
    if len(set(sides)) < len(sides):
        raise ConfigError("an arithmetic is named twice", field="sides", value=",".join(sides))
    both = [Side(engine, dtype) for engine in Engine if engine in sides for dtype in Dtype]

    def measure(say: Say) -> Path:
        ways = f"one by one and {', '.join(map(str, asked.batches))} at once"
        texts = asked.prompts * asked.samples
        say(f"{texts} texts of {asked.tokens} tokens, {ways}, by {', '.join(map(str, both))}")
        if dry_run:
            return out
        from tinsmith.pages.markdown import document_markdown
        from tinsmith.pages.page import document_html, write
        from tinsmith.studies.moe.bench import measured, wander_page, wander_story

        out.mkdir(parents=True, exist_ok=True)
        done = measured(model, out, asked, both, say)
        page = wander_page(done)
        write_json(done, out / WANDER_JSON)
        write(document_html(page), out / WANDER_PAGE)
        write_text(document_markdown(page), out / WANDER_MARKDOWN)
        for sentence in wander_story(done):
            say(sentence)
        return out

    return measure
