"""The registry: every question to a server has a name, words, and a check that answers it with a verdict."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.conform.subject import Subject
from tinsmith.lab.conform.verdict import Verdict

Answer = Callable[[Subject], Verdict]

_SOURCE: Final = re.compile(r"Source: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the table."""

    name: str
    """Of the topic and of what is asked, as `topic/what`."""
    question: str
    answer: Answer

    @property
    def source(self) -> str:
        """Where it is written what a server does; the check's docstring says it."""
        found = _SOURCE.search(inspect.getdoc(self.answer) or "")
        assert found is not None, f"{self.name}: its docstring names no source"
        return " ".join(found[1].split())


CHECKS: Final[list[Check]] = []
"""Every check, in the order in which they are asked; the modules of `checks` fill it when they are imported."""


def check(name: str, question: str) -> Callable[[Answer], Answer]:
    """Put a check into the registry."""

    def register(answer: Answer) -> Answer:
        CHECKS.append(Check(name=name, question=question, answer=answer))
        return answer

    return register
