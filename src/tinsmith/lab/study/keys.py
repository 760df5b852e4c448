"""Which keys a study has of its own, which keys of its runs it passes on, and how its lists of numbers are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeVar

from tinsmith.lab.experiment.key_text import unknown_key, unreadable
from tinsmith.lab.settings import Selection
from tinsmith.types.errors import ConfigError

N = TypeVar("N", int, float)

FEWEST_RATES: Final = 5
"""With fewer one would compare how well each arm was tuned."""


@dataclass(frozen=True, slots=True)
class StudyKey:
    """One key of a study."""

    name: str
    default: str
    """As it would stand on the command line, or where it comes from; empty: none."""
    words: str


TUNING_SEED: Final = StudyKey("tuning_seed", "0", "By which rates are chosen; none of the others.")
DRY_RUN: Final = StudyKey("dry_run", "false", "Only say how many runs it is, and how long.")


GENERATOR: Final = StudyKey("generator", "", "With task=reasoning_gym: which of its tasks.")
SUMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "task": "reasoning_gym",
        "config.max_terms": "3",
        "config.min_digits": "1",
        "config.max_digits": "2",
        "read": "number",
        "max_tokens": "24",
    }
)
"""Sums of two or three numbers: a small pretrained model solves them now and then, and learns to do so more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKeys:
    """All keys of a study."""

    own: tuple[StudyKey, ...]
    passed_on: frozenset[str] = frozenset()
    """Keys of a run that every run of the study gets."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of further keys."""
    set_by_study: frozenset[str] = frozenset()
    """Keys of a run that the study sets itself, or that would make its runs unequal."""
    instead: str = ""
    """Which of its own keys say such things."""
    more: str = ""
    """What else may be told, as a sentence."""

    def default(self, name: str) -> str:
        """Return the default of one of its own keys."""
        return next(key.default for key in self.own if key.name == name)

    def value(self, given: Mapping[str, str], name: str) -> str:
        """Return what is given for one of its own keys, else its default."""
        return given.get(name, self.default(name))

    def runs_keys(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what is given for all runs."""
        own = {key.name for key in self.own}
        return {key: value for key, value in given.items() if key not in own}

    def require(self, given: Mapping[str, str]) -> None:
        """Check that every key is one of them."""
        known = {key.name for key in self.own} | self.passed_on
        for key, value in given.items():
            if key in self.set_by_study:
                raise ConfigError(
                    "the study sets this key itself for each run", field=key, value=value, allowed=self.instead
                )
            if key not in known and not key.startswith(self.prefixes):
                raise unknown_key(key, value, known, self.prefixes)


def require_a_score(given: Mapping[str, str]) -> None:
    """Check that runs choose their checkpoints by a score, by which rates are then chosen too."""
    if given.get("select_by") == Selection.LAST.value:
        raise ConfigError(
            "a study chooses rates by the score of the chosen checkpoint",
            field="select_by",
            value=given["select_by"],
            allowed=", ".join(one for one in Selection if one is not Selection.LAST),
        )


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
    rising = all(low < high for low, high in pairwise(found))
    if len(found) < least or not rising or not all(0 < one < math.inf for one in found):
        raise ConfigError(
            "a list of learning rates is needed",
            field=key,
            value=text,
            allowed=f"{least} or more different ones, above 0, with commas between them",
        )
    return tuple(found)


def seeds_apart(text: str, tuning: str, *, least: int = 1) -> tuple[tuple[int, ...], int]:
    """Read `seeds`, which are reported, and `tuning_seed`, by which learning rates are chosen."""
    found, first = numbers("seeds", text, int), numbers("tuning_seed", tuning, int)
    if len(set(found)) < max(len(found), least) or min(found) < 0:
        raise ConfigError(
            "a comparison over seeds needs several of them",
            field="seeds",
            value=text,
            allowed=f"{least} or more different ones, 0 or more, with commas between them",
        )
    if len(first) != 1 or first[0] < 0:
        raise ConfigError("one seed is needed to choose rates by", field="tuning_seed", value=tuning)
    if first[0] in found:
        raise ConfigError(
            "the seed that chose the rates cannot be reported",
            field="tuning_seed",
            value=first[0],
            allowed=f"none of {text}",
        )
    return tuple(found), first[0]
