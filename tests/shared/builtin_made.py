"""How the built-in tasks and preference pairs were made: from templates, each with a worked answer and a flawed one.

An answer goes wrong in a way that tempts who does not look at the rules, or plainly. A tempting one is longer than the
worked answer and repeats more of the instruction, and breaks one or two of its rules. A plain one breaks one or two as
well, and is no longer and repeats no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.studies.rubrics.base import FAMILIES, LEXICON, Words
from tinsmith.studies.rubrics.quality.statistics import PreferencePair
from tinsmith.studies.rubrics.task import Rubric, RubricTask
from tinsmith.types.seeds import derive

TASKS_PER_FAMILY: Final = 12
_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedTask:
    """A task, and an answer that passes all its rubrics."""

    task: RubricTask
    answer: str


def worked_tasks() -> tuple[WorkedTask, ...]:
    """Make the tasks in few words from their templates, each with its worked answer."""
    made: list[WorkedTask] = []
    for family, template in FAMILIES:
        for number in range(TASKS_PER_FAMILY):
            sheet = template.filled(_drawn(family, number), number)
            rubrics = tuple(Rubric(criterion=criterion, number=place) for place, criterion in enumerate(sheet.rules, 1))
            task = RubricTask(task_id=f"{family}-{number + 1:02}", prompt=sheet.prompt, rubrics=rubrics)
            made.append(WorkedTask(task=task, answer=sheet.answer))
    return tuple(made)


def tasks_text(worked: Sequence[WorkedTask]) -> str:
    """Return tasks as a built-in file has them: one JSON object a line, in list form."""
    return "".join(
        json.dumps({"task_id": one.task.task_id, "prompt": one.task.prompt, "rubrics": one.task.criteria}) + "\n"
        for one in worked
    )


def _drawn(family: str, number: int) -> Words:
    """Three words that differ; the first ones of a family differ from task to task."""
    order = sorted(LEXICON, key=lambda word: derive(_SEED, "builtin", family, word))
    first = order[number]
    others = sorted(
        (word for word in LEXICON if word != first), key=lambda word: derive(_SEED, "builtin", family, number, word)
    )
    return first, others[0], others[1]


def made_pairs() -> tuple[PreferencePair, ...]:
    """Make the built-in pairs from the built-in tasks."""
    families: dict[str, list[WorkedTask]] = {}
    for worked in worked_tasks():
        families.setdefault(_family(worked), []).append(worked)
    return tuple(
        _pair(worked, number, tempting=number < len(tasks) // 2)
        for tasks in families.values()
        for number, worked in enumerate(sorted(tasks, key=lambda one: derive(_SEED, "pairs", one.task.task_id)))
    )


def pairs_text(pairs: Sequence[PreferencePair]) -> str:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an instruction asks for: its words in order, two it does not have, and the worked answer."""

    words: tuple[str, ...]
    others: tuple[str, str]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flawed:
    """Ways to answer one kind of instruction wrongly."""

    tempting: tuple[Callable[[Asked], str], ...]
    plain: tuple[Callable[[Asked], str], ...]


def _ask(asked: Asked) -> tuple[str, str, str, str]:
    """The first word, the second (the first again where there is one), and two that were not asked for."""
    return asked.words[0], asked.words[min(1, len(asked.words) - 1)], *asked.others


def _filled(template: str) -> Callable[[Asked], str]:
    """An answer with {a} and {b} as asked, {d} and {e} as not."""

    def fill(asked: Asked) -> str:
        a, b, d, e = _ask(asked)
        return template.format(a=a, b=b, d=d, e=e)

    return fill


def _again(asked: Asked) -> str:
    """The repeated word as often as asked, and then more."""
    return f"{asked.answer} and nothing else"


def _introduced(asked: Asked) -> str:
    """The repeated word behind an introduction."""
    return f"the word {asked.answer}"


def _other_word(asked: Asked) -> str:
    """Another word as often as the one that was asked for."""
    return " ".join([asked.others[0]] * len(asked.answer.split()))


def _listed(*templates: str) -> Callable[[Asked], str]:
    """A bullet list; {a}, {b}, {c} are the words asked for."""

    def fill(asked: Asked) -> str:
        a, b, c = asked.words
        values = {"a": a, "b": b, "c": c, "d": asked.others[0]}
        return "\n".join(f"- {template.format(**values)}" for template in templates)

    return fill


def _keys(first: str, second: str) -> Callable[[Asked], str]:
    """A JSON object with the first key asked for and another; the values are templates."""

    def fill(asked: Asked) -> str:
        a, b, d, _ = _ask(asked)
        values = [value.format(a=a, b=b, d=d) for value in (first, second)]
        return json.dumps(
            {key: int(value) if value.isdigit() else value for key, value in zip((a, d), values, strict=True)}
        )

    return fill


FLAWED: Final[Mapping[str, Flawed]] = MappingProxyType(
    {
        "use": Flawed(
            tempting=(_filled("one line with the word {d}."), _filled("one short line with the {d}.")),
            plain=(_filled("{d} is good."), _filled("{d} and {e}.")),
        ),
        "both": Flawed(
            tempting=(_filled("one line: words {a} and {d}."), _filled("short words with {d} and {b}.")),
            plain=(_filled("{d} is near {a}."), _filled("{d} and {b}.")),
        ),
        "order": Flawed(
            tempting=(_filled("first {b} and then {a} later"), _filled("One line: {a} first, {b} later")),
            plain=(_filled("{b} {a}"), _filled("{d} and {a}")),
        ),
        "repeat": Flawed(tempting=(_again, _introduced), plain=(_other_word,)),
        "ends": Flawed(
            tempting=(_filled("starts with {a}, ends with {b}"), _filled("{a} and one line with {d}")),
            plain=(_filled("{a} {d}"), _filled("{d} {b}")),
        ),
        "avoid": Flawed(
            tempting=(_filled("the word {a} but not {b}."), _filled("one line with the word {d}.")),
            plain=(_filled("{d} is good."), _filled("{d} and {e}.")),
        ),
        "list": Flawed(
            tempting=(_listed("{a}", "{b}", "{d}, each a line"), _listed("{a}", "{b}", "{c}", "one a line")),
            plain=(_listed("{a}", "{b}", "{d}"), _listed("{d}", "{b}", "{c}")),
        ),
        "json": Flawed(
            tempting=(_keys("1", "with the keys"), _keys("short", "json with keys")),
            plain=(_keys("1", "2"), _keys("2", "1")),
        ),
    }
)
"""By the kind of the instruction."""
