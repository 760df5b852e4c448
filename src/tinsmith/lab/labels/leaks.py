"""Messages that a model reads about a paper, and the leak check.

It stops a run whose prompt holds what the model is to find out, the gold label or a score behind it. Three checks on
every prompt that is rendered. It consists of the prompt file's words and the paper's own fields, nothing else. None of
the paper's own scores stands in it, as a long number anywhere or as a shorter one behind a caption ("CD index: 0.31");
another number is no leak, and papers of the field itself speak of such scores. The paper's own label does not stand
behind its key. Label names alone are no leak: the instruction names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tinsmith.lab.labels.paper import Item, Paper
from tinsmith.lab.labels.prompt_files import PROMPTS
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import DataError

MIN_DIGITS: Final = 5
"""Fewer significant digits may meet by chance where nothing announces a score: a p-value of 0.001 is no leak."""

MIN_DECIMALS: Final = 2  # Behind a caption; a number with fewer must be the whole score.

_NUMBER_TEXT: Final = r"(\d{0,3}\.\d{1,18})((?:[eE][+-]?\d{1,3})?)(?!\w)"
_CAPTIONED: Final = re.compile(
    r"\b(?:(?:cd|disruption)[ _-]?(?:index|score)|(?:novelty|conventionality)[ _-]?score)"
    rf"\W{{0,8}}(?:(?:of|is|was)\W{{1,3}})?(?:{_NUMBER_TEXT}|(?<=[=:]) ?\W?(\d)(?![\w.]))",
    re.IGNORECASE,
)
"""A caption that announces a score, and the number behind it; a whole number only behind = or a colon."""
_LONG_FRACTION: Final = re.compile(r"\.\d{4}")
_NUMBER: Final = re.compile(r"(?<![\w.])(\d?\.\d{4,18})((?:[eE][+-]?\d{1,3})?)(?!\w)")
"""Scores lie in [-1, 1], so five digits need a long fraction."""
_FIX: Final = (
    "write its id into a file, a line each, and cut the slice again: tinsmith data slice CORPUS --leave-out FILE"
)

UNKNOWN: Final = "unknown"  # The words of a prompt where the record has nothing.
_KEY: Final = re.compile(r'["{]')  # Beginning of a line of an answer; nothing of it is wrapped.
_BEGINS: Final = re.compile(rf"- |\d+\. |{_KEY.pattern}")  # The same, or an entry of a list.


def prompt_messages(task: Task, item: Item) -> tuple[Message, ...]:
    """Return what a model reads before it answers."""
    prompt = messages(task, item.paper)
    check_prompt(task, item, prompt)
    return prompt


def check_prompt(task: Task, item: Item, prompt: Sequence[Message]) -> None:
    """Check a rendered prompt against the item it asks about."""
    _check_words(task, item.paper, prompt)
    _check_labels(task, item)
    for message in prompt:
        # The system message is the prompt file's, letter by letter; the paper's words stand here.
        if message.role is not Role.SYSTEM:
            check_text(item, message.content)


def check_text(item: Item, text: str) -> None:
    """Check any text that a model reads about an item, for example a rendered prompt's tokens as text."""
    lowered = text.lower()
    if "index" in lowered or "score" in lowered:
        for found in _CAPTIONED.finditer(text):
            if any(_is_captioned_score(found[1], found[2], found[3], score) for score in item.hidden):
                raise _leak(item.paper, found[0])
    if _LONG_FRACTION.search(text) is None:
        return
    for number in _NUMBER.finditer(text):
        if _significant(number[1]) < MIN_DIGITS:
            continue
        if any(_is_score(number[1], number[2], score) for score in item.hidden):
            raise _leak(item.paper, number[0])


def _check_words(task: Task, paper: Paper, messages: Sequence[Message]) -> None:
    prompt = task.loaded_prompt()
    allowed = {Role.USER: prompt.user.format_map(shown(paper))}
    if prompt.system is not None:
        allowed = {Role.SYSTEM: prompt.system, **allowed}
    if tuple(message.role for message in messages) != tuple(allowed):
        raise _leak(paper, "+".join(message.role for message in messages))
    for message, content in zip(messages, allowed.values(), strict=True):
        if message.content != content:
            raise _leak(paper, _first_difference(message.content, content))


def _check_labels(task: Task, item: Item) -> None:
    """Refuse a paper's text that gives its own label under the label's name, as a row of a slice does."""
    golds = dict(zip(task.subjects, item.golds, strict=True))
    for text in shown(item.paper).values():
        if "label" not in text.lower():
            continue
        for subject, gold in golds.items():
            named = rf"\b{subject}[ _-]?label\W{{0,8}}(?:(?:of|is|was)\W{{1,3}})?{gold}\b"
            if found := re.search(named, text, re.IGNORECASE):
                raise _leak(item.paper, found[0])


def _is_captioned_score(digits: str | None, exponent: str | None, whole: str | None, score: float) -> bool:
    """True if a number behind a caption is the score: exactly, or rounded to two decimals or more."""
    if digits is None:
        return whole is not None and float(whole) == abs(score)
    if float(digits + (exponent or "")) == abs(score):
        return True
    rounded = len(digits) - digits.index(".") - 1 >= MIN_DECIMALS and _significant(digits) > 0
    return rounded and _is_score(digits, exponent or "", score)


def _significant(digits: str) -> int:
    return len(digits.replace(".", "").strip("0"))


def _is_score(digits: str, exponent: str, score: float) -> bool:
    """True if a number is the score's absolute value, rounded as the number is written."""
    decimals = len(digits) - digits.index(".") - 1
    if not exponent:
        return f"{abs(score):.{decimals}f}" == (f"0{digits}" if digits[0] == "." else digits)
    return float(f"{abs(score):.{decimals}e}") == float(digits + exponent)


def _first_difference(found: str, allowed: str) -> str:
    pairs = zip(found, allowed, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    start = min(len(found), len(allowed)) if same is None else same
    return found[start : start + 60]


def _leak(paper: Paper, marker: str) -> DataError:
    what = "a prompt holds what the model must not see; nothing was sent"
    allowed = "the prompt file's words and the paper's title, abstract, year, citations, field"
    return DataError(what, field=f"paper {paper.id}", value=marker, allowed=allowed, fix=_FIX)


def messages(task: Task, paper: Paper) -> tuple[Message, ...]:
    """Return the conversation before the first answer: a system message, if the prompt has one, and the user's."""
    prompt = task.loaded_prompt()
    user = Message(role=Role.USER, content=prompt.user.format_map(shown(paper)))
    if prompt.system is None:
        return (user,)
    return (Message(role=Role.SYSTEM, content=prompt.system), user)


def shown(paper: Paper) -> dict[str, str]:
    """Return the text of every placeholder that a paper fills."""
    return {
        "title": paper.title,
        "abstract": paper.abstract,
        "year": UNKNOWN if paper.year is None else str(paper.year),
        "citations": UNKNOWN if paper.citations is None else str(paper.citations),
        "field": paper.field or UNKNOWN,
        "concepts": ", ".join(paper.concepts) or UNKNOWN,
    }


def bank_of(task: Task) -> tuple[str, ...]:
    """Return every line that a prompt file of a task about one subject has and the task's own has not, each once.

    >>> from tinsmith.lab.labels.task import make_task
    >>> bank_of(make_task("disruption", prompt="brief", contract="two_key"))[-1][:18]
    '{"disruption_label'
    """
    own = set(_lines(task.loaded_prompt().system))
    found = dict.fromkeys(
        line for name in PROMPTS for line in _lines(replace(task, prompt=name, prompt_lines=()).loaded_prompt().system)
    )
    return tuple(line for line in found if line not in own)


def _lines(text: str | None) -> list[str]:
    """Undo the wrapping: a line ends with its paragraph, its sentence's or its list's entry."""
    found: list[str] = []
    for paragraph in (text or "").split("\n\n"):
        ended = True
        for part in filter(None, map(str.strip, paragraph.split("\n"))):
            if ended or _BEGINS.match(part) or _KEY.match(found[-1]):
                found.append(part)
            else:
                found[-1] += f" {part}"
            ended = part.endswith((".", ":", "?"))
    return found
