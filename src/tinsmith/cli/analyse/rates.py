"""Reads printed rates for `tinsmith analyse consistency`, from options or a file, with every mistake named."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from tinsmith.cli.analyse.inputs import json_of, split_labels, texts_of
from tinsmith.lab.labels.contracts import Subject
from tinsmith.stats.consistency.reported import ReportedTable
from tinsmith.types.errors import ConfigError, DataError


def check_only(
    rates: bool, *, file: Path | None, seeds: bool, labels: str | None, n: int | None, max_n: int | None
) -> None:
    """Check that exactly one source of rates is named; `rates`: options give some."""
    named = [name for name, given in (("--seeds", seeds), ("--file", file is not None), ("rates", rates)) if given]
    if len(named) != 1:
        raise ConfigError(
            "rates come from one place" if named else "there is no rate to check",
            field=" and ".join(named) or None,
            allowed="--seeds, or --file TABLE.json, or rates such as --recall LABEL=0.2910 --label-match 0.316",
        )
    if seeds and (labels is not None or n is not None or max_n is not None):
        raise ConfigError("the tables of the source notes have their own labels and n", field="--seeds")
    if file is not None and labels is not None:
        raise ConfigError("the labels are named in the file", field="--labels", value=labels)
    if n is not None and max_n is not None:
        raise ConfigError("give --n or --max-n, not both", field="--n, --max-n", value=(n, max_n))
    for name, number in (("--n", n), ("--max-n", max_n)):
        if number is not None and not 1 <= number <= 1_000_000:
            raise ConfigError(
                "the number of items must be a whole number above 0", field=name, value=number, allowed="1 to 1000000"
            )


def table_of_options(
    rates: Mapping[str, str], recall: Sequence[str], share: Sequence[str], labels: str | None, n: int | None
) -> ReportedTable:
    """Return the one line that options describe: rates of all labels by name, and those of one as LABEL=RATE."""
    recalls, shares = texts_of(recall, "--recall"), texts_of(share, "--share")
    line: dict[str, str | Decimal] = dict(rates)
    line |= {f"recall/{label}": text for label, text in recalls.items()}
    line |= {f"predicted_share/{label}": text for label, text in shares.items()}
    named = split_labels(labels) or _labels_for([*recalls, *shares])
    return ReportedTable.of(named, {"given": line}, n)


def read_table(path: Path, n: int | None) -> ReportedTable:
    """Read {"labels": [...], "n": 500, "runs": {name: {metric: rate}}}; digits count as they are written.

    `n` on the command line goes before the file's. Metrics have their names in metrics.jsonl.
    """
    value = json_of(path)
    allowed = '{"labels": [names], "n": items (optional), "runs": {name: {metric: rate}}}'
    labels, runs = (value.get("labels"), value.get("runs")) if isinstance(value, dict) else (0, 0)
    if (
        not isinstance(value, dict)
        or not set(value) <= {"labels", "n", "runs"}
        or not isinstance(labels, list)
        or not isinstance(runs, dict)
        or not all(isinstance(line, dict) for line in runs.values())
    ):
        raise DataError(f"{path}: this is not a table of rates", field="--file", allowed=allowed)
    lines: dict[str, dict[str, str | Decimal]] = {}
    for name, line in runs.items():
        lines[str(name)] = {str(key): _printed(name, key, rate) for key, rate in line.items()}
    stated = value.get("n")
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int)):
        raise DataError(f"{path}: n must be the number of items", field="n", value=stated)
    return ReportedTable.of([str(label) for label in labels], lines, stated if n is None else n)


def _printed(name: object, key: object, rate: object) -> str | Decimal:
    if isinstance(rate, int) and not isinstance(rate, bool):
        return str(rate)
    if isinstance(rate, (str, Decimal)):
        return rate
    raise DataError("a rate is a number", field=f"{name}: {key}", value=rate)


def _labels_for(given: Sequence[str]) -> tuple[str, ...]:
    """Return the task's labels to which the given ones belong."""
    if not given:
        return Subject.DISRUPTION.labels
    for subject in Subject:
        if set(given) <= set(subject.labels):
            return subject.labels
        for label in given:
            meant = difflib.get_close_matches(label, subject.labels, n=1, cutoff=0.75)
            if meant and label not in subject.labels:
                raise ConfigError(
                    "no task has such a label",
                    field="label",
                    value=label,
                    allowed=", ".join(subject.labels),
                    fix=f"write {meant[0]}, or name all labels with --labels",
                )
    raise ConfigError(
        "no task has these labels",
        field="label",
        value=tuple(given),
        fix="name all labels with --labels, also those without a rate",
    )
