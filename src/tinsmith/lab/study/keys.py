"""Keys of studies: their own, those of their runs that they pass on, and readers of seeds, rates and numbers.

A measurement is a function whose arguments are its keys, and that returns what measures; and how files are written.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from tinsmith.lab.experiment.experiment import default_of, words_of
from tinsmith.lab.experiment.key_text import converted, meant_key, shown_value, unknown_key, unreadable
from tinsmith.lab.settings import Selection
from tinsmith.lab.user_task.calls import arguments_of
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

N = TypeVar("N", int, float)

FEWEST_RATES: Final = 5  # With fewer one would compare how well each arm was tuned.


@dataclass(frozen=True, slots=True)
class StudyKey:
    """One key of a study."""

    name: str
    default: str  # As it would stand on the command line, or where it comes from; empty: none.
    words: str


DRY_RUN: Final = StudyKey("dry_run", "false", "Only print the number of runs, and how long they would take.")
RAY: Final = StudyKey(
    "ray", "", "Ray cluster for the runs: local starts one here, HOST:PORT or auto joins one; empty: no cluster."
)
CELLS_AT_ONCE: Final = StudyKey(
    "cells_at_once", "0", "With ray: maximum concurrent runs; 0: one per core of the cluster."
)
CLUSTER_KEYS: Final = (RAY, CELLS_AT_ONCE)
GENERATOR: Final = StudyKey("generator", "", "With task=reasoning_gym: the name of one of its tasks.")
SUMS: Final = "task=reasoning_gym config.max_terms=3 config.min_digits=1 config.max_digits=2 read=number max_tokens=24"
"""Sums of two or three numbers: a small pretrained model solves them now and then, and learns to do so more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKeys:
    """All keys of a study."""

    own: tuple[StudyKey, ...]
    passed_on: frozenset[str] = frozenset()  # Keys of a run that every run of the study gets.
    prefixes: tuple[str, ...] = ()  # Beginnings of further keys.
    set_by_study: frozenset[str] = frozenset()
    """Keys of a run that the study sets itself, or that would make its runs unequal."""
    instead: str = ""  # Which of its own keys say such things.
    more: str = ""  # What else may be told, as a sentence.

    def require(self, given: Mapping[str, str]) -> None:
        """Check that every key is one of them."""
        known = {key.name for key in self.own} | self.passed_on
        for key, value in given.items():
            if key in self.set_by_study:
                what, own = "the study sets this key itself for each run", meant_key(key, known)
                fix = f"write {own}={value}" if own in known else None
                raise ConfigError(what, field=key, value=value, allowed=self.instead, fix=fix)
            if key not in known and not key.startswith(self.prefixes):
                raise unknown_key(key, value, known, self.prefixes)


def require_a_score(given: Mapping[str, str]) -> None:
    """Check that runs choose their checkpoints by a score, by which rates are then chosen too."""
    if given.get("select_by") == Selection.LAST.value:
        what = "a study chooses rates by the score of the chosen checkpoint"
        allowed = ", ".join(one for one in Selection if one is not Selection.LAST)
        raise ConfigError(what, field="select_by", value=given["select_by"], allowed=allowed)


def numbers(key: str, text: str, kind: type[N]) -> list[N]:
    """Read a key's numbers with commas between them."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise unreadable(key, text, "numbers with commas between them") from None


def count(key: str, text: str, least: int) -> int:
    """Read a whole number."""
    found = numbers(key, text, int)
    if len(found) != 1 or found[0] < least:
        raise ConfigError("this number is too small", field=key, value=text, allowed=f"{least} or more")
    return found[0]


def learning_rates(key: str, text: str, *, least: int = 1) -> tuple[float, ...]:
    """Read learning rates to choose from, from the lowest to the highest."""
    found = sorted(numbers(key, text, float))
    if len(set(found)) < max(len(found), least) or not all(0 < one < math.inf for one in found):
        allowed = f"{least} or more different ones, above 0, with commas between them"
        raise ConfigError("a list of learning rates is needed", field=key, value=text, allowed=allowed)
    return tuple(found)


def seeds_apart(text: str, tuning: str, *, least: int = 1) -> tuple[tuple[int, ...], int]:
    """Read `seeds`, which are reported, and `tuning_seed`, by which learning rates are chosen."""
    found, first = numbers("seeds", text, int), numbers("tuning_seed", tuning, int)
    if len(set(found)) < max(len(found), least) or min(found) < 0:
        allowed = f"{least} or more different ones, 0 or more, with commas between them"
        raise ConfigError("a comparison over seeds needs several of them", field="seeds", value=text, allowed=allowed)
    if len(first) != 1 or first[0] < 0:
        raise ConfigError("tuning_seed must be one seed, 0 or more", field="tuning_seed", value=tuning)
    if first[0] in found:
        what, fix = f"seed {first[0]} chooses the rates (tuning_seed), so it cannot be reported too", "tuning_seed=N"
        allowed = f"whole numbers from 0 on, other than {first[0]}"
        raise ConfigError(what, field="seeds", value=text, allowed=allowed, fix=f"leave {first[0]} out, or {fix}")
    return tuple(found), first[0]


def cluster_of(given: Mapping[str, str]) -> tuple[str, int] | None:
    """Read a cluster's address, and most runs at once (0: one for each core); None: no cluster is asked for."""
    address, at_once = given.get(RAY.name, ""), given.get(CELLS_AT_ONCE.name)
    most = 0 if at_once is None else count(CELLS_AT_ONCE.name, at_once, 0)
    if not address:
        if at_once is not None:
            what, fix = "this key is for runs on a cluster, and no cluster is given", "ray=local or ray=ADDRESS"
            raise ConfigError(what, field=CELLS_AT_ONCE.name, value=at_once, fix=fix)
        return None
    if (device := given.get("device", "cpu")) != "cpu":
        what = "runs on a cluster compute on its CPUs only"
        raise ConfigError(what, field="device", value=device, allowed="cpu")
    return address, most


Measure = Callable[[Say], Path]
"""Says what it takes, measures, writes files, and returns their folder; where that is asked for it only says."""
Measurement = Callable[..., Measure]
"""Checks its keyword arguments and returns what measures. `**more: Annotated[object, SETTINGS]` takes further keys: the
fields of a dataclass, or where some of them begin with `more_`, only those."""


def keys_of(measurement: Measurement) -> StudyKeys:
    """Return the keys of a measurement: its arguments, with their defaults and what its docstring says."""
    own: list[StudyKey] = []
    for each, hint, words in arguments_of(measurement):
        if each.kind is each.VAR_KEYWORD:
            settings = _further(hint)
            texts, names = words_of(settings), [key.name for key in own]
            further = [one for one in fields(settings) if one.name not in names]
            of_name = [one for one in further if one.name.startswith(f"{each.name}_")]
            own += [StudyKey(one.name, _shown(default_of(one)), texts.get(one.name, "")) for one in of_name or further]
        else:
            own.append(StudyKey(each.name, _shown(each.default), words))
    _, _, more = (inspect.getdoc(measurement) or "").partition("\n\nArgs:")[0].partition("\n\n")
    return StudyKeys(own=tuple(own), more=" ".join(more.split()))


def measure_of(measurement: Measurement, given: Mapping[str, str]) -> Measure:
    """Read `key=value` texts, and return what measures."""
    keys_of(measurement).require(given)
    hints: dict[str, object] = {}
    for each, hint, _ in arguments_of(measurement):
        hints = {**(get_type_hints(_further(hint)) if each.kind is each.VAR_KEYWORD else {each.name: hint}), **hints}
    return measurement(**{key: _value(key, text, hints[key]) for key, text in given.items()})


def _value(key: str, text: str, hint: object) -> object:
    if isinstance(hint, types.UnionType):
        hint = next(one for one in get_args(hint) if one is not types.NoneType)
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        return tuple(_value(key, part, kind) for part in text.split(","))
    return converted(key, text, hint)


def at_least(lowest: float, **values: float) -> None:
    """Check that values are not below a bound."""
    for key, value in values.items():
        if not (math.isfinite(value) and value >= lowest):
            raise ConfigError("this number is too small", field=key, value=value, allowed=f"{lowest:g} or more")


def _further(hint: object) -> type[Any]:
    """Return the dataclass whose fields are further keys."""
    assert get_origin(hint) is Annotated, "further keys must be the fields of a dataclass"
    return get_args(hint)[1]


def _shown(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, cast(tuple[object, ...], default)))
    return "" if default is inspect.Parameter.empty else shown_value(default)
