"""`tinsmith run moe/wander`: the same texts in other batches, by canonical arithmetic, the vendor's and others'."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.lab.live.progress import Say
from tinsmith.lab.measurement import Measure, at_least
from tinsmith.lab.study.files import write_json, write_text
from tinsmith.studies.moe.values import Amounts, Dtype, Engine, Side, wander_json
from tinsmith.types.errors import ConfigError

WANDER_JSON: Final = "wander.json"
WANDER_PAGE: Final = "wander.html"
WANDER_MARKDOWN: Final = "wander.md"


def wander(
    *,
    model: str = "tinsmith/moe-nano",
    out: Path = Path("runs/moe-wander"),
    base_steps: int = 120,
    prompts: int = 24,
    samples: int = 4,
    prompt_tokens: int = 40,
    tokens: int = 32,
    batches: tuple[int, ...] = (8, 32),
    sides: tuple[Engine, ...] = tuple(Engine),
    seed: int = 0,
    dry_run: bool = False,
) -> Measure:
    """Return what measures how a mixture's routes, log-probabilities and RL steps depend on who is in the batch.

    The texts are drawn once, by canonical arithmetic; every side computes the same ones.

    Args:
        model: The mixture: a built-in one, or a folder.
        out: The folder that it is written to.
        base_steps: Steps of next-token training on the built-in corpus before anything is measured; 0 for a model
            that is trained already.
        prompts: Number of prompts.
        samples: Texts of each prompt: a group of RL.
        prompt_tokens: Most tokens of a prompt; lengths differ.
        tokens: Tokens of a text.
        batches: Sizes of batches, beside one by one; the RL step is of the largest.
        sides: Whose arithmetic.
        seed: Of weights, prompts, texts and rewards.
        dry_run: Only say what is computed.
    """
    at_least(0, base_steps=base_steps, seed=seed)
    at_least(1, prompts=prompts)
    at_least(2, samples=samples, tokens=tokens)
    at_least(8, prompt_tokens=prompt_tokens)
    if min(batches) < 2 or len(set(batches)) < len(batches):
        raise ConfigError(
            "every batch holds several texts; one by one is computed anyhow",
            field="batches",
            value=",".join(map(str, batches)),
            allowed="different whole numbers, 2 or more, with commas between them",
        )
    if len(set(sides)) < len(sides):
        raise ConfigError("an arithmetic is named twice", field="sides", value=",".join(sides))
    both = [Side(engine, dtype) for engine in Engine if engine in sides for dtype in Dtype]
    amounts = Amounts(
        base_steps=base_steps,
        prompts=prompts,
        samples=samples,
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        batches=batches,
        seed=seed,
    )

    def measure(say: Say) -> Path:
        ways = f"one by one and {', '.join(map(str, batches))} at once"
        say(f"{prompts * samples} texts of {tokens} tokens, {ways}, by {', '.join(map(str, both))}")
        if dry_run:
            return out
        from tinsmith.pages.markdown import document_markdown
        from tinsmith.pages.page import document_html, write
        from tinsmith.studies.moe.bench import measured
        from tinsmith.studies.moe.page import wander_page, wander_story

        out.mkdir(parents=True, exist_ok=True)
        done = measured(model, out, amounts, both, say)
        page = wander_page(done)
        write_json(wander_json(done), out / WANDER_JSON)
        write(document_html(page), out / WANDER_PAGE)
        write_text(document_markdown(page), out / WANDER_MARKDOWN)
        for sentence in wander_story(done):
            say(sentence)
        return out

    return measure
