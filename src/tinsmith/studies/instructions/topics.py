"""What can be said about a request: its topic, how an answer to its form may begin, and facts to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tinsmith.studies.instructions.draws import data


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """See the first line of this file; sentences have `{topic}` where it is named."""

    names: tuple[str, ...]
    """What it is called: first as the request does, then by single things that it is about."""
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    languages: Mapping[str, str]
    """Its name in other languages."""


@cache
def topic_of(request: str) -> Topic:
    """Return what can be said about a request that was drawn."""
    return _topics()[request]


def mentions(text: str, request: str) -> bool:
    """Say whether a text names a request's topic, in any of the languages; however its words are joined or marked."""
    topic, text = topic_of(request), " ".join(text.replace("*", "").replace("-", " ").split())
    return any(name.lower() in text.lower() for name in (*topic.names, *topic.languages.values()))


@cache
def _topics() -> dict[str, Topic]:
    forms = data("prompts.json")["requests"]
    openings = data("sentences.json")["openings"]
    return {
        form.format(topic=name): Topic(
            names=(name, *said["short"]), openings=tuple(begun), facts=tuple(said["facts"]), languages=said["in"]
        )
        for form, begun in zip(forms, openings, strict=True)
        for name, said in data("topics.json").items()
    }
