"""The verb `tinsmith serve`: its flags. What is heavy is imported once they are known to be right."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

from typer import Option

from tinsmith.cli.columns import with_options
from tinsmith.cli.completion import complete_models
from tinsmith.types.waits import loading, tell, unsaid


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
    access_log: Annotated[
        str | None, Option(metavar="FILE", help="File for a line per request; - is standard output.")
    ] = None
    exit_with_stdin: Annotated[bool, Option("--exit-with-stdin", help="Stop when standard input closes.")] = False


@with_options
def serve(options: ServeOptions) -> None:
    """Serve the Tinker API: point the official tinker SDK at it with TINKER_BASE_URL and TINKER_API_KEY."""
    from tinsmith.models.published.sources import find_model
    from tinsmith.server.parent_watch import ParentWatch
    from tinsmith.types.home import state_folder
    from tinsmith.types.waits import STARTING

    # A mistake is refused before what is heavy is imported. A bare name is its own source.
    models = {
        name: source if equals else name for name, equals, source in (one.partition("=") for one in options.models)
    }
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
        from tinsmith.types.arithmetic import Arithmetic, Hold
        from tinsmith.types.deviation import Deviation
        from tinsmith.types.gradient import GradientUnit

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
    """Refuse a mistake before what is heavy is imported; the server itself checks all of it again."""
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
    """End a server that does not serve yet: there is nothing to put away."""
    del frame
    os.write(2, b"SIGTERM: ended before it served\n")
    os._exit(128 + number)
