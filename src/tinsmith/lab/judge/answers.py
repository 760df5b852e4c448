"""Knows what a judge is asked for: a prompt, the schema of the answer, and how an answer's text is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from tinsmith.lab.judge.prompting import JudgePrompt
from tinsmith.lab.judge.verdicts import SCHEMA_VERSION, ParseFailure, Spent, Verdict, parse_verdicts

A = TypeVar("A")

TOKENS_A_RATING: Final = 40
"""A rating, or a choice, with one short sentence: an estimate."""
_TOKENS_AROUND: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm(Generic[A]):
    """What an answer must look like."""

    name: str
    """As the endpoint is told it."""
    version: int | str
    """Of the schema and of the prompt that asks for it; another version, another cache entry."""
    schema: Mapping[str, object]
    words: str
    """What a failure says an answer is: `list of 2 ratings`."""
    tokens: int
    """Of an answer: an estimate."""
    read: Callable[[str], A | ParseFailure]
    """Strict; never raises."""
    text: Callable[[A], str]
    """The text that `read` reads as this answer."""

    @property
    def response_format(self) -> Mapping[str, object]:
        """The field of that name in a call."""
        schema = {"name": self.name, "strict": True, "schema": dict(self.schema)}
        return {"type": "json_schema", "json_schema": schema}


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """One call to a judge: what it reads, and what it is to answer."""

    prompt: JudgePrompt
    form: AnswerForm[A]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[A]):
    """What a judge answered, and what that took."""

    value: A
    spent: Spent
    from_cache: bool


def ratings_form(criteria: int) -> AnswerForm[tuple[Verdict, ...]]:
    """Return the form of one verdict for each of so many criteria."""
    return AnswerForm(
        name="ratings",
        version=SCHEMA_VERSION,
        schema=_RATINGS,
        words=f"list of {criteria} rating{'s' if criteria > 1 else ''}",
        tokens=_TOKENS_AROUND + TOKENS_A_RATING * criteria,
        read=lambda text: parse_verdicts(text, criteria),
        text=_ratings_text,
    )


def _ratings_text(verdicts: tuple[Verdict, ...]) -> str:
    ratings = [
        {"rating": "Yes" if verdict.passed else "No", "rationale": verdict.rationale}
        for verdict in verdicts
    ]
    return json.dumps({"ratings": ratings})


_RATINGS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "ratings": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "rating": {"type": "string", "enum": ["Yes", "No"]},
                        "rationale": {"type": "string"},
                    },
                    "required": ["rating", "rationale"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["ratings"],
        "additionalProperties": False,
    }
)
