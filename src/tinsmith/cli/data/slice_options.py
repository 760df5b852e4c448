"""The options of `tinsmith data slice`: their types, and what --help says about each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Number = int | None


def _flag(name: str, text: str) -> object:
    return typer.Option(name, help=text)


CorpusFolder = Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus with metrics.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="The slice's folder.")]
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
Seed = Annotated[int, typer.Option(help="Another seed: other papers, other splits.")]
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
Force = Annotated[bool, _flag("--force", "Replace another slice that is in OUT.")]
