"""The kinds of short instructions of the built-in tasks: their words, rules and worked answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WORDS: Final = """
    data field model system surface growth theory sample space source control process problem practice
    structure response standard activity performance strategy risk scale energy memory
"""
LEXICON: Final = tuple(_WORDS.split())
"""Every word that the built-in tasks ask for."""
_TIMES: Final = ("two", "three", "four")

Words = tuple[str, str, str]
"""Three words that differ; a template uses the first ones it needs."""


@dataclass(frozen=True, slots=True)
class Template:
    """An instruction, the rules for its answer, and an answer that obeys every one.

    {a}, {b} and {c} stand for words; {n} and {times} for how often one is repeated, {repeated} for it so often.
    """

    prompt: str
    criteria: tuple[str, ...]
    answer: str

    def filled(self, words: Words, number: int) -> Template:
        """Return it with words, the `number`-th of its kind."""
        a, b, c = words
        place = number % len(_TIMES)
        values = {"a": a, "b": b, "c": c, "n": place + 2, "times": _TIMES[place]}
        values["repeated"] = " ".join([a] * (place + 2))
        return Template(
            self.prompt.format(**values),
            tuple(f"rule: {each.format(**values)}" for each in self.criteria),
            self.answer.format(**values),
        )


_A, _B, _C = "contains word '{a}'", "contains word '{b}'", "contains word '{c}'"
_LENGTH, _LINE, _STOP = "has between 3 and 10 words", "has exactly 1 lines", "ends with '.'"
_TWO_OR_MORE, _LOWER = "has between 2 and 10 words", "is in lower case"

FAMILIES: Final[tuple[tuple[str, Template], ...]] = (
    (
        "use",
        Template(
            "Write one short line with the word {a}. End with a full stop.",
            (_A, _LENGTH, _LINE, _STOP),
            "the {a} is good.",
        ),
    ),
    (
        "both",
        Template(
            "Write one short line with the words {a} and {b}. End with a full stop.",
            (_A, _B, _LENGTH, _LINE, _STOP),
            "the {a} and the {b}.",
        ),
    ),
    (
        "order",
        Template(
            "Write one short line in small letters with {a} first and {b} later.",
            (_A, _B, "word '{a}' comes before word '{b}'", _TWO_OR_MORE, _LOWER),
            "the {a} and the {b}.",
        ),
    ),
    (
        "repeat",
        Template(
            "Write the word {a} {times} times and nothing else.",
            (
                "contains word '{a}' at least {n} times",
                "has exactly {n} words",
                "starts with '{a}'",
                _LOWER,
            ),
            "{repeated}",
        ),
    ),
    (
        "ends",
        Template(
            "Write one short line that starts with {a} and ends with {b}.",
            ("starts with '{a}'", "ends with '{b}'", _TWO_OR_MORE, _LINE),
            "{a} and {b}",
        ),
    ),
    (
        "avoid",
        Template(
            "Write one short line with the word {a} but not {b}. End with a full stop.",
            (_A, "does not contain word '{b}'", _LENGTH, _LINE, _STOP),
            "the {a} is good.",
        ),
    ),
    (
        "list",
        Template(
            "List {a}, {b} and {c}. One a line, each after a dash.",
            ("is a bullet list of exactly 3 items", _A, _B, _C, "has between 3 and 6 words"),
            "- {a}\n- {b}\n- {c}",
        ),
    ),
    (
        "json",
        Template(
            "Write short JSON with the keys {a} and {b}.",
            (
                "is json",
                "is a json object with keys '{a}'",
                "is a json object with keys '{b}'",
                "has between 2 and 8 words",
            ),
            '{{"{a}": 1, "{b}": 2}}',
        ),
    ),
)
"""Templates by the name of their kind."""
