"""Knows what a judge is asked for, how an answer's text is read, and which answers were paid for before.

These lie in a folder with one file for each, found by its content: an entry's name is the SHA-256 over all that decides
an answer: judge, temperature, prompt, schema version. An entry is written whole or not at all, and a damaged one is as
good as none. It holds the verdicts, or the choice, and nothing of the call: no key, no address, no prompt.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from tinsmith.lab.judge.prompting import JudgePrompt, JudgeRequest, judge_prompt
from tinsmith.lab.judge.verdicts import SCHEMA_VERSION, ParseFailure, Spent, Verdict, parse_verdicts
from tinsmith.types.fingerprints import sha256_of

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


def object_schema(**properties: object) -> Mapping[str, object]:
    """Return the JSON schema of an object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_RATING: Final = object_schema(rating={"type": "string", "enum": ["Yes", "No"]}, rationale={"type": "string"})
_RATINGS: Final = object_schema(ratings={"type": "array", "items": _RATING})


def ratings_form(criteria: int) -> AnswerForm[tuple[Verdict, ...]]:
    """Return the form of one verdict for each of so many criteria."""
    return AnswerForm(
        name="ratings",
        version=SCHEMA_VERSION,
        schema=_RATINGS,
        words=f"list of {criteria} rating{'s' if criteria > 1 else ''}",
        tokens=_TOKENS_AROUND + TOKENS_A_RATING * criteria,
        read=lambda text: parse_verdicts(text, criteria),
        text=lambda verdicts: json.dumps(
            {"ratings": [{"rating": "Yes" if one.passed else "No", "rationale": one.rationale} for one in verdicts]}
        ),
    )


def rating_question(request: JudgeRequest) -> Question[tuple[Verdict, ...]]:
    """Return the call that asks for all verdicts on a response."""
    return Question(judge_prompt(request), ratings_form(len(request.criteria)))


def cache_key(identity: str, temperature: float, question: Question[A]) -> str:
    """Return an entry's name; `identity` is the judge's name, or a fingerprint where a name may change its meaning."""
    return sha256_of(
        {
            "schema": question.form.version,
            "model": identity,
            "temperature": float(temperature),
            "system": question.prompt.system,
            "user": question.prompt.user,
        }
    )


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """A folder of answers; it is made when the first entry is written."""

    folder: Path

    def find(self, key: str, form: AnswerForm[A]) -> A | None:
        """Return the answer under a key, or None where there is none that can be read."""
        try:
            text = self._path(key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        found = form.read(text)
        return None if isinstance(found, ParseFailure) else found

    def keep(self, key: str, text: str) -> None:
        """Write an entry, the text that its form gives: to a file of its own first, then under its name."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(part, path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
