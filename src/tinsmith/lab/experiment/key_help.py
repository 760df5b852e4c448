"""What an experiment's keys are, for a person: each with its value at every place and what it means."""

from __future__ import annotations

import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.experiment.key_text import ENGINE, shown_value
from tinsmith.lab.experiment.plan import defaults, kind_of

_FIELD: Final = re.compile(r'^ {4}(\w+): [^\n]*(?:\n {8}[^\n]*|\n {4}\))*\n {4}"""(.*?)"""', re.MULTILINE | re.DOTALL)
"""A field and the words below it. From the text: CPython 3.11 cannot make syntax trees in two threads at once."""
_CLASS: Final = r"^( *)class {}\b[^\n]*\n(?:\1[ )][^\n]*\n|\n)*"
"""A class with its body: as far as lines are indented more than its first."""
_ENGINE_WORDS: Final[Mapping[str, str]] = {
    "arithmetic": "How numbers are computed: canonical, invariant or fast.",
    "gradient_unit": "tree: datums that begin alike are computed as one prefix tree; datum: each by itself.",
    "deviation": "What the server does wrong on purpose, to see that the checks find it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHelp:
    """One key."""

    name: str
    values: Mapping[At, str]
    """By place where the experiment can run; empty: none."""
    words: str
    circumstance: bool
    """Whether it only says where and how fast to run, and is no part of the identity."""


def key_help(experiment: Experiment) -> list[KeyHelp]:
    """Return every key of an experiment, those that decide results first."""
    kind = kind_of(experiment, {})
    entry = experiment.subject.kinds[kind]
    keys = entry.keys
    places = {at: defaults(experiment, kind, at) for at in entry.places}
    words = {name: said for part in keys.parts for name, said in words_of(part).items()}
    words |= {key.name: key.words for key in keys.own}
    usual: dict[str, object] = {each.name: default_of(each) for each in fields(keys.frame)}
    usual |= {key.name: key.default for key in keys.own}
    usual |= {each.name: default_of(each) for part in keys.parts[1:] for each in fields(part)}
    found = [
        KeyHelp(
            name=name,
            values={at: shown_value(at if name == "at" else place.get(name, default)) for at, place in places.items()},
            words=_with_values(words.get(name, ""), keys.kinds.get(name)),
            circumstance=name in keys.circumstances,
        )
        for name, default in usual.items()
        if name in keys.known and name != "kind"
    ]
    found += [
        KeyHelp(
            name=name, values=dict.fromkeys(places, shown_value(value)), words=_ENGINE_WORDS[name], circumstance=False
        )
        for name, value in ENGINE.items()
    ]
    return sorted(found, key=lambda each: each.circumstance)


def _with_values(words: str, kind: object) -> str:
    """Add what a key may be, where these are a few names."""
    if not isinstance(kind, type) or not issubclass(kind, enum.Enum):
        return words
    values = ", ".join(str(member.value) for member in kind)
    return f"{words} One of: {values}.".strip()


def words_of(part: type) -> dict[str, str]:
    """Return what stands below each field of a dataclass and its bases, as text."""
    return {
        name: " ".join(words.split())
        for each in reversed(part.__mro__)
        if each is not object
        for name, words in _FIELD.findall(textwrap.dedent(_source(each)))
    }


def _source(part: type) -> str:
    """Return the text of a class; `inspect.getsource` would make a syntax tree to find it."""
    text = inspect.getsource(sys.modules[part.__module__])
    found = re.search(_CLASS.format(part.__name__), text, re.MULTILINE)
    return found[0] if found else ""


def default_of(each: Field[Any]) -> object:
    """Return a field's default; None where it has none."""
    return None if each.default is MISSING else each.default
