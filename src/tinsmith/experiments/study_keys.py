"""Which keys a study has of its own, with their defaults and meanings, and which keys of its runs it passes on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.training.settings import Selection
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKey:
    """One key of a study."""

    name: str
    default: str
    """As it would stand on the command line, or where it comes from; empty: none."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKeys:
    """All keys of a study."""

    own: tuple[StudyKey, ...]
    passed_on: frozenset[str] = frozenset()
    """Keys of a run that every run of the study gets."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of further keys."""
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
            ConfigError: one is not.
        """
        known = sorted({key.name for key in self.own} | self.passed_on)
        for key, value in given.items():
            if key in known or any(map(key.startswith, self.prefixes)):
                continue
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            raise ConfigError(
                "there is no such key",
                field=key,
                value=value,
                allowed=", ".join([*known, *(f"{prefix}*" for prefix in self.prefixes)]),
                fix=f"perhaps {near[0]}" if near else None,
            )


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


def truth(key: str, text: str) -> bool:
    """Read a key that is true or false.

    Raises:
        ConfigError: it is neither.
    """
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise ConfigError("this value cannot be read", field=key, value=text, allowed="true or false")
