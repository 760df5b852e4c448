"""Stops a run whose prompt holds what the model is to find out: the gold label or a score behind it.

Three checks on every prompt that is rendered. It consists of the prompt file's words and the paper's
own fields, nothing else. No marker of a label or a score stands in it. No number in it is one of the
row's scores; scores round to few digits, so only numbers of at least five digits are taken as proof.
Label names alone are no leak: the instruction must name them, and an abstract may use the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tinsmith.lab.labels.paper import Item, Paper
from tinsmith.lab.labels.prompting import messages, shown
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import DataError

FORBIDDEN: Final = (
    "cd_index",
    "novelty_score",
    "conventionality_score",
    "CD Index:",
    "Novelty Score:",
    "Conventionality Score:",
)
"""Keys of a slice's row and captions that announce a score, wherever they stand."""

MIN_DIGITS: Final = 5
"""Fewer significant digits may meet by chance: a p-value of 0.001 is no leak."""

_DISGUISED: Final = re.compile(
    r"\b(?:cd[ _-]?index|(?:novelty|conventionality)[ _-]?score)\W{0,8}[-+]?\.?\d", re.IGNORECASE
)
"""The same in any case and spelling; without a number after it, an abstract may speak of them."""
_LONG_FRACTION: Final = re.compile(r"\.\d{4}")
_NUMBER: Final = re.compile(r"(?<![\w.])(\d?\.\d{4,18})((?:[eE][+-]?\d{1,3})?)(?!\w)")
"""Scores lie in [-1, 1], so five digits need a long fraction."""
_FIX: Final = "leave this paper out, or repair its text, then cut the slice again"


def prompt_messages(task: Task, item: Item) -> tuple[Message, ...]:
    """Return what a model reads before it answers.

    Raises:
        DataError: the label or a score has leaked into it; the run must stop.
    """
    prompt = messages(task, item.paper)
    check_prompt(task, item, prompt)
    return prompt


def check_prompt(task: Task, item: Item, prompt: Sequence[Message]) -> None:
    """Check a rendered prompt against the item it asks about.

    Raises:
        DataError: the prompt holds more than it may; it names the paper and what was found. The run
            must stop: the figures of a model that was told the answer mean nothing.
    """
    _check_words(task, item.paper, prompt)
    _check_label_keys(item.paper)
    for message in prompt:
        # The system message is the prompt file's, letter by letter; the paper's words stand here.
        if message.role is not Role.SYSTEM:
            check_text(item, message.content)


def check_text(item: Item, text: str) -> None:
    """Check any text that a model reads about an item, for example a rendered prompt's tokens as text.

    Raises:
        DataError: a marker of a score or a number that is one of the row's scores stands in it.
    """
    for marker in FORBIDDEN:
        if marker in text:
            raise _leak(item.paper, marker)
    lowered = text.lower()
    if ("index" in lowered or "score" in lowered) and (found := _DISGUISED.search(text)):
        raise _leak(item.paper, found[0])
    if _LONG_FRACTION.search(text) is None:
        return
    for number in _NUMBER.finditer(text):
        for score in item.hidden:
            if _is_score(number[1], number[2], score):
                raise _leak(item.paper, number[0])


def _check_words(task: Task, paper: Paper, messages: Sequence[Message]) -> None:
    prompt = task.loaded_prompt()
    allowed = {Role.USER: prompt.user.fill(shown(paper))}
    if prompt.system is not None:
        allowed = {Role.SYSTEM: prompt.system, **allowed}
    if tuple(message.role for message in messages) != tuple(allowed):
        raise _leak(paper, "+".join(message.role for message in messages))
    for message, content in zip(messages, allowed.values(), strict=True):
        if message.content != content:
            raise _leak(paper, _first_difference(message.content, content))


def _check_label_keys(paper: Paper) -> None:
    """The keys of the labels stand in the instruction; in a paper's own text they have no place."""
    for text in shown(paper).values():
        for subject in Subject:
            if subject.label_key in text.lower():
                raise _leak(paper, subject.label_key)


def _is_score(digits: str, exponent: str, score: float) -> bool:
    """Whether a number is the score's absolute value, rounded as the number is written."""
    if len(digits.replace(".", "").strip("0")) < MIN_DIGITS:
        return False
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
    return DataError(
        "a prompt holds what the model must not see; nothing was sent",
        field=f"paper {paper.id}",
        value=marker,
        allowed="the prompt file's words and the paper's title, abstract, year, citations, field",
        fix=_FIX,
    )
