"""Runs that are more than one run, or none: studies of several experiments, and measurements without training.

Only what they can be told is known here; the command line imports what runs one when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.studies.adapters import settings as adapter_settings
from tinsmith.studies.rubrics.quality import settings as quality_settings
from tinsmith.studies.sft_vs_rl import keys as sft_vs_rl_keys
from tinsmith.studies.sft_vs_rl.settings import sft_vs_rl_settings
from tinsmith.lab.study.keys import StudyKeys
from tinsmith.lab.runs.records import RUBRIC_QUALITY

ADAPTERS: Final = "study/adapters"
SFT_VS_RL: Final = "study/sft_vs_rl"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEntry:
    """One of them; `tinsmith run NAME key=value ...` runs it."""

    name: str
    question: str
    keys: StudyKeys
    read: Callable[[Mapping[str, str]], object]
    """Reads `key=value` texts; raises ConfigError for what is not allowed."""


STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType(
    {
        one.name: one
        for one in (
            StudyEntry(
                name=RUBRIC_QUALITY,
                question=quality_settings.QUESTION,
                keys=quality_settings.quality_keys(),
                read=quality_settings.make_settings,
            ),
            StudyEntry(
                name=ADAPTERS,
                question=adapter_settings.QUESTION,
                keys=adapter_settings.ADAPTER_KEYS,
                read=adapter_settings.adapter_study,
            ),
            StudyEntry(
                name=SFT_VS_RL,
                question=sft_vs_rl_keys.QUESTION,
                keys=sft_vs_rl_keys.SFT_VS_RL_KEYS,
                read=sft_vs_rl_settings,
            ),
        )
    }
)
"""Every study by its name."""
