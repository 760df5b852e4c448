"""A right answer to an item: built by rule of sentences about its topic and those demanded, and checked.

It is the same in every process, and stays within what instructions forbid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from random import Random
from typing import Any, Final

from tinsmith.studies.instructions.draws import Kwargs, Suite, data, followed
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Sentences of an instruction, with `{topic}` where it is named."""

    names: tuple[str, ...]  # Names of the topic: first the request's own, then single things that it is about.
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    languages: Mapping[str, str]  # Its name in other languages.


@cache
def topics() -> dict[str, Topic]:
    """Return what can be said about each request that is drawn."""
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
    """Length of an answer's content; less where the limits of its instructions are narrow."""

    FULL = 0
    SHORT = 1
    BARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Material that one attempt at an answer draws from."""

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
    if kind in data("sentences.json")["fixed"]:
        return [data("sentences.json")["fixed"][kind]]
    return [] if _at_most(kwargs) or kind not in _SENTENCES else _SENTENCES[kind](kwargs, telling)


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
    "count:person_names": lambda given, _: [f"I learned it from {' and '.join(_NAMES[: given['N']])}."],
    "count:numbers": lambda given, _: [f"Do it {' or '.join(str(2 + number) for number in range(given['N']))} times."],
    "count:keywords_multiple": _five,
}


def letters(rules: Sequence[tuple[str, dict[str, Any]]], telling: Telling) -> list[str]:
    """Return sentences for the letters that are to come often, should the others not have them."""
    return [
        telling.with_letter(given["letter"], given["let_frequency"])
        for kind, given in rules
        if kind == "keywords:letter_frequency" and given["let_relation"] == "at least"
    ]


Rule = tuple[str, Kwargs]  # A kind of instruction with its arguments.

_FORBID: Final = frozenset(
    ("keywords:forbidden_words", "punctuation:no_comma", "words:repeats", "words:no_consecutive", "words:last_first",
     "sentence:increment")
)  # fmt: skip
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
"""Texts that an answer must contain word for word."""


def rules_of(item: Mapping[str, Any]) -> list[Rule]:
    """Return an item's instructions."""
    return list(zip(item["kinds"], item["kwargs"], strict=True))


def within_limits(rules: Sequence[Rule], text: str) -> bool:
    """Say whether a text has nothing that forbids it to become an answer by adding to it."""
    limits = [limit for rule in rules if (limit := _limit(*rule)) is not None]
    return not limits or not text.strip() or _obeys("", limits, text)


def _obeys(prompt: str, rules: Sequence[Rule], text: str) -> bool:
    kinds, kwargs = zip(*rules, strict=True)
    return all(followed(prompt, kinds, kwargs, text).strict)


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
    names = topics()[item["request"]].names
    return any(within_limits(rules, " ".join([*demanded, name])) for name in names)


def _limit(kind: str, kwargs: Kwargs) -> Rule | None:
    """Return the part of an instruction that forbids; None: it only demands."""
    if kind == "count:word_count_range":
        return kind, {**kwargs, "min_words": 0}
    return (kind, kwargs) if kind in _FORBID or _at_most(kwargs) else None


def _at_most(kwargs: Kwargs) -> bool:
    return any(kwargs.get(name) == "less than" for name in _RELATIONS)


_FILL: Final = ("Next.", "Then.", "Rest.", "Also.")
"""For parts that have no sentence; no letter in them is ever limited."""
_FIRST_WORD: Final = "length_constraints:nth_paragraph_first_word"
_TEMPLATE: Final = ("My Answer", "My Conclusion", "Future Outlook")
_EMOJI: Final = "\N{SMILING FACE WITH OPEN MOUTH}"

Layout = Callable[[Sequence[str], Kwargs, Telling], str]
Frame = Callable[[str, Kwargs, Telling], str]
Rules = Mapping[str, Kwargs]


def laid_out(sentences: Sequence[str], rules: Rules, telling: Telling) -> str:
    """Return the text that sentences make under an item's instructions."""
    marked = list(sentences)
    for kind, change in _MARKS.items():
        if kind in rules:
            marked = change(marked, rules[kind], telling)
    text = " ".join(marked)
    for kind, layout in _LAYOUTS.items():
        if kind in rules:
            text = layout(marked, rules[kind], telling)
    for kind, frame in _FRAMES.items():
        if kind == "detectable_format:title" and rules.get(_FIRST_WORD, {}).get("nth_paragraph") == 1:
            text = f"{text}\n{_title(telling)}"
        elif kind in rules:
            text = frame(text, rules[kind], telling)
    return text


def parts_of(rules: Rules) -> int:
    """Return the number of parts that an answer has, each of which needs a sentence."""
    names = ("num_paragraphs", "num_bullets", "num_sections")
    counts = [given[name] for given in rules.values() for name in names if name in given]
    return max([1, *counts, *(_PARTS[kind] for kind in rules if kind in _PARTS)])


_PARTS: Final[Mapping[str, int]] = {
    "combination:two_responses": 2, "format:list": 2, "format:no_bullets_bullets": 4, "format:output_template": 3,
}  # fmt: skip


def _blocks(sentences: Sequence[str], count: int) -> list[str]:
    """Share sentences out to so many parts, in their order."""
    filled = [*sentences, *_FILL[: max(0, count - len(sentences))]]
    size, larger = divmod(len(filled), count)
    ends = [size * (place + 1) + min(larger, place + 1) for place in range(count)]
    return [" ".join(filled[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _joined(sentences: Sequence[str], count: int, separator: str = "\n", mark: str = "") -> str:
    """Return so many parts with a mark before each, in which # stands for the part's number."""
    blocks = enumerate(_blocks(sentences, count), 1)
    return separator.join(mark.replace("#", str(number)) + block for number, block in blocks)


# Sentences, one by one


def _highlighted(sentences: list[str], kwargs: Kwargs, _telling: Telling) -> list[str]:
    words = [sentence.split() for sentence in sentences]
    places = sorted(
        ((len(line) - place, number, place) for number, line in enumerate(words) for place in range(len(line)))
    )
    for _, number, place in places[: kwargs["num_highlights"]]:
        word = words[number][place]
        bare = word.rstrip(".,;:!?")
        words[number][place] = f"*{bare}*{word[len(bare) :]}"
    return [" ".join(line) for line in words]


_MARKS: Final[Mapping[str, Callable[[list[str], Kwargs, Telling], list[str]]]] = {
    "sentence:keyword": lambda sentences, given, telling: [
        *(*sentences[: given["N"] - 1], *telling.with_words([given["word"]])),
        *sentences[given["N"] - 1 :],
    ],
    "detectable_format:number_highlighted_sections": _highlighted,
    "format:emoji": lambda sentences, _given, _: [f"{one[:-1]} {_EMOJI}{one[-1]}" for one in sentences],
}

# Sentences to text


def _paragraph_with_word(sentences: Sequence[str], kwargs: Kwargs, telling: Telling) -> str:
    blocks = _blocks(sentences, kwargs["num_paragraphs"])
    place = kwargs["nth_paragraph"] - 1
    rest = "." if telling.length is Length.BARE else " is the word that comes to mind."
    blocks[place] = f"{as_first(kwargs['first_word'])}{rest} {blocks[place]}"
    return "\n\n".join(blocks)


def _language(_sentences: Sequence[str], kwargs: Kwargs, telling: Telling) -> str:
    first, *rest = data("sentences.json")["languages"][kwargs["language"]]
    kept = sorted(telling.random.sample(range(len(rest)), telling.random.randint(2, len(rest))))
    named = telling.topic.languages[kwargs["language"]]
    return " ".join([first.replace("{topic}", named), *(rest[place] for place in kept)])


def _around(sentences: Sequence[str], _kwargs: Kwargs, telling: Telling) -> str:
    word = telling.name.split()[0]
    return f"{as_first(word)} first. {' '.join(sentences)} And once more {word}."


_LAYOUTS: Final[Mapping[str, Layout]] = {
    "length_constraints:number_paragraphs": lambda some, given, _: _joined(some, given["num_paragraphs"], "\n***\n"),
    _FIRST_WORD: _paragraph_with_word,
    "detectable_format:number_bullet_lists": lambda some, given, _: _joined(some, given["num_bullets"], mark="* "),
    "detectable_format:multiple_sections": lambda some, given, _: _joined(
        some, given["num_sections"], mark=f"{given['section_spliter']} #\n"
    ),
    "combination:two_responses": lambda some, _, __: f"{' '.join(some[0::2])}\n******\n{' '.join(some[1::2])}",
    "language:response_language": _language,
    "words:paragraph_last_first": _around,
    "format:list": lambda some, given, _: _joined(some, max(2, len(some)), mark=f"{given['sep']} "),
    "format:no_bullets_bullets": lambda some, _, __: "\n".join(
        [" ".join((blocks := _blocks(some, 4))[:2]), *(f"* {block}" for block in blocks[2:])]
    ),
    "format:line_indent": lambda some, _, __: "\n".join(" " * place + one for place, one in enumerate(some)),
    "format:newline": lambda some, _, __: "\n".join(" ".join(some).split()),
    "format:output_template": lambda some, _, __: " ".join(
        f"{name}: {block}" for name, block in zip(_TEMPLATE, _blocks(some, len(_TEMPLATE)), strict=True)
    ),
    "format:no_whitespace": lambda some, _, __: "-".join(" ".join(some).split()),
}

# Text to text, in this order


def _title(telling: Telling) -> str:
    return f"<<{as_first(telling.name)}>>"


def _postscript(text: str, kwargs: Kwargs, telling: Telling) -> str:
    said = telling.random.choice(data("sentences.json")["postscripts"])
    more = telling.said("{topic}.") if telling.length is Length.BARE else said
    return f"{text}\n{kwargs['postscript_marker']} {as_first(more)}"


_FRAMES: Final[Mapping[str, Frame]] = {
    "detectable_format:title": lambda text, _given, telling: f"{_title(telling)}\n{text}",
    "combination:repeat_prompt": lambda text, given, _: f"{given['prompt_to_repeat']}\n{text}",
    "startend:end_checker": lambda text, given, _: f"{text} {given['end_phrase']}",
    "detectable_content:postscript": _postscript,
    "detectable_format:json_format": lambda text, _given, telling: json.dumps(
        {"topic": telling.name, "answer": text}, indent=2
    ),
    "punctuation:no_comma": lambda text, _given, _: text.replace(",", ""),
    "change_case:english_capital": lambda text, _given, _: text.upper(),
    "change_case:english_lowercase": lambda text, _given, _: text.lower(),
    # A bullet point is one only where it begins a line.
    "startend:quotation": lambda text, _given, _: f'"\n{text}\n"' if text.startswith("*") else f'"{text}"',
}
_ATTEMPTS: Final = 10  # So many of each length.
_WANTED: Final[Mapping[Length, tuple[int, int]]] = {Length.FULL: (3, 4), Length.SHORT: (2, 3), Length.BARE: (1, 1)}
"""Sentences of an answer, at least and at most, if its instructions do not ask for more."""

NOT_BUILT: Final = frozenset({"words:vowel", "words:consonants", "words:alphabet", "words:prime_lengths"})
"""Kinds that ask for other words altogether; no answer to them is built."""


def right_answer(item: Mapping[str, Any]) -> str:
    """Return an answer to an item's request that follows all of its instructions."""
    asked = {name: item[name] for name in ("prompt", "request", "kinds", "kwargs")}
    return _answer(json.dumps(asked, sort_keys=True))


@lru_cache(maxsize=4096)
def _answer(content: str) -> str:
    item = json.loads(content)
    if NOT_BUILT.isdisjoint(item["kinds"]):
        for attempt in range(_ATTEMPTS * len(Length)):
            random = Random(derive(0, "instructions", "answer", content, attempt))
            text = _attempted(item, Length(attempt // _ATTEMPTS), random)
            if text is not None:
                return text
    what = f"no answer could be built by rule to {', '.join(item['kinds'])}"
    raise DataError(f"{what}; train by example on suite={Suite.IFEVAL.value}", field="item", value=item["prompt"])


def _attempted(item: Mapping[str, Any], length: Length, random: Random) -> str | None:
    """Return an answer that the checkers accept, or None where the drawn sentences do not do.

    It grows sentence by sentence, past those that a limit forbids, until it is long enough and right.
    """
    topic, rules = topics()[item["request"]], rules_of(item)
    given = dict(rules)
    names = topic.names[:1] if length is Length.FULL and random.random() < 0.8 else topic.names
    telling = Telling(topic=topic, name=random.choice(names), length=length, random=random)
    about = telling.about(2 if "combination:two_responses" in given else 1)
    last = [text for kind, kwargs in rules for text in demanded(kind, kwargs, telling)]
    wanted = random.randint(*_WANTED[length])
    if length is not Length.BARE:
        wanted = max(wanted, parts_of(given))
    frame_seed = random.getrandbits(32)  # so that a frame draws the same each time
    more = telling.more()
    facts = len(topic.facts) if length is Length.FULL else 0  # a short one has room for few
    offered = [*more[:facts], *letters(rules, telling), *more[facts:]]

    def written(body: list[str]) -> str:
        random.seed(frame_seed)
        return laid_out([*about, *body, *last], given, telling)

    body: list[str] = []
    text = written(body)
    if not within_limits(rules, text):
        return None
    for sentence in [*offered, None]:
        if len(about) + len(body) + len(last) >= wanted and _obeys(item["prompt"], rules, text):
            return text
        if sentence is None:
            return None
        longer = written([*body, sentence])
        if within_limits(rules, longer):
            body, text = [*body, sentence], longer
    return None
