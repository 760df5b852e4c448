"""Context-free grammar of the built-in corpus's sentences, written for this project.

`{symbol}` stands for one alternative of that symbol, chosen by `tinsmith.renderers.corpus`. No rule is recursive, so
every expansion ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.renderers.lexicon import WORDS

_SENTENCES = (
    "the paper on {topic} was cited {count} times in {year}.",
    "{name} and {name} published a {quality} {work} about {topic} in {year}.",
    "we {study} the {property} of {topic} with a {quality} {method}.",
    "this {work} {changes} the {property} of {topic}, and later authors cite it {manner}.",
    "most papers that cite {name} et al. ({year}) also cite the references of that {work}.",
    "few papers that cite this {work} go back to its references, so its index is {sign}.",
    "the {work} is {label}: {because}.",
    "a {label} paper is one where {because}.",
    "is the {work} by {name} disruptive, consolidating or neutral? It is {label}.",
    "Title: {quality} {method} for {topic}. Year: {year}. References: {count}. Citations: {count}.",
    "Abstract: {topic} {remain} {quality}. We {study} {count} {things} and find that {finding}.",
    "in {field}, the {things} of {recent} {relate} the {things} of {past}.",
    "our {things} {suggest} that {finding}, {contrast} {finding}.",
    "the authors {study} {topic} because {finding}.",
    "{connector}, the {method} {changes} {topic} and {matter}.",
    "each {thing} has a year, a title, a list of references and {count} citations.",
    "the {name} {method} was first used in {field}; it is now {quality} in {field}.",
    "according to {name}, {finding} when the {property} is {quality}.",
    "question: which {thing} {changes} {topic}? Answer: the one from {year}.",
    "from {past} to {recent} the share of {label} papers in {field} {moved} by {count} percent.",
    "if {finding}, then the {work} should be called {label}.",
    "the reviewer said that the {method} was {quality} but that the {property} was {quality}.",
    "{name} {suggests} that {topic} and {topic} share the same {property}.",
    "table {digit} lists the {things}, their {property} and the {quality} {method} used for each.",
    "using a {quality} and {quality} {method}, {count} {things} were {done} {manner}.",
    "last {day} the {kind} {person} {made} a {kind} {object} near the {place}.",
    "the {person} and the {person} {made} the {object} before they went to the {place} in {month}.",
    "why did the {person} leave the {kind} {object} at the {place}? Nobody knows.",
    "there was once a {kind} {person} who {made} the {kind} {object} and {made} another {object}.",
    "{name} {made} the {object}, the {object} and the {kind} {object} on a {day} in {month}.",
)

_PHRASES: Mapping[str, tuple[str, ...]] = {
    "sentence": _SENTENCES,
    "because": (
        "later papers cite it but not its references",
        "later papers cite it together with its references",
        "citing papers keep citing the older work beside it",
        "citing papers forget the older work and start from here",
        "as many papers cite it alone as cite it with its sources",
        "it opens a new line of research on {topic}",
        "it extends what was already known about {topic}",
        "nothing that came after it depends on {topic}",
    ),
    "finding": (
        "the {property} of {topic} {moved} with the {property}",
        "{topic} can be {done} without a {method}",
        "{quality} {things} are cited more than {quality} ones",
        "no {thing} explains the {property} of {topic}",
        "the {method} is more {quality} than the {method}",
        "small teams write {label} papers and large teams write {label} ones",
        "every {thing} in the sample was {done} {manner}",
        "the {property} depends on the {property} alone",
    ),
    "relate": ("depend on", "build on", "ignore", "cite", "go beyond", "agree with", "differ from", "replace"),
    "contrast": ("although", "while", "whereas", "even though", "but only where", "which means that"),
    "topic": (
        "{matter}",
        "{quality} {matter}",
        "{term}",
        "{term} in {matter}",
        "{matter} and {term}",
        "the {property} of {matter}",
    ),
    "term": ("{prefix}{root}{ending}", "{root}{ending}"),
    "name": ("{first}{middle}{last}", "{first}{last}"),
    "year": ("{past}", "{recent}"),
    "past": ("19{tail}{digit}",),
    "recent": ("20{early}{digit}",),
    "count": ("{few}", "{head}{digit}", "{head}{digit}{digit}"),
}

RULES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({**_PHRASES, **WORDS})
"""Alternatives of every symbol; an expansion starts at `sentence`."""
