"""Drawn items: a request, checkable instructions that go together, what each of them says, and who checks it.

The checkers are those of IFEval and IFBench, as the package `if-verifiable` has them: strict, and loose.
Left out are those whose data `nltk` would download: they count sentences by a trained model, or know parts of speech.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from random import Random
from typing import Any, Final


class Suite(StrEnum):
    """Origins of the instructions that are asked for."""

    IFEVAL = "ifeval"
    IFBENCH = "ifbench"
    BOTH = "both"

    @property
    def parts(self) -> tuple[Suite, ...]:
        """The suites that it is made of."""
        return (Suite.IFEVAL, Suite.IFBENCH) if self is Suite.BOTH else (self,)


@dataclass(frozen=True, slots=True)
class Followed:
    """Which of a prompt's instructions an answer follows, in their order."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]  # The same where a first or last line, or asterisks, may be passed over.


def described(kind: str, kwargs: Mapping[str, Any]) -> str:
    """Return what an instruction says, in the words of its checker."""
    return str(_checkers()[kind](kind).build_description(**kwargs)).strip()


def followed(prompt: str, kinds: Sequence[str], kwargs: Sequence[Mapping[str, Any]], answer: str) -> Followed:
    """Check an answer; an empty one follows nothing, one without letters is in every language (IFEval's rule)."""
    from if_verifiable.common import evaluate_instructions

    found, _ = evaluate_instructions(answer, list(kinds), [dict(each) for each in kwargs], prompt, _checkers())
    if not found:
        return Followed((False,) * len(kinds), (False,) * len(kinds))
    return Followed(tuple(bool(one.strict_pass) for one in found), tuple(bool(one.loose_pass) for one in found))


@cache
def _checkers() -> dict[str, Any]:
    """Import the checkers, without the download that importing those of IFBench would begin."""
    import langdetect
    import nltk
    from if_verifiable.ifeval import instructions as checks
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT as ifeval

    langdetect.DetectorFactory.seed = 0  # else it draws, and the same text has now this language, now that
    checks.__dict__["logging"] = silent = logging.getLogger(checks.__name__)
    silent.disabled = True  # else answers reach the terminal as they are, by the root logger
    download, nltk.download = nltk.download, _no_download
    try:
        from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT as ifbench
    finally:
        nltk.download = download
    return {**ifeval, **ifbench}


def _no_download(*_args: object, **_kwargs: object) -> bool:
    return False


Kwargs = dict[str, Any]
Drawn = Any  # A value of JSON: how one is drawn, or one that was.

_HELD_OUT: Final = 4  # One kind of instruction in so many is held out, and one request in so many.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Requests and kinds for the items of one side."""

    requests: tuple[str, ...]  # Each with its topic.
    kinds: tuple[str, ...]


def kinds_of(suite: Suite) -> tuple[str, ...]:
    """Return the kinds of instruction that can be drawn of a suite of checkers."""
    kinds = data("kinds.json")
    return tuple(name for each in suite.parts for name in kinds[each.value])


def pools(suite: Suite, seed: int, *, new_kinds: bool) -> tuple[Pools, Pools]:
    """Return what is trained on and what is held out: other requests, and other kinds too where `new_kinds`."""
    texts = data("prompts.json")
    pairs = [form.format(topic=one) for form in texts["requests"] for one in texts["topics"]]
    train, apart = _split(pairs, Random(f"{seed} requests"))
    kinds, held = _split(kinds_of(suite), Random(f"{seed} kinds"))
    if not new_kinds:
        kinds = held = kinds_of(suite)
    return Pools(requests=train, kinds=kinds), Pools(requests=apart, kinds=held)


def draw(pool: Pools, random: Random, *, fewest: int, most: int) -> dict[str, Any]:
    """Return one item: its request, its kinds of instruction with their arguments, and its prompt."""
    request = random.choice(pool.requests)
    wanted = random.randint(fewest, most)
    kinds = random.sample(pool.kinds, len(pool.kinds))
    taken: list[str] = []
    for kind in kinds:
        fits = wanted == 1 or kind not in data("kinds.json")["alone"]
        if len(taken) < wanted and fits and all(_together(kind, one) for one in taken):
            taken.append(kind)
    taken = taken or kinds[:1]  # none that goes with another
    words = random.sample(data("prompts.json")["words"], len(data("prompts.json")["words"]))
    kwargs = [_arguments(kind, request, words, random) for kind in taken]
    told = [described(kind, each) for kind, each in zip(taken, kwargs, strict=True)]
    return {"request": request, "kinds": taken, "kwargs": kwargs, "prompt": " ".join([request, *told])}


def _together(one: str, other: str) -> bool:
    kinds = data("kinds.json")
    if one in kinds["alone"] or other in kinds["alone"]:
        return False
    return not any(one in group and other in group for group in kinds["one_of_each"])


def _arguments(kind: str, request: str, words: list[str], random: Random) -> Kwargs:
    """Draw what an instruction says; no word comes twice in a prompt."""
    kinds = data("kinds.json")
    drawn: Mapping[str, Any] = next(kinds[part.value][kind] for part in Suite.BOTH.parts if kind in kinds[part.value])
    return {name: _argument(how, request, words, random) for name, how in drawn.items()}


def _argument(how: Drawn, request: str, words: list[str], random: Random) -> Drawn:
    if how == "request":
        return request
    if how == "word":
        return words.pop()
    if isinstance(how, list):
        return random.randint(how[0], how[1])
    if isinstance(how, int):
        return how
    if "words" in how:
        return [words.pop() for _ in range(random.randint(*how["words"]))]
    return random.choice(how["one_of"])


def _split(all_of: Sequence[str], random: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    apart = set(random.sample(list(all_of), len(all_of) // _HELD_OUT))
    return tuple(one for one in all_of if one not in apart), tuple(one for one in all_of if one in apart)


@cache
def data(name: str) -> dict[str, Any]:
    """Return what a file beside this one holds."""
    text = (resources.files("tinsmith.studies.instructions") / name).read_text("utf-8")
    return json.loads(text)


def a_few_words(random: Random) -> str:
    """Return a text that follows no instruction but by chance; the small base learns from such."""
    words = random.sample(data("prompts.json")["words"], random.randint(3, 9))
    text = random.choice([" ", ", ", ". "]).join(words)
    return random.choice([text, text.upper(), f'"{text}"', f"{text.capitalize()}."])
