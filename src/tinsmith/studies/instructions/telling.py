"""What an answer is made of: sentences about the topic, and those that an instruction demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from random import Random
from typing import Any, Final

from tinsmith.studies.instructions.draws import Kwargs, data


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Sentences of an instruction, with `{topic}` where it is named."""

    names: tuple[str, ...]  # Names of the topic: first the request's own, then single things that it is about.
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    languages: Mapping[str, str]  # Its name in other languages.


@cache
def topic_of(request: str) -> Topic:
    """Return what can be said about a request that was drawn."""
    return _topics()[request]


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


class Length(IntEnum):
    """How much an answer says; less where the limits of its instructions are narrow."""

    FULL = 0
    SHORT = 1
    BARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What one attempt at an answer draws from."""

    topic: Topic
    name: str  # What the topic is called in it.
    length: Length
    random: Random

    def said(self, sentence: str) -> str:
        """Return a sentence with the topic named in it."""
        return sentence.replace("{topic}", self.name)

    def about(self, count: int) -> list[str]:
        """Return so many sentences that an answer to the request may begin with."""
        if self.length is Length.FULL:
            return [self.said(one) for one in self.random.sample(self.topic.openings, count)]
        if self.length is Length.SHORT:
            return [self.said(one) for one in ("Think of {topic}.", "I like {topic}.")[:count]]
        return [f"{as_first(name)}." for name in (self.name, *self.topic.names)[:count]]

    def more(self) -> list[str]:
        """Return sentences to go on with, facts first."""
        facts, rest = list(self.topic.facts), list(data("sentences.json")["more"])
        self.random.shuffle(facts)
        self.random.shuffle(rest)
        return [self.said(one) for one in (*facts, *rest)]

    def with_words(self, words: Sequence[str]) -> list[str]:
        """Return sentences that have these words; one that comes again comes so often."""
        stored = data("sentences.json")
        if self.length is Length.BARE:
            return [f"{as_first(' '.join(words))}."]
        phrases = [stored["phrases"].get(word, word) for word in words]
        if self.length is Length.SHORT or len(words) > len(stored["with_word"]):
            return [f"{as_first(' and '.join(phrases))}."]
        forms = self.random.sample(stored["with_word"], len(words))
        return [form.replace("{phrase}", phrase) for form, phrase in zip(forms, phrases, strict=True)]

    def with_letter(self, letter: str, times: int) -> str:
        """Return a sentence that has a letter often."""
        sentence = str(data("sentences.json")["with_letter"][letter])
        if self.length is not Length.BARE:
            return sentence
        kept: list[str] = []
        for word in sorted(sentence.lower().strip(".").split(), key=lambda one: -one.count(letter)):
            if "".join(kept).count(letter) < times:
                kept.append(word)
        return f"{as_first(' '.join(kept))}."


def as_first(text: str) -> str:
    """Return a text with its first letter a capital."""
    return text[:1].upper() + text[1:]


_NAMES: Final = ("Emma", "Noah", "Olivia", "Daniel")
_MULTIPLE: Final = (1, 2, 3, 5, 7)  # How often each of five keywords is asked for.


def demanded(kind: str, kwargs: Kwargs, telling: Telling) -> list[str]:
    """Return the sentences that an instruction demands; none: it demands no sentence."""
    at_most = "less than" in (kwargs.get("relation"), kwargs.get("let_relation"))
    return [] if at_most or kind not in _SENTENCES else _SENTENCES[kind](kwargs, telling)


def _placeholders(kwargs: Kwargs, telling: Telling) -> list[str]:
    count: int = kwargs["num_placeholders"]
    if telling.length is Length.BARE:
        return [f"{' '.join(['[name]', '[address]', '[date]'][:count])}."]
    return [data("sentences.json")["placeholders"][count - 1]]


def _five(kwargs: Kwargs, telling: Telling) -> list[str]:
    words = [kwargs[f"keyword{place + 1}"] for place in range(len(_MULTIPLE))]
    return telling.with_words([word for word, times in zip(words, _MULTIPLE, strict=True) for _ in range(times)])


_SENTENCES: Final[Mapping[str, Callable[[Kwargs, Telling], list[str]]]] = {
    "keywords:existence": lambda given, telling: telling.with_words(given["keywords"]),
    "keywords:frequency": lambda given, telling: telling.with_words([given["keyword"]] * given["frequency"]),
    "detectable_content:number_placeholders": _placeholders,
    "count:conjunctions": lambda _given, _telling: ["It is slow and quiet but never dull or cold for those who care."],
    "count:person_names": lambda given, _telling: [f"I learned it from {' and '.join(_NAMES[: given['N']])}."],
    "count:numbers": lambda given, _telling: [
        f"Do it {' or '.join(str(number + 2) for number in range(given['N']))} times."
    ],
    "count:pronouns": lambda _given, _telling: ["You and I know that we love it as they do."],
    "count:punctuation": lambda _given, _telling: ["Why not?! Look; one thing is sure: it is good, is it not? Yes!"],
    "count:keywords_multiple": _five,
    "format:parentheses": lambda _given, _telling: ["There is a lot to say (and [more {and yet (more [and so on])}])."],
    "format:quotes": lambda _given, _telling: [
        'One old man told us "my father always said \'hear the word "patience" and keep it\'".'
    ],
}


def letters(rules: Sequence[tuple[str, dict[str, Any]]], telling: Telling) -> list[str]:
    """Return sentences for the letters that are to come often, should the others not have them."""
    return [
        telling.with_letter(given["letter"], given["let_frequency"])
        for kind, given in rules
        if kind == "keywords:letter_frequency" and given["let_relation"] == "at least"
    ]
