"""How a pair is asked and answered: one item for each order of its papers, the prompt, and how a reply is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tinsmith.studies.taste.pairs import Pair
from tinsmith.studies.taste.settings import LETTERS, Answers, Text

JSON_KEY: Final = "more_cited"
_ASKED: Final = "Which of these two papers is cited more?"
_LETTER: Final = re.compile(r"[\s\"'(*]*([AB])\b")
_IN_JSON: Final = re.compile(rf'"{JSON_KEY}"\s*:\s*"([AB])"')

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """Which paper a reply names, and whether it is all that it says, in the form that was asked for."""

    letter: str
    in_form: bool


def items_of(pairs: Sequence[Pair], text: Text) -> Iterator[dict[str, Any]]:
    """Yield two items for each pair, one for each order, beside each other."""
    for pair in pairs:
        for order in ("ab", "ba"):
            first, second = (pair.a, pair.b) if order == "ab" else (pair.b, pair.a)
            yield {
                "id": f"{pair.id}-{order}",
                "pair": pair.id,
                "order": order,
                "first": first.shown(text),
                "second": second.shown(text),
                "answer": LETTERS[0] if pair.a_right == (order == "ab") else LETTERS[1],
                "gap": pair.gap,
                "year": pair.a.year,
                "field": pair.a.field if pair.a.field == pair.b.field else None,
            }


def prompt_of(item: Item, answers: Answers) -> str:
    """Return what is asked about an item."""
    form = " or ".join(written(letter, answers) for letter in LETTERS)
    return f"{_ASKED}\nA: {item['first']}\nB: {item['second']}\nAnswer {form}."


def written(letter: str, answers: Answers) -> str:
    """Return an answer in the form that is asked for."""
    return letter if answers is Answers.LETTER else json.dumps({JSON_KEY: letter})


def read_reply(text: str, answers: Answers) -> Reply | None:
    """Read a reply, in its form or with more around it; None: it names neither paper."""
    bare = text.strip()
    if answers is Answers.LETTER:
        if bare in LETTERS:
            return Reply(bare, in_form=True)
        found = _LETTER.match(text)
        return None if found is None else Reply(found[1], in_form=False)
    try:
        whole: object = json.loads(bare)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        said = cast(dict[str, object], whole)
        if list(said) == [JSON_KEY] and said[JSON_KEY] in LETTERS:
            return Reply(str(said[JSON_KEY]), in_form=True)
    found = _IN_JSON.search(text)
    return None if found is None else Reply(found[1], in_form=False)
