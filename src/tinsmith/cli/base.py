"""`tinsmith base build`: the nano base model, from scratch, the same bits everywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="base",
    help="Base models built from scratch: tokenizer and decoder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def base() -> None:
    """Base models built from scratch: tokenizer and decoder."""


@app.command()
def build(
    data: Annotated[
        Path | None,
        typer.Option(metavar="SLICE", help="Whose training papers it reads. Default: synthetic."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: cached below TINSMITH_HOME by fingerprint."),
    ] = None,
    task: Annotated[
        Literal["disruption", "novelty"], typer.Option(help="What it learns to answer about.")
    ] = "disruption",
    contract: Annotated[
        Literal["two_key", "four_key"], typer.Option(help="How it learns to answer.")
    ] = "two_key",
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order and random labels.")] = 0,
) -> None:
    """Build the nano base: it answers in the contract most of the time, and knows nothing of the labels."""
    from tinsmith.experiments.kinds import Kind
    from tinsmith.experiments.paper_base import PaperBaseRecipe, build_paper_base
    from tinsmith.experiments.places import NANO_ONLY
    from tinsmith.experiments.worlds import (
        WorldRecipe,
        nano_base,
        open_slice,
        papers_of,
        world_slice,
    )
    from tinsmith.tasks.task import make_task

    def told(message: str) -> None:
        print(message, file=sys.stderr)

    source = world_slice(WorldRecipe(), told) if data is None else open_slice(data, told)
    asked = make_task(task, prompt=str(NANO_ONLY[Kind.RL]["prompt"]), contract=contract)
    papers = papers_of(source, asked, shuffle_seed=None)
    recipe = PaperBaseRecipe(seed=seed)
    if out is None:
        folder = nano_base(recipe, asked, papers, told)
    else:
        folder = out
        build_paper_base(recipe, (asked,), papers.train, out)
    print(f"wrote {folder}; next: tinsmith run ladder/exp4 model_name={folder}")
