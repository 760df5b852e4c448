"""Runs that are more than one run, or none: studies of several experiments, and measurements without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.experiments import adapter_settings, adapter_study, rubric_quality, sft_vs_rl
from tinsmith.experiments.adapter_settings import ADAPTER_KEYS
from tinsmith.experiments.quality_settings import quality_keys
from tinsmith.experiments.sft_vs_rl_keys import SFT_VS_RL_KEYS
from tinsmith.experiments.study_keys import StudyKeys
from tinsmith.experiments.worlds import Told
from tinsmith.runs.run_records import RUBRIC_QUALITY


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEntry:
    """One of them; `tinsmith run NAME key=value ...` runs it."""

    name: str
    question: str
    keys: StudyKeys
    run: Callable[[Mapping[str, str], Told], Path]
    """Takes `key=value` as text, and returns the folder of its results."""


STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType(
    {
        one.name: one
        for one in (
            StudyEntry(
                name=RUBRIC_QUALITY,
                question=rubric_quality.QUESTION,
                keys=quality_keys(),
                run=rubric_quality.run_rubric_quality,
            ),
            StudyEntry(
                name="study/adapters",
                question=adapter_settings.QUESTION,
                keys=ADAPTER_KEYS,
                run=adapter_study.run_adapter_study,
            ),
            StudyEntry(
                name="study/sft_vs_rl",
                question=sft_vs_rl.QUESTION,
                keys=SFT_VS_RL_KEYS,
                run=sft_vs_rl.run_sft_vs_rl,
            ),
        )
    }
)
"""Every study by its name."""
