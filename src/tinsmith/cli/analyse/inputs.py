"""Inputs of `tinsmith analyse`: posteriors, reward tables, settings, printed rates, and the examples of its own.

Every mistake in a file or an option is named. The examples are two tables that the source notes published, digit by
digit, on which the consistency check is tried, and four kinds of papers worked out by hand. Source of the tables:
"Tinker, smol-RL and QDoRA (Part 2)", the evaluation snapshot at step 250 on "the same held-out 500 papers", and the
held-out trajectory of Exp5. Macro-F1 of the snapshot is from the text below it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np

from tinsmith.lab.labels.contracts import Subject
from tinsmith.stats.consistency import ReportedTable
from tinsmith.stats.incentives import Posteriors
from tinsmith.stats.rates import FloatArray
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.json_text import parse_json


def split_labels(text: str | None) -> tuple[str, ...] | None:
    """Split a comma-separated list of labels."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        what = "labels must be two or more different names"
        raise ConfigError(what, field="--labels", value=text, allowed="names with commas between them, such as a,b,c")
    return names


def texts_of(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Split NAME=TEXT pairs."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not (key and equals and text) or key in found:
            what = "a label is named twice" if key in found else "this is no pair"
            raise ConfigError(what, field=option, value=pair, allowed="NAME=NUMBER, once for every name")
        found[key] = text
    return found


def numbers_of(pairs: Sequence[str], option: str) -> dict[str, float]:
    """Split NAME=NUMBER pairs."""
    numbers: dict[str, float] = {}
    for key, text in texts_of(pairs, option).items():
        try:
            numbers[key] = float(text)
        except ValueError:
            what, allowed = "this is not a number", "NAME=NUMBER"
            raise ConfigError(what, field=option, value=f"{key}={text}", allowed=allowed) from None
    return numbers


def json_of(path: Path) -> object:
    """Read JSON, with decimals as spelled."""
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        return parse_json(path.read_text("utf-8-sig"), parse_float=Decimal)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None


def is_number(value: object) -> bool:
    """True if a value of JSON is a number."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


EXAMPLE = "example"
_BESIDE = ("weight", "id")
_BESIDE_THIS = Path(__file__).parent  # Holds the examples, in files as a user's.


def read_posteriors(source: str, labels: str | None) -> Posteriors:
    """Read posteriors from a .jsonl or .npy file, or return the example: four equally frequent kinds of papers.

    A line of .jsonl is an object with a number for every label, and `weight` and `id` if one likes, or
    a list of numbers. Labels that are a task's stand in the task's order afterwards.
    """
    if source == EXAMPLE:
        if labels is not None:
            raise ConfigError("the built-in example has its own labels", field="--labels", value=labels)
        return _in_task_order(_from_jsonl(_BESIDE_THIS / "example.jsonl", None))
    path = Path(source)
    if not path.is_file():
        allowed = f"a .jsonl or .npy file, or the word {EXAMPLE}"
        raise DataError(f"there is no file {source}", field="--posteriors", allowed=allowed)
    given = split_labels(labels)
    if path.suffix == ".npy":
        return _in_task_order(_from_npy(path, given or Subject.DISRUPTION.labels))
    if path.suffix == ".jsonl":
        return _in_task_order(_from_jsonl(path, given))
    raise DataError("posteriors must be a .jsonl or .npy file", field="--posteriors", value=source)


def read_matrix(path: Path, labels: tuple[str, ...]) -> FloatArray:
    """Read a reward table: a list of rows in the order of `labels`, or an object of objects by label."""
    allowed = (
        f"{len(labels)} rows of {len(labels)} numbers, or {{true label: {{answer: number}}}} "
        f"with the labels {', '.join(labels)}"
    )
    wrong = DataError(f"{path}: this is not a reward table for these labels", field="--matrix", allowed=allowed)
    try:
        table = msgspec.convert(json_of(path), dict[str, dict[str, float]] | list[list[float]])
    except msgspec.ValidationError:
        raise wrong from None
    if isinstance(table, dict):
        if any(set(names) != set(labels) for names in (table, *table.values())):
            raise wrong
        table = [[table[y][k] for k in labels] for y in labels]
    if [len(row) for row in table] != [len(labels)] * len(labels):
        raise wrong
    return np.array(table)


def reward_settings(settings: Sequence[str] | None, class_weights: Sequence[str] | None) -> Mapping[str, object]:
    """Parse KEY=NUMBER and LABEL=FACTOR into arguments of `make_reward`."""
    found: dict[str, object] = dict(numbers_of(settings or (), "--set"))
    if class_weights:
        found["class_weights"] = numbers_of(class_weights, "--class-weight")
    return found


def _from_npy(path: Path, labels: tuple[str, ...]) -> Posteriors:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not an array of numbers: {error}") from None
    if values.dtype.kind not in "fiu":
        raise DataError(f"{path} is not an array of numbers", field="dtype", value=str(values.dtype))
    return Posteriors.of(labels, values)


def _from_jsonl(path: Path, labels: tuple[str, ...] | None) -> Posteriors:
    rows: list[list[float]] = []
    weights: list[float] = []
    for number, text in enumerate(path.read_text("utf-8-sig").splitlines(), start=1):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = parse_json(text)
        except ValueError as error:
            raise DataError(f"{where} is not JSON: {error}") from None
        weight = 1.0
        if isinstance(values, dict):
            named = {str(key): value for key, value in values.items() if key not in _BESIDE}
            weight, labels = values.get("weight", 1.0), labels or tuple(named)
            if set(named) != set(labels):
                allowed = ", ".join(labels)
                raise DataError(f"{where} has other labels", field="labels", value=list(named), allowed=allowed)
            values = [named[label] for label in labels]
        labels = labels or Subject.DISRUPTION.labels
        if not isinstance(values, list) or len(values) != len(labels) or not all(map(is_number, values)):
            raise DataError(f"{where} is not one number for every label", allowed=", ".join(labels))
        if not is_number(weight):
            raise DataError(where, field="weight", value=weight)
        rows.append([float(value) for value in values])
        weights.append(float(weight))
    if labels is None or not rows:
        raise DataError(f"{path} has no line")
    return Posteriors.of(labels, np.array(rows), np.array(weights))


def _in_task_order(posteriors: Posteriors) -> Posteriors:
    for subject in Subject:
        if set(subject.labels) == set(posteriors.labels):
            order = [posteriors.labels.index(label) for label in subject.labels]
            columns = posteriors.probabilities[:, order]
            return Posteriors(subject.labels, columns, posteriors.weights)
    return posteriors


def check_only(
    rates: bool, *, file: Path | None, seeds: bool, labels: str | None, n: int | None, max_n: int | None
) -> None:
    """Check that exactly one source of rates is named; `rates` is true if options give some."""
    named = [name for name, given in (("--seeds", seeds), ("--file", file is not None), ("rates", rates)) if given]
    if len(named) != 1:
        what = "rates come from one place" if named else "there is no rate to check"
        allowed = "--seeds, or --file TABLE.json, or rates such as --recall LABEL=0.2910 --label-match 0.316"
        raise ConfigError(what, field=" and ".join(named) or None, allowed=allowed)
    if seeds and (labels is not None or n is not None or max_n is not None):
        raise ConfigError("the tables of the source notes have their own labels and n", field="--seeds")
    if file is not None and labels is not None:
        raise ConfigError("the labels are named in the file", field="--labels", value=labels)
    if n is not None and max_n is not None:
        raise ConfigError("give --n or --max-n, not both", field="--n, --max-n", value=(n, max_n))
    for name, number in (("--n", n), ("--max-n", max_n)):
        if number is not None and not 1 <= number <= 1_000_000:
            what = "the number of items must be a whole number above 0"
            raise ConfigError(what, field=name, value=number, allowed="1 to 1000000")


def table_of_options(
    rates: Mapping[str, str], recall: Sequence[str], share: Sequence[str], labels: str | None, n: int | None
) -> ReportedTable:
    """Return the system described by options: rates of all labels by name, and of one as LABEL=RATE."""
    recalls, shares = texts_of(recall, "--recall"), texts_of(share, "--share")
    line: dict[str, str | Decimal] = dict(rates)
    line |= {f"recall/{label}": text for label, text in recalls.items()}
    line |= {f"predicted_share/{label}": text for label, text in shares.items()}
    named = split_labels(labels) or _labels_for([*recalls, *shares])
    return ReportedTable.of(named, {"given": line}, n)


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    labels: list[str]
    runs: dict[str, dict[str, object]]
    n: object = None


def read_table(path: Path, n: int | None) -> ReportedTable:
    """Read {"labels": [...], "n": 500, "runs": {name: {metric: rate}}}; rates keep their digits.

    `n` on the command line goes before the file's. Metrics have their names in metrics.jsonl.
    """
    try:
        table = msgspec.convert(json_of(path), _Table)
    except msgspec.ValidationError:
        allowed = '{"labels": [names], "n": items (optional), "runs": {name: {metric: rate}}}'
        raise DataError(f"{path}: this is not a table of rates", field="--file", allowed=allowed) from None
    lines = {name: {key: _printed(name, key, rate) for key, rate in line.items()} for name, line in table.runs.items()}
    stated = table.n
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int)):
        raise DataError(f"{path}: n must be the number of items", field="n", value=stated)
    return ReportedTable.of(table.labels, lines, stated if n is None else n)


def _printed(name: str, key: str, rate: object) -> str | Decimal:
    if is_number(rate):
        return rate if isinstance(rate, Decimal) else str(rate)
    if isinstance(rate, str):
        return rate
    raise DataError("a rate is a number", field=f"{name}: {key}", value=rate)


def _labels_for(named: Sequence[str]) -> tuple[str, ...]:
    """Return the task's labels that include the given ones."""
    if not named:
        return Subject.DISRUPTION.labels
    for subject in Subject:
        if set(named) <= set(subject.labels):
            return subject.labels
        for label in named:
            meant = difflib.get_close_matches(label, subject.labels, n=1, cutoff=0.75)
            if meant and label not in subject.labels:
                what, fix = "no task has such a label", f"write {meant[0]}, or name all labels with --labels"
                raise ConfigError(what, field="label", value=label, allowed=", ".join(subject.labels), fix=fix)
    fix = "name all labels with --labels, also those without a rate"
    raise ConfigError("no task has these labels", field="label", value=tuple(named), fix=fix)


LABELS = Subject.DISRUPTION.labels
STATED_N = 500


def seed_ladder() -> ReportedTable:
    """Return Baseline to Exp4 at step 250, n = 500 as stated."""
    return read_table(_BESIDE_THIS / "published_ladder.json", STATED_N)


def seed_exp5(n: int | None = None) -> ReportedTable:
    """Return Exp5's held-out trajectory; `n` is the assumed number of items, None for any."""
    return read_table(_BESIDE_THIS / "published_exp5.json", n)
