"""Content of `slice.json`: the settings, the excluded papers by reason, the counts, and the hashes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tinsmith.data.quarantine import QUARANTINE
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split, SplitScheme
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.json_text import UNREADABLE

SLICE = "slice.json"
SIDECAR = "metrics.parquet"
BASELINES = "baselines.json"
PAGE = "card.html"
FORMAT = "tinsmith-slice"
FORMAT_VERSION = 1


def split_file(split: Split) -> str:
    """Return the name of a split's file."""
    return f"{split}.jsonl"


class SplitCard(msgspec.Struct, frozen=True, kw_only=True):
    """Split: its rows by label, and its hashes."""

    rows: int
    disruption: dict[str, int]
    """Rows by label; `undefined` for rows without one."""
    novelty: dict[str, int]
    ids_sha256: str
    """Digest of the sorted ids, one per line; rows repeated by oversampling count again."""
    rows_sha256: str
    """Digest of the file's bytes."""


class CorpusReference(msgspec.Struct, frozen=True, kw_only=True):
    """Corpus from which a slice was cut."""

    fingerprint: str
    source: str
    papers: int
    edges: int
    metrics: dict[str, str | int]
    """Settings of its metrics."""
    metrics_fingerprint: str


class FileReference(msgspec.Struct, frozen=True, kw_only=True):
    """File of labelled papers from which a slice was cut; its hash and size are in `SliceCard.corpus`."""

    quarantined: int
    """Malformed records, and those with the id of an earlier one."""
    contradicted: dict[str, int]
    """Labels that contradict their scores, by task; only of those that were checked."""


class SliceCard(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a slice; the same corpus and settings give the same card."""

    settings: SliceSettings
    disruption_rule: str
    novelty_rule: str
    citations_from: str
    """`source` for published counts; `corpus` for counts within the corpus, if the source has none."""
    corpus: CorpusReference
    removed: dict[str, int]
    """Papers removed by each filter from those that passed the earlier ones, in order."""
    pool: dict[str, int]
    """Papers of each class that passed the filters."""
    oversampled: dict[str, int]
    """Repeated training rows by class; classes without any are left out."""
    splits: dict[Split, SplitCard]
    legacy_sha256: str | None
    """Hash that the source notes recorded, over the ids in order, with the source notes' splits."""
    moved: int | msgspec.UnsetType = msgspec.UNSET
    """Papers moved to the split of an earlier one with the same title and abstract, if there are any."""
    shared: int | msgspec.UnsetType = msgspec.UNSET
    """Validation and test papers whose title and abstract are in training, too, if there are any."""
    file: FileReference | msgspec.UnsetType = msgspec.UNSET
    """File of labelled papers; unset for a slice of a corpus."""
    open_windows: int | msgspec.UnsetType = msgspec.UNSET
    """Rows with a disruption label whose window ends after the corpus's last year, if there are any; it follows from
    the corpus and the rows."""
    sha256: str = ""
    """Digest of everything else in this card but `open_windows`."""
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    @property
    def rows(self) -> int:
        """Number of rows in all splits."""
        return sum(split.rows for split in self.splits.values())

    @property
    def cut(self) -> str:
        """Cut on the CD index as text."""
        is_open = self.file is not msgspec.UNSET and Task.DISRUPTION not in self.file.contradicted
        return "not named" if is_open else f"±{self.settings.thresholds.cut:g}"

    @property
    def origin(self) -> str:
        """Return a sentence on the source of the rows and their labels."""
        if self.file is not msgspec.UNSET:
            return f"Frozen rows of a file of {self.corpus.papers:,} labelled papers; labels and scores are the file's."
        return (
            f"Frozen rows cut from a {self.corpus.source} corpus of {self.corpus.papers:,} papers, labelled on "
            "its whole citation graph."
        )

    @property
    def choice(self) -> str:
        """Return a sentence on the choice of the papers and their splits."""
        if self.settings.scheme is SplitScheme.SHUFFLED:
            return (
                "The file's lines, in their order, were shuffled with the seed: the first are for training, the next "
                "for the test, and those after them for validation. With another order of lines it is another split."
            )
        if self.settings.scheme is SplitScheme.LEGACY:
            return "The splits are the seeds' own: ids sorted, shuffled with the seed, cut by 0.8/0.1/0.1."
        return (
            "A paper's split follows from the hash of its id, and of each class the lowest hashes are taken: papers "
            "added to the corpus later move none from one split to another"
            + (", but a paper follows an earlier copy of itself." if self.moved else ".")
        )

    @property
    def notes(self) -> list[str]:
        """Return what a reader of scores on this slice must know, a sentence each."""
        sentences = self.copy_notes
        if self.open_windows:
            sentences.append(
                f"{self.open_windows:,} of {self.rows:,} rows have a disruption label although their window reaches "
                "beyond the corpus's last year: later citers may change it (--full-window leaves them out)"
            )
        if self.file is msgspec.UNSET:
            return sentences
        sentences.append(
            "the split is a shuffle of the file's lines in their order, not by year: test papers are as old as "
            "training papers, so scores do not say how well later papers would be judged"
        )
        if self.file.quarantined:
            sentences.append(f"{self.file.quarantined:,} records are set aside in {QUARANTINE}")
        sentences += [
            f"{count:,} {task} labels contradict their scores, and are used as the file has them"
            for task, count in self.file.contradicted.items()
            if count
        ]
        return sentences

    @property
    def copy_notes(self) -> list[str]:
        """Return a sentence on papers with the same title and abstract, if there is one to say."""
        sentences: list[str] = []
        if self.moved:
            sentences.append(
                f"{self.moved:,} papers are in the split of an earlier one with the same title and abstract"
            )
        if self.shared:
            sentences.append(
                f"{self.shared:,} validation and test papers have the title and abstract of a training paper, "
                "so scores partly measure memory: legacy splits move none"
            )
        return sentences

    @property
    def summary(self) -> list[str]:
        """Return the choices and their effects as lines of text."""
        settings = self.settings
        size = "natural" if settings.per_class is None else f"{settings.per_class:,} per class"
        removed = [f"{count:,} {name}" for name, count in self.removed.items() if count]
        pool = ", ".join(f"{count:,} {name}" for name, count in self.pool.items())
        lines = [
            f"task {settings.task}, {size}, seed {settings.seed}, splits {settings.scheme}",
            f"labels: {self.disruption_rule}",
            f"        {self.novelty_rule}",
            f"removed of {self.corpus.papers:,} papers: {'; '.join(removed) or 'none'}",
            f"to choose from: {pool}",
        ]
        if self.oversampled:
            repeats = ", ".join(f"{count:,} {name}" for name, count in self.oversampled.items())
            lines.append(f"repeated in training: {repeats}")
        lines += self.notes
        if self.citations_from == "corpus" and settings.citations:
            lines.append("citations: counted in the corpus, because the source gives none")
        return lines

    def sealed(self) -> SliceCard:
        """Return this card with its own hash."""
        blank = msgspec.structs.replace(self, sha256="", open_windows=msgspec.UNSET)
        return msgspec.structs.replace(self, sha256=sha256_of(msgspec.to_builtins(blank)))


def write_slice_card(card: SliceCard, path: Path) -> None:
    """Write `card` as indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")


def read_slice_card(folder: Path) -> SliceCard:
    """Read and verify the card of a slice folder.

    Raises:
        DataError: it is missing, damaged, or of another format.
    """
    again = "cut the slice again: tinsmith data slice CORPUS ..."
    try:
        content = (folder / SLICE).read_bytes()
    except OSError:
        raise DataError(f"{folder} is not a slice: it has no {SLICE}", fix=again) from None
    try:
        card = msgspec.json.decode(content, type=SliceCard)
    except UNREADABLE as error:
        what = str(error).splitlines()[0]
        raise DataError(f"{folder / SLICE} is damaged: {what}", fix=again) from None
    if (card.format, card.format_version) != (FORMAT, FORMAT_VERSION):
        raise DataError(
            f"{folder / SLICE} has another format",
            field="format",
            value=f"{card.format} {card.format_version}",
            allowed=f"{FORMAT} {FORMAT_VERSION}",
            fix=again,
        )
    if card.sealed().sha256 != card.sha256:
        raise DataError(f"{folder / SLICE} was changed after it was written", fix=again)
    return card
