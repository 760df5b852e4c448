"""Rows of `baseline_answers.jsonl`: the class that each fitted baseline gave to each test paper of a slice.

The file is beside `baselines.json`, which records its SHA-256. The prior guesses at random and has no answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from tinsmith.data.baselines.report import Baseline, BaselineReport
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.json_text import UNREADABLE

BASELINE_ANSWERS = "baseline_answers.jsonl"


class AnswersRow(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of all baselines to one paper; one line of the file."""

    target: str
    """`disruption` or `novelty`."""
    id: str
    """Id of the paper, as in the test split."""
    answers: dict[Baseline, str]
    """Class by baseline; left-out baselines have none."""


def write_answers(rows: Iterable[AnswersRow], path: Path) -> None:
    """Write `rows` as JSON, one per line."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for row in rows:
            file.write(encoder.encode(row) + b"\n")


def read_answers(folder: Path, report: BaselineReport, target: str) -> Mapping[Baseline, Mapping[str, str]]:
    """Read the answers of the baselines of `report` for one label: class by paper, by baseline.

    Empty if there is no file: in older slices, and in a folder with the report alone.

    Raises:
        DataError: the file is not the one named in the report, or it is damaged.
    """
    file = folder / BASELINE_ANSWERS
    if report.answers_sha256 is None or not file.is_file():
        return {}
    if file_sha256(file) != report.answers_sha256:
        raise DataError(f"{file} does not belong to the baselines beside it", fix="run: tinsmith data baselines SLICE")
    decoder = msgspec.json.Decoder(AnswersRow)
    answers: dict[Baseline, dict[str, str]] = {}
    try:
        with file.open("rb") as lines:
            for row in map(decoder.decode, lines):
                if row.target == target:
                    for baseline, label in row.answers.items():
                        answers.setdefault(baseline, {})[row.id] = label
    except UNREADABLE as error:
        raise DataError(f"{file} is damaged: {error}", fix="run: tinsmith data baselines SLICE") from None
    return answers
