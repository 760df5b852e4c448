"""Which keys `rubric_quality` has, and what they are set to."""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast, get_args, get_type_hints

from tinsmith.lab.experiment.key_help import default_of, shown_value, words_of
from tinsmith.lab.experiment.key_text import folder_name, truth, unreadable
from tinsmith.lab.judge.settings import ChatSettings
from tinsmith.lab.study.keys import StudyKey, StudyKeys
from tinsmith.studies.rubrics.records import RULES
from tinsmith.types.errors import ConfigError

NAME: Final = "rubric_quality"
QUESTION: Final = "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?"
_CHAT_PREFIX: Final = "judge_"


class IfExists(StrEnum):
    """What to do where the folder holds such a run already."""

    RAISE = "raise"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySettings:
    """What is measured, by whom, and where it is written."""

    data_path: Path | None = None
    """Preference pairs as JSON Lines; None: the built-in ones."""
    limit: int | None = None
    """Most pairs to judge, drawn by the seed."""
    seed: int = 0
    """The random seed of the pairs, of the order of their responses, and of the control's rubrics."""
    log_path: Path | None = None
    """The folder it is written to; None: named after what was changed, below `runs`."""
    prices: Path | None = None
    """A table of prices, laid over the one that comes with the package."""
    behavior_if_log_dir_exists: IfExists = IfExists.RAISE
    """What to do if the folder holds such a run: `raise` or `delete`."""
    dry_run: bool = False
    """Only say what the run would take."""
    chat: ChatSettings | None = None
    """The judge behind an endpoint; None: the judge by rules."""

    @property
    def judge_model(self) -> str:
        """The judge's name."""
        return RULES if self.chat is None else self.chat.judge_model


_CIRCUMSTANCES: Final = ("log_path", "behavior_if_log_dir_exists", "dry_run", "prices")
"""Keys that decide no answer."""


def quality_keys() -> StudyKeys:
    """Return what it can be told, as the settings' own fields say."""
    judge = [each for each in fields(ChatSettings) if each.name.startswith(_CHAT_PREFIX)]
    words = words_of(ChatSettings) | words_of(QualitySettings)
    words["judge_model"] = f"{RULES}, or a model of an OpenAI-compatible endpoint."
    own = [each for each in fields(QualitySettings) if each.name != "chat"]
    return StudyKeys(
        own=tuple(
            StudyKey(
                name=each.name,
                default=RULES if each.name == "judge_model" else shown_value(default_of(each)),
                words=words.get(each.name, ""),
            )
            for each in (*own, *judge)
        ),
        more="Keys that begin with judge_ are of a judge behind an endpoint; OPENAI_API_KEY is its key.",
    )


def make_settings(overrides: Mapping[str, str]) -> QualitySettings:
    """Read `key=value` texts.

    Raises:
        ConfigError: an unknown or unused key, or a value that is not allowed.
    """
    hints = get_type_hints(ChatSettings) | get_type_hints(QualitySettings)
    own = {each.name for each in fields(QualitySettings)}
    by_rules = overrides.get("judge_model", RULES) == RULES
    quality_keys().require(overrides)
    for key, value in overrides.items():
        if by_rules and key != "judge_model" and (key not in own or key == "prices"):
            raise ConfigError(
                "judge_model=rules does not use this key",
                field=key,
                value=value,
                fix="name a judge with judge_model=NAME, or leave this key out",
            )
    values: dict[str, Any] = {key: _read(key, value, hints[key]) for key, value in overrides.items()}
    chat = None
    if not by_rules:
        base_url = values.get("judge_base_url") or os.environ.get("OPENAI_BASE_URL")
        # A name means one model at one address only: elsewhere the cache must not answer for it.
        identity = f"{values['judge_model']} at {base_url}" if base_url else None
        asked = {key: value for key, value in values.items() if key not in own}
        chat = ChatSettings(seed=values.get("seed", 0), identity=identity, **asked)
    made = QualitySettings(**{k: v for k, v in values.items() if k in own}, chat=chat)
    if made.limit is not None and made.limit < 1:
        raise ConfigError("too small", field="limit", value=made.limit, allowed=">= 1")
    return made


def default_log_path(overrides: Mapping[str, str]) -> Path:
    """Return `runs/rubric_quality[-CHANGES]` here."""
    changes = [f"{k}={v}" for k, v in sorted(overrides.items()) if k not in _CIRCUMSTANCES]
    return Path("runs") / folder_name(NAME, changes)


def _read(key: str, value: str, hint: object) -> object:
    kinds = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = cast(type, next(one for one in kinds if one is not types.NoneType))
    if kind is bool:
        return truth(key, value)
    try:
        return kind(value)
    except ValueError:
        allowed = "a number" if kind is float else "a whole number"
        if issubclass(kind, StrEnum):
            allowed = ", ".join(kind)
        raise unreadable(key, value, allowed) from None
