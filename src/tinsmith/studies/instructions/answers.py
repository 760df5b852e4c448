"""A right answer to an item: built by rule, checked by the checkers, the same in every process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any, Final

from tinsmith.studies.instructions.checkers import Suite, followed
from tinsmith.studies.instructions.layout import laid_out, parts_of
from tinsmith.studies.instructions.limits import Rule, rules_of, within_limits
from tinsmith.studies.instructions.telling import Length, Telling, demanded, letters, topic_of
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

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
