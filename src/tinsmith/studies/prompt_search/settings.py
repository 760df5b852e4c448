"""Keys of `prompt_search`: a task, the prompt written for it, and the amounts of the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.keys import StudyKey, count
from tinsmith.lab.study.task_study import OpenSource, Size, Sizes, TaskArm, size_of, sized_keys, task_study
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.types.errors import ConfigError

NAME: Final = "prompt_search"
QUESTION: Final = "Does a search for a better prompt reach what RL reaches, with the model as it is?"
RL, RL_SHUFFLED = "rl", "rl_shuffled"
PROMPT, PROMPT_SHUFFLED = "prompt", "prompt_shuffled"
BASE_OF: Final = MappingProxyType({PROMPT: RL, PROMPT_SHUFFLED: RL_SHUFFLED})
"""Arm whose base, questions and right answers each search has."""
LABELS: Final = MappingProxyType({PROMPT: "prompt searched", PROMPT_SHUFFLED: "prompt searched, shuffled answers"})
INSTRUCTIONS: Final = (
    "Follow every instruction exactly.",
    "Read the whole request before you answer.",
    "Check each instruction once more before you finish.",
    "Write only the answer, and nothing before or after it.",
    "Keep the answer short.",
    "Answer in two or three sentences.",
    "Answer in one sentence.",
    "Use each word that you are asked to use.",
    "If a number of words or lines is given, count them.",
    "Do not use commas.",
    "Write in small letters.",
    "Write plain text without any marks.",
    "Do not repeat the request.",
    "Repeat the request before you answer.",
    "You are a careful assistant.",
    "You are a poet.",
    "Write as much as you can.",
    "Think step by step.",
)
"""Lines that a prompt for following instructions may begin with: some are often written there, some do no good."""


class ProposedBy(StrEnum):
    """Proposers of edits."""

    GRAMMAR = "grammar"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedTask:
    """A task whose prompt can be searched."""

    written: Document
    """By hand: the beginning of its prompts."""
    bank: tuple[str, ...]
    unit: Callable[[str], str]
    """Returns the name of the cluster of an item, by its name."""


TASKS: Final[Mapping[str, SearchedTask]] = MappingProxyType(
    {
        handbook.NAME: SearchedTask(written=handbook.WRITTEN, bank=handbook.BANK, unit=lambda item: item.split("-")[0]),
        "instructions": SearchedTask(written=(), bank=INSTRUCTIONS, unit=lambda item: item),
    }
)
_RATES: Final = MappingProxyType({Size.SMALLEST: 2e-3, Size.NANO: 2e-3, Size.SMALL: 3e-4})
_ARMS: Final = (
    TaskArm(name=RL, words="RL", rates=_RATES),
    TaskArm(name=RL_SHUFFLED, words="RL, shuffled answers", rates=_RATES, keys={"shuffle_labels": "true"}),
)
_SHORT: Final = {"seeds": "1", "steps": "20", "eval_every": "20", "eval_items": "40", "eval_samples": "2"}
SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {"seeds": "1", "steps": "4", "eval_every": "4", "eval_items": "24", "save_every": "0"},
        Size.NANO: {"steps": "60", "eval_every": "20", "save_every": "0"},
        Size.SMALL: {"at": "small", **_SHORT, "save_every": "0", "watch_forgetting": "false"},
    }
)
_SMALLEST_BASE: Final = "200"
_SEARCHES: Final[Mapping[Size, SearchSettings]] = MappingProxyType(
    {
        Size.SMALLEST: SearchSettings(steps=3, batch=8, candidates=6, gate=16),
        Size.NANO: SearchSettings(),
        Size.SMALL: SearchSettings(steps=8, batch=12, candidates=5, gate=24),
    }
)
_AMOUNTS: Final = {
    "search_steps": ("steps", "Steps of the search."),
    "batch": ("batch", "Training questions that edits are tried on."),
    "candidates": ("candidates", "Edits that are proposed in a step."),
    "most_edits": ("most_edits", "Made at once in the first step; falls."),
    "gate": ("gate", "Questions of selection that the gate draws."),
}
"""Field of the search's settings by key, with the help of the key."""
KEYS: Final = sized_keys(
    NAME,
    (
        StudyKey("task", handbook.NAME, f"What is asked: {' or '.join(TASKS)} (at=small)."),
        StudyKey("proposer", ProposedBy.GRAMMAR.value, "Who proposes: grammar, or model."),
        *(StudyKey(key, str(getattr(_SEARCHES[Size.NANO], name)), words) for key, (name, words) in _AMOUNTS.items()),
    ),
    ("base_steps",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """Settings of the study."""

    study: Study
    task: SearchedTask
    proposer: ProposedBy
    search: SearchSettings
    """With the first seed; each search has its run's own."""

    def deciding(self) -> dict[str, object]:
        """Return settings that decide the results, but for the items and the base."""
        opened = self.study.arms[0].opened
        assert opened is not None, "the task is kept"
        shared = {key: value for key, value in self.study.shared.items() if key != "quiet"}
        search = {f"search/{key}": value for key, value in msgspec.structs.asdict(self.search).items() if key != "seed"}
        return {"task": opened.found_at, "proposer": self.proposer.value, **search, **opened.keys, **shared}


def prompt_settings(given: Mapping[str, str], open_source: OpenSource) -> PromptSettings:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    size = size_of(given)
    named = given.get("task", "instructions" if size is Size.SMALL else handbook.NAME)
    proposer = KEYS.value(given, "proposer")
    for key, value, allowed in (("task", named, list(TASKS)), ("proposer", proposer, list(ProposedBy))):
        if value not in allowed:
            raise ConfigError("there is no such choice", field=key, value=value, allowed=", ".join(allowed))
    source = open_source(named, given)
    assert source is not None, "it is kept"
    sizes = SIZES
    if named == handbook.NAME:
        sizes = {**SIZES, Size.SMALLEST: {**SIZES[Size.SMALLEST], "base_steps": _SMALLEST_BASE}}
    study = task_study(Study(name=NAME, question=QUESTION, arms=(), shared={}), source, _ARMS, sizes, KEYS, given)
    amounts = {name: count(key, given[key], 1) for key, (name, _) in _AMOUNTS.items() if key in given}
    search = SearchSettings(**{**msgspec.structs.asdict(_SEARCHES[size]), **amounts})
    return PromptSettings(study=study, task=TASKS[named], proposer=ProposedBy(proposer), search=search)
