"""The options of `tinsmith data build`, as the command line shows them; None is what was not said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

SourceName = Annotated[
    Literal["openalex", "sciscinet", "files", "synthetic"], typer.Option("--source", help="Where the papers come from.")
]
Out = Annotated[Path, typer.Option(metavar="CORPUS", help="The corpus's folder.")]
Snapshot = Annotated[Path | None, typer.Option(metavar="DIR", help="openalex: a copy of the snapshot, any layout.")]
Pages = Annotated[
    list[Path] | None, typer.Option(metavar="FILE ...", help="openalex: saved pages of the API, or works.")
]
MorePages = Annotated[list[Path] | None, typer.Argument(metavar="[FILE ...]", hidden=True)]
Api = Annotated[bool | None, typer.Option("--api", help="openalex: the live API; a stop is resumed.")]
Filter = Annotated[str | None, typer.Option("--filter", help="--api: which works, in OpenAlex's filter syntax.")]
ApiUrl = Annotated[str | None, typer.Option(metavar="URL", help="--api: another server.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="--api: the variable that holds the key. Default: OPENALEX_API_KEY.")
]
Keep = Annotated[str | None, typer.Option(metavar="LIST", help="openalex, sciscinet: of retracted,paratext,xpac.")]
GraphOnly = Annotated[bool | None, typer.Option("--graph-only", help="openalex: no texts; several times as fast.")]
Tables = Annotated[Path | None, typer.Option(metavar="DIR", help="sciscinet: the tables, TSV or parquet.")]
Papers = Annotated[Path | None, typer.Option(metavar="FILE", help="files: papers as JSON lines or an array.")]
Edges = Annotated[Path | None, typer.Option(metavar="FILE", help="files: lines of citing and cited id, TSV or CSV.")]
PresetName = Annotated[
    Literal["tiny", "small", "full"] | None, typer.Option("--preset", help="synthetic: the world's size.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="synthetic: another seed, another world.")]
DropForward = Annotated[bool, typer.Option("--drop-forward", help="Leave out references to later papers.")]
Strict = Annotated[bool | None, typer.Option("--strict", help="Stop at the first malformed line.")]
SkipBad = Annotated[bool | None, typer.Option("--skip-bad", help="Use what can be read, however much is lost.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the corpus in CORPUS.")]
