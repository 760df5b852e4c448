"""Which keys a study has of its own, with their defaults and meanings, and which keys of its runs it passes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.experiments.key_text import unknown_key
from tinsmith.training.settings import Selection
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKey:
    """One key of a study."""

    name: str
    default: str
    """As it would stand on the command line, or where it comes from; empty: none."""
    words: str


TUNING_SEED: Final = StudyKey(
    name="tuning_seed", default="0", words="By which rates are chosen; none of the others."
)
DRY_RUN: Final = StudyKey(
    name="dry_run", default="false", words="Only say how many runs it is, and how long."
)


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
        """Check that every key is one of them.

        Raises:
            ConfigError: one is not, or the study sets it itself.
        """
        known = {key.name for key in self.own} | self.passed_on
        for key, value in given.items():
            if key in self.set_by_study:
                raise ConfigError(
                    "the study sets this key itself for each run",
                    field=key,
                    value=value,
                    allowed=self.instead,
                )
            if key not in known and not key.startswith(self.prefixes):
                raise unknown_key(key, value, known, self.prefixes)


def require_a_score(given: Mapping[str, str]) -> None:
    """Check that runs choose their checkpoints by a score, by which rates are then chosen too.

    Raises:
        ConfigError: the last one is to be taken.
    """
    if given.get("select_by") == Selection.LAST.value:
        raise ConfigError(
            "a study chooses rates by the score of the chosen checkpoint",
            field="select_by",
            value=given["select_by"],
            allowed=", ".join(one for one in Selection if one is not Selection.LAST),
        )
