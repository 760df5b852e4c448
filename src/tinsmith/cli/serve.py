"""The verb `tinsmith serve`: its flags. What is heavy is imported once they are known to be right."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from tinsmith.types.waits import loading, tell, unsaid

Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=PATH",
        help="A base model: served name, and a folder or .gguf file. tinsmith/nano, tinsmith/tiny, "
        "tinsmith/moe-nano, a fetched tinsmith/smollm2 and ORG/NAME of the local hub cache need no PATH. Repeatable.",
    ),
]
ArithmeticName = Annotated[
    Literal["canonical", "invariant", "fast"],
    typer.Option(help="canonical: same bits for any batch, thread count and device; fast: no such promise."),
]
State = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for checkpoints and records. Default: state in TINSMITH_HOME."),
]
MicroBatch = Annotated[
    int,
    typer.Option(
        min=0, help="Maximum units of gradient computed at once; 0: as many as memory allows. Changes no bit."
    ),
]
HoldName = Annotated[
    Literal["published", "fp32"],
    typer.Option(
        help="How a base is kept in memory: as in its file (bf16, F16, Q4_0 to Q8_0, Q4_K to Q6_K), or widened to "
        "fp32, which takes more. Changes no bit."
    ),
]
DeviationName = Annotated[
    Literal["none", "merged_adapter", "stock_silu", "shared_rng", "reordered_gradient"],
    typer.Option(help="Deliberate fault, to test that the checks find it."),
]
GradientUnitName = Annotated[
    Literal["tree", "datum"],
    typer.Option(help="tree: examples with a common prefix share its computation; datum: each by itself."),
]
KeysFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file of several keys, each with a name and limits; read again on SIGHUP. Default: TINKER_API_KEY.",
    ),
]
TlsCert = Annotated[Path | None, typer.Option(metavar="FILE", help="A certificate (PEM): serve https.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key (PEM).")]
AccessLogFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File for a line per request; - is standard output.")
]
SessionTimeout = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="HOURS",
        help="A client that is silent for so long counts as gone: memory of its session is freed, and its "
        "checkpoints stay. 0: never.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        help="Worker processes, started by Ray on this machine or (--ray) on a cluster. 0: the server computes "
        "by itself, or with --ray one on each node. Changes no bit.",
    ),
]
Shards = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of workers that share one copy of a base, layer by layer, if it does not fit one; a divisor "
        "of --workers. Changes no bit.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray", metavar="HOST:PORT", help="Address of a Ray cluster to compute on; auto: this machine's."),
]


def serve(
    model: Models,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8000,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    arithmetic: ArithmeticName = "canonical",
    seed: Annotated[int, typer.Option(help="Root seed for requests that have none.")] = 0,
    state: State = None,
    micro_batch: MicroBatch = 0,
    hold: HoldName = "published",
    deviation: DeviationName = "none",
    gradient_unit: GradientUnitName = "tree",
    unit_hashes: Annotated[
        bool, typer.Option("--unit-hashes", help="Store the SHA-256 of each unit of gradient in the trace.")
    ] = False,
    workers: Workers = 0,
    shards: Shards = 1,
    ray: RayAddress = None,
    max_body: Annotated[int, typer.Option(min=1, help="Maximum size of a request, in bytes.")] = 512 << 20,
    max_queue: Annotated[int, typer.Option(min=1, help="Maximum number of waiting sampling requests.")] = 4096,
    session_timeout: SessionTimeout = 12.0,
    keys: KeysFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    access_log: AccessLogFile = None,
    exit_with_stdin: Annotated[
        bool, typer.Option("--exit-with-stdin", help="Stop when standard input closes.")
    ] = False,
) -> None:
    """Serve the Tinker API: point the official tinker SDK at it with TINKER_BASE_URL and TINKER_API_KEY."""
    from tinsmith.server.parent_watch import ParentWatch
    from tinsmith.types.waits import STARTING

    named = _found(model)
    if keys is not None:
        from tinsmith.server.access.keys import read_keys

        read_keys(keys)  # a mistake is refused before what is heavy is imported
    signal.signal(signal.SIGTERM, _end_at_once)
    parent = ParentWatch() if exit_with_stdin else None
    tell(f"{STARTING}loading the libraries")
    with loading(unsaid if exit_with_stdin else None):
        from tinsmith.server.cluster.launch import ClusterSettings
        from tinsmith.server.serve import ServeSettings
        from tinsmith.server.serve import serve as run
        from tinsmith.types.arithmetic import Arithmetic
        from tinsmith.types.deviation import Deviation
        from tinsmith.types.gradient import GradientUnit
        from tinsmith.types.hold import Hold
        from tinsmith.types.home import state_folder

    told = workers or ray or shards != 1
    cluster = ClusterSettings(workers=workers, address=ray, shards=shards) if told else None
    run(
        ServeSettings(
            models=named,
            state=state or state_folder(),
            host=host,
            port=port,
            device=device,
            arithmetic=Arithmetic(arithmetic),
            seed=seed,
            micro_batch=micro_batch,
            hold=Hold(hold),
            deviation=Deviation(deviation),
            gradient_unit=GradientUnit(gradient_unit),
            unit_hashes=unit_hashes,
            max_body=max_body,
            max_queue=max_queue,
            session_timeout=session_timeout,
            keys=keys,
            tls_cert=tls_cert,
            tls_key=tls_key,
            access_log=access_log,
            cluster=cluster,
            parent=parent,
        )
    )


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """End a server that does not serve yet: there is nothing to put away."""
    del frame
    os.write(2, b"SIGTERM: ended before it served\n")
    os._exit(128 + number)


def _found(models: list[str]) -> dict[str, str]:
    """Return where each served name comes from; a mistake is told before what is heavy is imported."""
    from tinsmith.models.published.sources import find_model

    named = dict(map(_named, models))
    for source in named.values():
        find_model(source)
    return named


def _named(text: str) -> tuple[str, str]:
    """Split NAME=PATH; a bare name is its own source."""
    name, equals, source = text.partition("=")
    return name, source if equals else name
