"""Test of a sentence for people: the names and numbers in it, whatever its words are."""

import re


def missing(text: str, *wanted: object) -> list[str]:
    """Return those names and numbers that do not stand in a text as words of their own."""
    return [str(one) for one in wanted if re.search(rf"(?<![\w.]){re.escape(str(one))}(?!\w|\.\d)", text) is None]
