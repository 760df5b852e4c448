"""What `tinsmith run prompt_search` is asked for: a task, the prompt written for it, and how it is searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.keys import StudyKey, count
from tinsmith.lab.study.task_study import OpenSource, Size, Sizes, TaskArm, size_of, sized_keys, task_study
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.studies.prompt_search.banks import INSTRUCTIONS
from tinsmith.types.errors import ConfigError

NAME: Final = "prompt_search"
QUESTION: Final = "Does a search for a better prompt reach what RL reaches, with the model as it is?"

RL, RL_SHUFFLED = "rl", "rl_shuffled"
PROMPT, PROMPT_SHUFFLED = "prompt", "prompt_shuffled"
BASE_OF: Final = MappingProxyType({PROMPT: RL, PROMPT_SHUFFLED: RL_SHUFFLED})
"""Which arm's base, questions and right answers each search has."""
WORDS: Final = MappingProxyType({PROMPT: "prompt searched", PROMPT_SHUFFLED: "prompt searched, shuffled answers"})


class ProposedBy(StrEnum):
    """Who proposes edits."""

    GRAMMAR = "grammar"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedTask:
    """A task whose prompt can be searched."""

    written: Document
    """By hand: what its prompts begin with."""
    bank: tuple[str, ...]
    unit: Callable[[str], str]
    """Returns what an item, by its name, stands or falls with."""


def _itself(item: str) -> str:
    return item


def _sign(item: str) -> str:
    return item.split("-")[0]


TASKS: Final[Mapping[str, SearchedTask]] = MappingProxyType(
    {
        handbook.NAME: SearchedTask(written=handbook.WRITTEN, bank=handbook.BANK, unit=_sign),
        "instructions": SearchedTask(written=(), bank=INSTRUCTIONS, unit=_itself),
    }
)

_RATES: Final = MappingProxyType({Size.SMALLEST: 2e-3, Size.NANO: 2e-3, Size.SMALL: 3e-4})
_ARMS: Final = (
    TaskArm(name=RL, words="RL", rates=_RATES),
    TaskArm(name=RL_SHUFFLED, words="RL, shuffled answers", rates=_RATES, keys={"shuffle_labels": "true"}),
)

SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {"seeds": "1", "steps": "4", "eval_every": "4", "eval_items": "24", "save_every": "0"},
        Size.NANO: {"steps": "60", "eval_every": "20", "save_every": "0"},
        Size.SMALL: {
            "at": "small",
            "seeds": "1",
            "steps": "20",
            "eval_every": "20",
            "eval_items": "40",
            "eval_samples": "2",
            "save_every": "0",
            "watch_forgetting": "false",
        },
    }
)
SMALLEST_BASE: Final = "200"
_SEARCHES: Final[Mapping[Size, SearchSettings]] = MappingProxyType(
    {
        Size.SMALLEST: SearchSettings(steps=3, batch=8, candidates=6, gate=16),
        Size.NANO: SearchSettings(),
        Size.SMALL: SearchSettings(steps=8, batch=12, candidates=5, gate=24),
    }
)
_NANO: Final = _SEARCHES[Size.NANO]

KEYS: Final = sized_keys(
    NAME,
    (
        StudyKey("task", handbook.NAME, f"What is asked: {' or '.join(TASKS)} (at=small)."),
        StudyKey("proposer", ProposedBy.GRAMMAR.value, "Who proposes: grammar, or model."),
        StudyKey("search_steps", str(_NANO.steps), "Steps of the search."),
        StudyKey("batch", str(_NANO.batch), "Training questions that edits are tried on."),
        StudyKey("candidates", str(_NANO.candidates), "Edits that are proposed in a step."),
        StudyKey("most_edits", str(_NANO.most_edits), "Made at once in the first step; falls."),
        StudyKey("gate", str(_NANO.gate), "Questions of selection that the gate draws."),
    ),
    ("base_steps",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """What is run."""

    study: Study
    size: Size
    task: SearchedTask
    proposer: ProposedBy
    search: SearchSettings
    """With the first seed; each search has its run's own."""

    def deciding(self) -> dict[str, object]:
        """Return what decides the results, but for the items and the base."""
        opened = self.study.arms[0].opened
        assert opened is not None, "the task is kept"
        shared = {key: value for key, value in self.study.shared.items() if key != "quiet"}
        search = {
            f"search/{name}": getattr(self.search, name) for name in self.search.__struct_fields__ if name != "seed"
        }
        return {"task": opened.found_at, "proposer": self.proposer.value, **search, **opened.keys, **shared}


def prompt_settings(given: Mapping[str, str], open_source: OpenSource) -> PromptSettings:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    size = size_of(given)
    named = given.get("task", "instructions" if size is Size.SMALL else handbook.NAME)
    if named not in TASKS:
        raise ConfigError(
            "there is no bank of lines for this task", field="task", value=named, allowed=", ".join(TASKS)
        )
    source = open_source(named, given)
    assert source is not None, "it is kept"
    sizes = SIZES
    if named == handbook.NAME:
        smallest = {**SIZES[Size.SMALLEST], "base_steps": SMALLEST_BASE}
        sizes = {**SIZES, Size.SMALLEST: smallest}
    study = task_study(Study(name=NAME, question=QUESTION, arms=(), shared={}), source, _ARMS, sizes, KEYS, given)
    return PromptSettings(
        study=study,
        size=size,
        task=TASKS[named],
        proposer=_proposed_by(KEYS.value(given, "proposer")),
        search=_search(size, given),
    )


def _search(size: Size, given: Mapping[str, str]) -> SearchSettings:
    usual = _SEARCHES[size]

    def told(key: str, default: int) -> int:
        return count(key, given[key], 1) if key in given else default

    return SearchSettings(
        steps=told("search_steps", usual.steps),
        batch=told("batch", usual.batch),
        candidates=told("candidates", usual.candidates),
        most_edits=told("most_edits", usual.most_edits),
        gate=told("gate", usual.gate),
    )


def _proposed_by(text: str) -> ProposedBy:
    if text not in tuple(ProposedBy):
        raise ConfigError(
            "nobody of this name proposes edits", field="proposer", value=text, allowed=", ".join(ProposedBy)
        )
    return ProposedBy(text)
