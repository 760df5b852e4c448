"""The kinds of short instructions of the built-in tasks: their words, rules and worked answers, as `templates.toml`."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Final

import msgspec

Words = tuple[str, str, str]
"""Three words that differ; a template uses the first ones it needs."""
_TIMES: Final = ("two", "three", "four")


class Template(msgspec.Struct, frozen=True):
    """An instruction, the rules for its answer, and an answer that obeys every one."""

    prompt: str
    rules: tuple[str, ...]
    answer: str

    def filled(self, words: Words, number: int) -> Template:
        """Return it with words, the `number`-th of its kind, its rules as criteria carry them."""
        place = number % len(_TIMES)
        values = dict(zip("abc", words, strict=True), n=place + 2, times=_TIMES[place])
        values["repeated"] = " ".join([words[0]] * (place + 2))
        rules = tuple(f"rule: {each.format(**values)}" for each in self.rules)
        return Template(self.prompt.format(**values), rules, self.answer.format(**values))


class _File(msgspec.Struct, frozen=True):
    lexicon: str
    families: dict[str, Template]


_FILE: Final = msgspec.convert(
    tomllib.loads(
        resources.files("tinsmith.studies.rubrics").joinpath("templates.toml").read_text("utf-8")
    ),
    _File,
)
LEXICON: Final = tuple(_FILE.lexicon.split())
"""Every word that the built-in tasks ask for."""
FAMILIES: Final = tuple(_FILE.families.items())
"""Templates by the name of their kind."""
