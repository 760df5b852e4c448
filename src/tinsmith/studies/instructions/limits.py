"""What instructions forbid, and whether what the others of a prompt demand is already too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tinsmith.studies.instructions.draws import Kwargs, followed
from tinsmith.studies.instructions.telling import topic_of

Rule = tuple[str, Kwargs]  # A kind of instruction with its arguments.

_FORBID: Final = frozenset(
    {
        "keywords:forbidden_words",
        "punctuation:no_comma",
        "words:repeats",
        "words:no_consecutive",
        "words:last_first",
        "sentence:increment",
    }
)
"""Those that a text which breaks them still breaks when more is added."""
_RELATIONS: Final = ("relation", "let_relation")

_DEMANDS: Final[Mapping[str, Callable[[Kwargs], Sequence[str]]]] = {
    "keywords:existence": lambda given: given["keywords"],
    "keywords:frequency": lambda given: [given["keyword"]] * given["frequency"],
    "length_constraints:nth_paragraph_first_word": lambda given: [given["first_word"]],
    "detectable_content:number_placeholders": lambda given: ["[x]"] * given["num_placeholders"],
    "detectable_content:postscript": lambda given: [given["postscript_marker"]],
    "detectable_format:multiple_sections": lambda given: [
        f"{given['section_spliter']} {number + 1}" for number in range(given["num_sections"])
    ],
    "combination:repeat_prompt": lambda given: [given["prompt_to_repeat"]],
    "startend:end_checker": lambda given: [given["end_phrase"]],
}
"""What has to stand in an answer word for word."""


def rules_of(item: Mapping[str, Any]) -> list[Rule]:
    """Return an item's instructions."""
    return list(zip(item["kinds"], item["kwargs"], strict=True))


def within_limits(rules: Sequence[Rule], text: str) -> bool:
    """Say whether a text has nothing that forbids it to become an answer by adding to it."""
    limits = [limit for rule in rules if (limit := _limit(*rule)) is not None]
    if not limits or not text.strip():
        return True
    kinds, kwargs = zip(*limits, strict=True)
    return all(followed("", kinds, kwargs, text).strict)


def can_be_followed(item: Mapping[str, Any]) -> bool:
    """Say whether an answer can follow all of an item's instructions, and name its topic."""
    rules, given = rules_of(item), dict(rules_of(item))
    demanded = [
        text for kind, kwargs in rules if kind in _DEMANDS and not _at_most(kwargs) for text in _DEMANDS[kind](kwargs)
    ]
    section = given.get("detectable_format:multiple_sections", {}).get("section_spliter", "")
    if section and "change_case:english_lowercase" in given:
        return False  # the word that begins a section has capitals
    if not section.isupper() and section and "change_case:english_capital" in given:
        return False
    first = given.get("length_constraints:nth_paragraph_first_word", {}).get("nth_paragraph")
    if first == 1 and "combination:repeat_prompt" in given:
        return False  # both want to come first
    names = topic_of(item["request"]).names
    return any(within_limits(rules, " ".join([*demanded, name])) for name in names)


def _limit(kind: str, kwargs: Kwargs) -> Rule | None:
    """Return the part of an instruction that forbids; None: it only demands."""
    if kind == "count:word_count_range":
        return kind, {**kwargs, "min_words": 0}
    return (kind, kwargs) if kind in _FORBID or _at_most(kwargs) else None


def _at_most(kwargs: Kwargs) -> bool:
    return any(kwargs.get(name) == "less than" for name in _RELATIONS)
