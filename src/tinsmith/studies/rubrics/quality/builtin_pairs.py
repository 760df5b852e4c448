"""The preference pairs that need no download: a worked answer against one that breaks one or two of its rules.

One pair for each built-in instruction, so that no two pairs hang together. In half of every kind the worse
answer is the tempting one: who does not look at the rules is right about half the time. The pairs stand in
`builtin_pairs.jsonl` beside this module; a test makes them again and compares every byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Final

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.studies.rubrics.builtin import WorkedTask, worked_tasks
from tinsmith.studies.rubrics.quality.flawed_answers import FLAWED, Asked
from tinsmith.studies.rubrics.quality.pairs import PairSet, PreferencePair, read_pairs_text
from tinsmith.studies.rubrics.templates import LEXICON
from tinsmith.types.seeds import derive

FILE: Final = "builtin_pairs.jsonl"
_SEED: Final = 0


def builtin_pairs() -> PairSet:
    """Return the built-in pairs, as the file beside this module has them."""
    folder = resources.files("tinsmith.studies.rubrics.quality")
    return read_pairs_text(folder.joinpath(FILE).read_bytes(), FILE)


def made_pairs() -> tuple[PreferencePair, ...]:
    """Make the built-in pairs from the built-in tasks."""
    families: dict[str, list[WorkedTask]] = {}
    for worked in worked_tasks():
        families.setdefault(_family(worked), []).append(worked)
    return tuple(
        _pair(worked, number, tempting=number < len(tasks) // 2)
        for tasks in families.values()
        for number, worked in enumerate(
            sorted(tasks, key=lambda one: derive(_SEED, "pairs", one.task.task_id))
        )
    )


def file_text(pairs: Sequence[PreferencePair]) -> str:
    """Return pairs as the built-in file has them: one JSON object a line, in the order of their ids."""
    return "".join(
        json.dumps(
            {
                "pair_id": pair.pair_id,
                "prompt": pair.prompt,
                "chosen": pair.chosen,
                "rejected": pair.rejected,
                "rubrics": pair.task.criteria,
            }
        )
        + "\n"
        for pair in sorted(pairs, key=lambda pair: pair.pair_id)
    )


def _pair(worked: WorkedTask, number: int, *, tempting: bool) -> PreferencePair:
    flawed = FLAWED[_family(worked)]
    ways = flawed.tempting if tempting else flawed.plain
    return PreferencePair(
        pair_id=worked.task.task_id,
        task=worked.task,
        chosen=worked.answer,
        rejected=ways[number % len(ways)](_asked(worked)),
    )


def _asked(worked: WorkedTask) -> Asked:
    words = tuple(word for word in words_of(worked.task.prompt) if word in LEXICON)
    first, second, *_ = sorted(
        (word for word in LEXICON if word not in words),
        key=lambda word: derive(_SEED, "pairs", worked.task.task_id, word),
    )
    return Asked(words=words, others=(first, second), answer=worked.answer)


def _family(worked: WorkedTask) -> str:
    return worked.task.task_id.rsplit("-", 1)[0]
