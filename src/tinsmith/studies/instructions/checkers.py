"""The checkers of IFEval and IFBench, as the package `if-verifiable` has them: strict, and loose.

Left out are those whose data `nltk` would download: they count sentences by a trained model, or know parts of speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any


class Suite(StrEnum):
    """Whose instructions are asked for."""

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
    """Check an answer; an empty one follows nothing."""
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
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT as ifeval

    langdetect.DetectorFactory.seed = 0  # else it draws, and the same text has now this language, now that
    download, nltk.download = nltk.download, _no_download
    try:
        from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT as ifbench
    finally:
        nltk.download = download
    return {**ifeval, **ifbench}


def _no_download(*_args: object, **_kwargs: object) -> bool:
    return False
