"""Slices of a file of labelled papers, split as the source notes do: its lines shuffled, then cut by number.

The order is that of `random.Random(seed).shuffle` over all records of the file: the first are for training, the next
for the test, and those after them for validation. So the order of the lines decides the split, and the card says so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import LabelMode, Thresholds, disruption_codes, novelty_codes
from tinsmith.data.losses import too_many
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.quarantine import QUARANTINE, Quarantine
from tinsmith.data.replacing import replacing
from tinsmith.data.slices.card import CorpusReference, FileReference, SliceCard, SplitCard
from tinsmith.data.slices.freezing import check_own_folder, check_same, freeze, previous_card
from tinsmith.data.slices.labelled_rows import LabelledFile, read_labelled, rows_at
from tinsmith.data.slices.leave_out import LeftOut
from tinsmith.data.slices.pool import LEFT_OUT
from tinsmith.data.slices.rows import decode_row, encode_row
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split, SplitScheme, legacy_counts
from tinsmith.data.sources.streams import require_files
from tinsmith.types.disk import writing
from tinsmith.types.errors import ConfigError, DataError

_IN_ORDER = (Split.TRAIN, Split.TEST, Split.VALIDATION)
"""Splits in the order in which they take papers; the source notes have the first two."""
_SAME_TEXT = "with the text of a paper in another split"
_LABELS: Mapping[Task, tuple[str, ...]] = {
    Task.DISRUPTION: ("cd",),
    Task.NOVELTY: ("novelty_score", "conventionality_score"),
}
"""Labels, and the columns of their scores."""
_OPTIONS = {"scheme": "--splits", "thresholds": "--keep-no-refs"}
"""Options of settings with another name."""
_FEWEST = 10
"""Fewest training papers where their number is what is left."""
_LABEL_COLUMNS = tuple(f"{task}_label" for task in _LABELS)


@dataclass(frozen=True, slots=True)
class FileChoices:
    """Choices for a file of labelled papers besides the slice's settings."""

    checked: frozenset[Task] = frozenset()
    """Labels that are compared with their scores by the thresholds of the settings: disruption, novelty or both."""
    skip_bad: bool = False
    """True to use what can be read, however many lines are lost."""


def check_options(mode: LabelMode, checked: frozenset[Task], *, natural: bool, oversample: bool) -> None:
    """Check that no option has no effect on a file of labelled papers.

    Raises:
        ConfigError: one has none.
    """
    if natural or oversample:
        raise ConfigError(
            "a file of labelled papers is taken in its own mixture of classes, each paper once",
            field="--natural" if natural else "--oversample",
            fix="leave the option out",
        )
    if mode is not LabelMode.INCLUSIVE and not checked:
        raise ConfigError(
            "labels of a file are only compared with their scores at a named threshold",
            field="--mode",
            value=mode.value,
            fix="add --cut or --margin, or leave --mode out",
        )


def make_file_slice(
    path: Path,
    settings: SliceSettings,
    out: Path,
    progress: Progress | None = None,
    *,
    choices: FileChoices = FileChoices(),
    force: bool = False,
    left_out: LeftOut | None = None,
) -> SliceCard:
    """Cut a slice from a file of labelled papers and write it to `out`; another slice is replaced only with `force`.

    The caps of `settings` are the numbers of papers; without them the splits are those of `SHARES`, and validation is
    as large as a named test, but at most a ninth of an unnamed training split. No title and abstract is in two splits.

    Raises:
        ConfigError: a setting needs a corpus, there are too few papers, or `out` is a corpus or another slice.
        DataError: too much of the file is lost, no paper is left, or too many labels contradict their scores.
    """
    require_files(file=[path])
    check_own_folder(out, path)
    _check_settings(settings)
    if left_out is not None:
        settings = replace(settings, left_out=left_out.sha256)
    progress = progress or Silent()
    # The rows wait on disk, so that memory does not follow the file's size.
    place = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
    with writing(out), TemporaryFile(dir=place) as store:
        file = read_labelled(path, cast("BinaryIO", store), progress, skip_bad=choices.skip_bad)
        there = previous_card(out)
        if there is not None and not force:
            check_same((file.sha256, ""), settings, there, out)
        papers, removed = _usable(file, settings, left_out)
        contradicted = {
            task.value: _contradictions(papers, task, settings.thresholds) for task in sorted(choices.checked)
        }
        members, copies = _members(papers, file.records, settings)
        removed[_SAME_TEXT] = len(copies)
        pool = _counts(papers.filter(~pl.col("place").is_in(copies)), settings.task)
        table = pl.concat(papers[members[split]].with_columns(split=pl.lit(split.value)) for split in Split)
        offsets = dict(table.select("id", "offset").iter_rows())
        progress.begin("writing rows", table.height)

        def write_split(rows: pl.DataFrame, part: Path) -> None:
            with part.open("wb") as written:
                for row in rows_at(cast("BinaryIO", store), [offsets[name] for name in rows["id"]]):
                    written.write(_as_set(row, settings))
            progress.advance(rows.height)

        def card_of(splits: dict[Split, SplitCard]) -> SliceCard:
            reference = FileReference(quarantined=len(file.quarantine), contradicted=contradicted)
            return _card(file, settings, removed, pool, reference, splits)

        card = freeze(out, _metrics(table), write_split, card_of, force=force)
    _write_quarantine(file, out / QUARANTINE)
    return card


def _check_settings(settings: SliceSettings) -> None:
    """Check that no setting needs a corpus, and that the splits are those of a shuffle.

    Raises:
        ConfigError: one does.
    """
    plain = SliceSettings(
        task=settings.task,
        thresholds=replace(settings.thresholds, keep_no_refs=False),
        per_class=None,
        caps=settings.caps,
        seed=settings.seed,
        scheme=SplitScheme.SHUFFLED,
        citations=settings.citations,
        year=settings.year,
    )
    for each in fields(SliceSettings):
        if (value := getattr(settings, each.name)) != getattr(plain, each.name):
            raise ConfigError(
                "a file of labelled papers has no such setting: the papers are chosen by a shuffle alone",
                field=_OPTIONS.get(each.name, f"--{each.name.replace('_', '-')}"),
                value=value.value if isinstance(value, Enum) else str(value),
                allowed="--task, --cut, --mode, --margin, --train, --validation, --test, --seed, --no-citations, "
                "--no-year, --leave-out",
                fix="build a corpus for the others: tinsmith data build ...",
            )


def _usable(
    file: LabelledFile, settings: SliceSettings, left_out: LeftOut | None
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the papers that pass the filters, and the number of those removed by each."""
    removed = {"unreadable, or with the id of an earlier line": file.records - file.papers.height}
    filters: dict[str, pl.Expr] = {}
    if left_out is not None:
        filters[LEFT_OUT] = ~pl.col("id").is_in(sorted(left_out))
    filters |= {"without a title": pl.col("has_title"), "without an abstract": pl.col("has_abstract")}
    for task in _LABELS if settings.task is Task.JOINT else (settings.task,):
        filters[f"without a {task} label"] = pl.col(f"{task}_label").is_not_null()
    papers = file.papers
    for name, passes in filters.items():
        rest = papers.filter(passes)
        removed[name], papers = papers.height - rest.height, rest
    if papers.is_empty():
        name, count = max(removed.items(), key=lambda item: item[1])
        raise DataError(f"no paper of {file.records:,} is left for the slice: {count:,} {name}")
    return papers, removed


def _contradictions(papers: pl.DataFrame, task: Task, thresholds: Thresholds) -> int:
    """Count labels that their scores do not give; a label without a score is one.

    Raises:
        DataError: there are too many.
    """
    rule = thresholds.sentences()[task is Task.NOVELTY].partition(";")[0]
    labelled = papers.filter(pl.col(f"{task}_label").is_not_null())
    scores = [labelled[name].fill_null(float("nan")).to_numpy() for name in _LABELS[task]]
    if task is Task.NOVELTY:
        codes = novelty_codes(scores[0], scores[1], thresholds.margin, thresholds.mode)
    else:
        codes = disruption_codes(scores[0], thresholds.cut, thresholds.mode)
    names = np.array([*task.classes, None], np.object_)  # the code of a missing score is -1: the last
    wrong = labelled.filter(
        pl.Series((names[codes] != labelled[f"{task}_label"].to_numpy()).tolist(), dtype=pl.Boolean)
    )
    if too_many(wrong.height, labelled.height):
        shown = {name: wrong[name][0] for name in ("id", *_LABELS[task], f"{task}_label")}
        option = "--margin" if task is Task.NOVELTY else "--cut"
        raise DataError(
            f"{wrong.height:,} of {labelled.height:,} {task} labels contradict their scores",
            field=option,
            value=shown,
            allowed=rule,
            fix=f"name the {option} by which the file was labelled, or none to take its labels unchecked",
        )
    return wrong.height


def _members(
    papers: pl.DataFrame, records: int, settings: SliceSettings
) -> tuple[dict[Split, NDArray[np.int64]], list[int]]:
    """Return each split's rows of `papers` in shuffled order, and the places of those whose text another split has.

    Raises:
        ConfigError: there are too few papers.
    """
    order = list(range(records))
    random.Random(settings.seed).shuffle(order)
    row_of = dict(zip(papers["place"].to_list(), range(papers.height), strict=True))
    rest = iter([row_of[place] for place in order if place in row_of])
    texts = papers["text"].to_list()
    split_of: dict[bytes, Split] = {}
    members: dict[Split, NDArray[np.int64]] = {}
    copies: list[int] = []
    for split, size in _sizes(papers.height, settings).items():
        rows: list[int] = []
        while len(rows) < size and (row := next(rest, None)) is not None:
            if split_of.setdefault(texts[row], split) is split:
                rows.append(row)
            else:
                copies.append(papers["place"][row])
        if not rows or (len(rows) < size and settings.caps.of(split)):
            raise ConfigError(
                f"{papers.height:,} papers are too few for the splits",
                field=f"--{split.value}",
                value=size,
                allowed=f"{len(rows):,} after the splits before it" if rows else "fewer in train and test",
                fix="name smaller numbers by --train, --test and --validation",
            )
        members[split] = np.array(rows, np.int64)
    return members, copies


def _sizes(papers: int, settings: SliceSettings) -> dict[Split, int]:
    """Return the number of papers of each split, in the order in which they take them.

    Raises:
        ConfigError: the named ones leave too few for the others.
    """
    caps = settings.caps
    _, usual, share = legacy_counts(papers)
    test = caps.test or share
    left = papers - test - (caps.train or 0)
    most = left if caps.train else left // 9  # as the usual shares: 0.1 of 0.9
    validation = caps.validation or min(caps.test or usual, max(1, most))
    train = caps.train or papers - test - validation
    if caps.train is None and (caps.test or caps.validation) and train < _FEWEST:
        raise ConfigError(
            f"of {papers:,} papers {max(0, train):,} would be left for training",
            field="--test" if caps.test else "--validation",
            value=caps.test or caps.validation,
            allowed=f"{_FEWEST} or more for training",
            fix="name a smaller number, or all three by --train, --test and --validation",
        )
    if caps.train and caps.test and left == 0 and caps.validation is None:
        few = max(1, min(test, caps.train // 10))
        raise ConfigError(
            f"{caps.train:,} for training and {test:,} for the test are all {papers:,} papers: none is left for "
            "validation, on which runs are evaluated while they train",
            field="--train",
            value=caps.train,
            allowed=f"at most {papers - test - 1:,}",
            fix=f"--train {caps.train - few} --test {test} --validation {few}",
        )
    return dict(zip(_IN_ORDER, (max(1, train), test, validation), strict=True))


def _counts(papers: pl.DataFrame, task: Task) -> dict[str, int]:
    found = Counter(task.class_of(one, other) for one, other in papers.select(_LABEL_COLUMNS).iter_rows())
    return {name: found[name] for name in task.classes}


def _as_set(line: bytes, settings: SliceSettings) -> bytes:
    """Return an encoded row without what the slice excludes."""
    if settings.citations and settings.year:
        return line
    row = decode_row(line)
    return encode_row(
        msgspec.structs.replace(
            row,
            cited_by_count=row.cited_by_count if settings.citations else None,
            publication_year=row.publication_year if settings.year else None,
        )
    )


def _metrics(table: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of a slice's metrics; null where they take a citation graph."""
    status = pl.when(pl.col("cd").is_null()).then(pl.lit(CdStatus.EMPTY.value)).otherwise(pl.lit(CdStatus.OK.value))
    scores = ("novelty_score", "conventionality_score")
    nothing = {name: pl.lit(None, pl.Float64) for name in ("z_median", "z_p10")}
    columns = table.select("id", "year", "cd", *scores, *_LABEL_COLUMNS, "split")
    return columns.with_columns(**nothing, cd_status=status, cause=pl.lit(None, pl.String))


def _card(
    file: LabelledFile,
    settings: SliceSettings,
    removed: dict[str, int],
    pool: dict[str, int],
    reference: FileReference,
    splits: dict[Split, SplitCard],
) -> SliceCard:
    rules = dict(zip(_LABELS, settings.thresholds.sentences(), strict=True))
    stated = {
        task: f"the file's; checked by {rule.partition(';')[0]}"
        if task.value in reference.contradicted
        else "the file's, not checked against its scores"
        for task, rule in rules.items()
    }
    return SliceCard(
        settings=settings,
        disruption_rule=f"disruption labels are {stated[Task.DISRUPTION]}",
        novelty_rule=f"novelty labels are {stated[Task.NOVELTY]}",
        citations_from="source",
        corpus=CorpusReference(
            fingerprint=file.sha256,
            source="labelled file",
            papers=file.records,
            edges=0,
            metrics={},
            metrics_fingerprint="",
        ),
        removed=removed,
        pool=pool,
        oversampled={},
        splits=splits,
        legacy_sha256=None,
        file=reference,
    ).sealed()


def _write_quarantine(file: LabelledFile, path: Path) -> None:
    if not file.quarantine:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as part:
        quarantine = Quarantine(part)
        for entry in file.quarantine:
            quarantine.put(entry)
        quarantine.close()
