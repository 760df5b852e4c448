"""A right answer to an item: built by rule, checked by the checkers, the same in every process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Final

from tinsmith.studies.instructions.draws import Kwargs, Suite, followed
from tinsmith.studies.instructions.layout import laid_out, parts_of
from tinsmith.studies.instructions.telling import Length, Telling, demanded, letters, topic_of
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

Rule = tuple[str, Kwargs]
"""A kind of instruction with its arguments."""

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


_ATTEMPTS: Final = 10
"""So many of each length."""
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
