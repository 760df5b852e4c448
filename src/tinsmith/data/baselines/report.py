"""Content of `baselines.json`: the figures of every baseline on a slice's test split, and the left-out baselines."""

from __future__ import annotations

import enum
from pathlib import Path

import msgspec

from tinsmith.data.slices.card import BASELINES
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE


class Baseline(enum.StrEnum):
    """Predictor that a model must beat before its score means anything."""

    MAJORITY = "majority"  # the most frequent training class
    PRIOR = "prior"  # a random guess by the training shares: expected values
    METADATA = "metadata"  # gradient boosting on year, citations, field
    TEXT = "text"  # TF-IDF of title and abstract, logistic regression
    BOTH = "text+metadata"  # logistic regression on both
    ORACLE = "oracle"  # the best label for each cause of a synthetic world


class Figure(msgspec.Struct, frozen=True):
    """Figure with its 95 % interval."""

    value: float
    low: float
    high: float


class BaselineScore(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of one baseline on the test split."""

    baseline: Baseline
    n: int
    accuracy: Figure
    macro_f1: Figure
    min_class_recall: Figure
    recall: dict[str, Figure]
    """Recall by class; classes that do not occur in the test split have none."""
    confusion: dict[str, dict[str, float]]
    """Papers by gold and predicted class; expected numbers for the prior."""


class TargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """All baselines for one label."""

    target: str
    """`disruption` or `novelty`."""
    classes: list[str]
    train: dict[str, int]
    """Training rows used, by class."""
    scores: list[BaselineScore]
    left_out: dict[str, str]
    """Reasons by the names of the baselines that were left out."""


class BaselineReport(msgspec.Struct, frozen=True, kw_only=True):
    """Baselines of one slice; the same slice gives the same report."""

    slice_sha256: str
    seed: int
    train_rows: int
    """Number of training rows used: the first ones of the split."""
    train_rows_available: int
    resamples: int
    confidence: float
    targets: list[TargetReport]
    answers_sha256: str | None = None
    """Digest of the file with each baseline's answers by paper; None in older slices, which have no such file."""


def write_report(report: BaselineReport, path: Path) -> None:
    """Write `report` as indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def read_report(folder: Path) -> BaselineReport | None:
    """Read the baselines of a slice folder; None if they were not computed.

    Raises:
        DataError: the file is damaged.
    """
    file = folder / BASELINES
    if not file.exists():
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=BaselineReport)
    except UNREADABLE as error:
        raise DataError(f"{file} is damaged: {error}", fix=f"run: tinsmith data baselines {folder}") from None
