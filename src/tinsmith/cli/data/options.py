"""The options of `tinsmith data build` and `tinsmith data slice`: types, and help; None is what was not said."""

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
Works = Annotated[
    str | None, typer.Option(metavar="WHOSE", help="openalex: an ORCID, ROR, DOI or id, or a file of them.")
]
MostUsd = Annotated[float | None, typer.Option(metavar="USD", help="--works: what requests may cost. Default: 1.")]
Filter = Annotated[str | None, typer.Option("--filter", help="--api: which works, in OpenAlex's filter syntax.")]
ApiUrl = Annotated[str | None, typer.Option(metavar="URL", help="--api, --works: another server.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="The variable that holds the API's key. Default: OPENALEX_API_KEY.")
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


Number = int | None


def _flag(name: str, text: str) -> object:
    return typer.Option(name, help=text)


CorpusFolder = Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus with metrics.")]
SliceFolder = Annotated[Path, typer.Option(metavar="DIR", help="The slice's folder.")]
TaskName = Annotated[
    Literal["disruption", "novelty", "joint"],
    typer.Option(help="What a model is asked; joint: both, balanced over the nine pairs of labels."),
]
Cut = Annotated[
    float | None, typer.Option(help="The |CD| from which a paper is labelled. Default: a synthetic corpus's own.")
]
Mode = Annotated[
    Literal["inclusive", "strict", "legacy"], typer.Option(help="At the cut: >=; >; or rounded to 4 decimals, then >.")
]
Margin = Annotated[float | None, typer.Option(help="Between the two scores, for novelty. Default: 0.15.")]
PerClass = Annotated[Number, typer.Option(metavar="N", help="N of each class, over all splits.")]
Natural = Annotated[bool, _flag("--natural", "Keep the mixture of classes as it is, instead of --per-class.")]
Cap = Annotated[Number, typer.Option(metavar="N", help="At most N rows. Default: all.")]
SliceSeed = Annotated[int, typer.Option(help="Another seed: other papers, other splits.")]
Splits = Annotated[Literal["native", "legacy"], typer.Option(help="By the id's hash; or by one seeded shuffle.")]
Oversample = Annotated[bool, _flag("--oversample", "Repeat training papers of a class that is short.")]
Status = Annotated[Literal["ok"] | None, typer.Option(help="Only papers with references and citers.")]
KeepNoRefs = Annotated[bool, _flag("--keep-no-refs", "Label papers without a reference, too.")]
FullWindow = Annotated[bool, _flag("--full-window", "Only papers whose whole window is in the corpus.")]
MinReferences = Annotated[int, typer.Option(metavar="K", help="Fewest references in the corpus.")]
MinCiters = Annotated[int, typer.Option(metavar="K", help="Fewest citers in the corpus.")]
Before = Annotated[str | None, typer.Option(metavar="DATE", help="Published before YYYY[-MM[-DD]].")]
After = Annotated[str | None, typer.Option(metavar="DATE", help="Published on or after YYYY[-MM[-DD]].")]
LeaveOut = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Without the papers whose ids are in it, one a line.")
]
NoCitations = Annotated[bool, _flag("--no-citations", "Leave citation counts out of the rows: they leak the label.")]
NoYear = Annotated[bool, _flag("--no-year", "Leave the year out of the rows: it leaks the label.")]
ReplaceSlice = Annotated[bool, _flag("--force", "Replace another slice that is in OUT.")]
