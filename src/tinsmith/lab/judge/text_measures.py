"""Counts of a text: its words, sentences, lines and list items, and the script of its letters."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_BULLET = re.compile(r"[ \t]{0,8}[-*+\u2022][ \t]+\S.*")
_NUMBERED = re.compile(r"[ \t]{0,8}([0-9]{1,4})[.)][ \t]+\S.*")
_HEADING = re.compile(r"#{1,6}[ \t]+\S.*")
_STOP = re.compile(r"(?<![.!?])[.!?]++(?=[\s\"')\]]|$)")
Script = Literal["latin", "greek", "cyrillic", "arabic", "hebrew", "devanagari", "hangul", "cjk"]
"""Owner of letters: how Unicode begins their names, in small letters."""


@lru_cache(maxsize=1 << 14)  # many rules read one text, and one rule's words are read for every text
def words_of(text: str) -> tuple[str, ...]:
    """Return the words in small letters; `well-known` and `don't` are one word each."""
    return tuple(_WORD.findall(text.casefold()))


def sentences_of(text: str) -> tuple[str, ...]:
    """Return the pieces with a letter or digit between full stops, exclamation and question marks."""
    pieces = _STOP.split(text)
    return tuple(piece for piece in pieces if any(map(str.isalnum, piece)))


def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines that are not blank, without the space around them."""
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def bullets_of(text: str) -> int | None:
    """Return how many items a bullet list has; None where a line is not an item of it."""
    lines = lines_of(text)
    return len(lines) if lines and all(map(_BULLET.fullmatch, lines)) else None


def numbered_of(text: str) -> int | None:
    """Return how many items a list numbered 1, 2, 3 has; None where a line is not the next item."""
    lines = lines_of(text)
    for number, line in enumerate(lines, 1):
        found = _NUMBERED.fullmatch(line)
        if found is None or int(found[1]) != number:
            return None
    return len(lines) or None


def has_heading(text: str) -> bool:
    """Return true if a line is a heading: one to six #, a space, a text."""
    return any(map(_HEADING.fullmatch, lines_of(text)))


def only_script(text: str, script: Script) -> bool:
    """Return true if there is a letter, and every letter is of the script."""
    letters = [character for character in text if character.isalpha()]
    begins = script.upper()
    return bool(letters) and all(unicodedata.name(one, "").startswith(begins) for one in letters)
