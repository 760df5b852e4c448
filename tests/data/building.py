"""Corpora that these suites build, and how they look into them."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard, SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
SOURCE = SourceDescription(kind=SourceKind.FILES)


def write(
    out: Path, papers: Sequence[Paper], edges: Iterable[tuple[str, str]] = (), *, drop_forward: bool = False
) -> CorpusCard:
    pairs = list(edges)
    with CorpusWriter(out, source=SOURCE, drop_forward=drop_forward) as writer:
        writer.add(papers)
        writer.add_edges([citing for citing, _ in pairs], [cited for _, cited in pairs])
    return writer.card


def edges_of(corpus: Corpus) -> list[tuple[str, str]]:
    """Edges as pairs of ids."""
    ids = corpus.papers("id")["id"].to_list()
    return [(ids[citing], ids[cited]) for citing, cited in zip(*corpus.edges(), strict=True)]


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its relative name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def gzip_lines(path: Path, lines: Iterable[bytes | object]) -> Path:
    """Write lines, values as JSON, to a gzip file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(gzip.compress(b"\n".join(encoded) + b"\n"))
    return path


def quarantined(folder: Path) -> list[dict[str, object]]:
    """The entries of quarantine.jsonl."""
    text = (folder / "quarantine.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
