"""A right answer to an item: built by rule, checked by the checkers, the same in every process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Final

from tinsmith.studies.instructions.draws import Kwargs, Suite, data, followed
from tinsmith.studies.instructions.limits import Rule, rules_of, within_limits
from tinsmith.studies.instructions.telling import Length, Telling, as_first, demanded, letters, topic_of
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

_FILL: Final = ("Next.", "Then.", "Rest.", "Also.")
"""For parts that have no sentence; no letter in them is ever limited."""
_FIRST_WORD: Final = "length_constraints:nth_paragraph_first_word"
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
    "combination:two_responses": 2,
    "format:list": 2,
    "format:no_bullets_bullets": 4,
    "format:output_template": 3,
}


def _blocks(sentences: Sequence[str], count: int) -> list[str]:
    """Share sentences out to so many parts, in their order."""
    filled = [*sentences, *_FILL[: max(0, count - len(sentences))]]
    size, larger = divmod(len(filled), count)
    ends = [size * (place + 1) + min(larger, place + 1) for place in range(count)]
    return [" ".join(filled[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


# Sentences, one by one


def _highlighted(sentences: list[str], kwargs: Kwargs, _telling: Telling) -> list[str]:
    """Highlight the last word of as many sentences, or more words of a single one."""
    words = [sentence.split() for sentence in sentences]
    places = sorted(
        ((len(line) - place, number, place) for number, line in enumerate(words) for place in range(len(line)))
    )
    for _, number, place in places[: kwargs["num_highlights"]]:
        word = words[number][place]
        bare = word.rstrip(".,;:!?")
        words[number][place] = f"*{bare}*{word[len(bare) :]}"
    return [" ".join(line) for line in words]


def _at_place(sentences: list[str], kwargs: Kwargs, telling: Telling) -> list[str]:
    place = kwargs["N"] - 1
    return [*sentences[:place], *telling.with_words([kwargs["word"]]), *sentences[place:]]


def _with_emoji(sentences: list[str], _kwargs: Kwargs, _telling: Telling) -> list[str]:
    return [f"{one[:-1]} {_EMOJI}{one[-1]}" for one in sentences]


_MARKS: Final[Mapping[str, Callable[[list[str], Kwargs, Telling], list[str]]]] = {
    "sentence:keyword": _at_place,
    "detectable_format:number_highlighted_sections": _highlighted,
    "format:emoji": _with_emoji,
}

# Sentences to text


def _paragraph_with_word(sentences: Sequence[str], kwargs: Kwargs, telling: Telling) -> str:
    blocks = _blocks(sentences, kwargs["num_paragraphs"])
    place = kwargs["nth_paragraph"] - 1
    rest = "." if telling.length is Length.BARE else " is the word that comes to mind."
    blocks[place] = f"{as_first(kwargs['first_word'])}{rest} {blocks[place]}"
    return "\n\n".join(blocks)


def _sections(sentences: Sequence[str], kwargs: Kwargs, _telling: Telling) -> str:
    blocks = _blocks(sentences, kwargs["num_sections"])
    return "\n".join(f"{kwargs['section_spliter']} {number + 1}\n{block}" for number, block in enumerate(blocks))


def _language(_sentences: Sequence[str], kwargs: Kwargs, telling: Telling) -> str:
    first, *rest = data("sentences.json")["languages"][kwargs["language"]]
    kept = sorted(telling.random.sample(range(len(rest)), telling.random.randint(2, len(rest))))
    named = telling.topic.languages[kwargs["language"]]
    return " ".join([first.replace("{topic}", named), *(rest[place] for place in kept)])


def _around(sentences: Sequence[str], _kwargs: Kwargs, telling: Telling) -> str:
    """Begin and end with the same word."""
    word = telling.name.split()[0]
    return f"{as_first(word)} first. {' '.join(sentences)} And once more {word}."


def _template(sentences: Sequence[str], _kwargs: Kwargs, _telling: Telling) -> str:
    names = ("My Answer", "My Conclusion", "Future Outlook")
    return " ".join(f"{name}: {block}" for name, block in zip(names, _blocks(sentences, 3), strict=True))


def _bullets_after(sentences: Sequence[str], _kwargs: Kwargs, _telling: Telling) -> str:
    blocks = _blocks(sentences, 4)
    return "\n".join([" ".join(blocks[:2]), *(f"* {block}" for block in blocks[2:])])


_LAYOUTS: Final[Mapping[str, Layout]] = {
    "length_constraints:number_paragraphs": lambda sentences, given, _: "\n***\n".join(
        _blocks(sentences, given["num_paragraphs"])
    ),
    _FIRST_WORD: _paragraph_with_word,
    "detectable_format:number_bullet_lists": lambda sentences, given, _: "\n".join(
        f"* {block}" for block in _blocks(sentences, given["num_bullets"])
    ),
    "detectable_format:multiple_sections": _sections,
    "combination:two_responses": lambda sentences, _given, _: "\n******\n".join(
        [" ".join(sentences[0::2]), " ".join(sentences[1::2])]
    ),
    "language:response_language": _language,
    "words:paragraph_last_first": _around,
    "format:list": lambda sentences, given, _: "\n".join(
        f"{given['sep']} {block}" for block in _blocks(sentences, max(2, len(sentences)))
    ),
    "format:no_bullets_bullets": _bullets_after,
    "format:line_indent": lambda sentences, _given, _: "\n".join(
        " " * place + sentence for place, sentence in enumerate(sentences)
    ),
    "format:newline": lambda sentences, _given, _: "\n".join(" ".join(sentences).split()),
    "format:output_template": _template,
    "format:no_whitespace": lambda sentences, _given, _: "-".join(" ".join(sentences).split()),
}

# Text to text, in this order


def _title(telling: Telling) -> str:
    return f"<<{as_first(telling.name)}>>"


def _postscript(text: str, kwargs: Kwargs, telling: Telling) -> str:
    said = telling.random.choice(data("sentences.json")["postscripts"])
    more = telling.said("{topic}.") if telling.length is Length.BARE else said
    return f"{text}\n{kwargs['postscript_marker']} {as_first(more)}"


def _quoted(text: str) -> str:
    """A bullet point is one only where it begins a line."""
    return f'"\n{text}\n"' if text.startswith("*") else f'"{text}"'


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
    "startend:quotation": lambda text, _given, _: _quoted(text),
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
    raise DataError(
        f"no answer could be built by rule to {', '.join(item['kinds'])}; train by example on "
        f"suite={Suite.IFEVAL.value}",
        field="item",
        value=item["prompt"],
    )


def _attempted(item: Mapping[str, Any], length: Length, random: Random) -> str | None:
    """Return an answer that the checkers accept, or None where the drawn sentences do not do.

    It grows sentence by sentence, past those that a limit forbids, until it is long enough and right.
    """
    topic, rules = topic_of(item["request"]), rules_of(item)
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
        if len(about) + len(body) + len(last) >= wanted and _right(item, rules, text):
            return text
        if sentence is None:
            return None
        longer = written([*body, sentence])
        if within_limits(rules, longer):
            body, text = [*body, sentence], longer
    return None


def _right(item: Mapping[str, Any], rules: list[Rule], text: str) -> bool:
    kinds, kwargs = zip(*rules, strict=True)
    return all(followed(item["prompt"], kinds, kwargs, text).strict)
