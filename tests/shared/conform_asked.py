"""Asks rows of `tinsmith conform`, of a server whose answers are changed on the way."""

from collections.abc import Callable
from typing import Any

import pytest

from running import HANG_S, KEY, Running
from tinsmith.lab.conform.subject import Verdict
from tinsmith.lab.conform.suite import ask, checks, open_subject

Patch = Callable[[pytest.MonkeyPatch], None]


def verdicts(server: Running, *names: str, limit_s: float = HANG_S) -> dict[str, Verdict]:
    """Ask the rows of these names."""
    requests = [one for one in checks() if one.name in names]
    assert len(requests) == len(names)
    with open_subject(server.url, KEY, None, limit_s) as subject:
        return {one.check.name: one.verdict for one in ask(subject, requests)}


class Changed:
    """A future whose result is changed."""

    def __init__(self, future: Any, change: Callable[[Any], Any]) -> None:
        self._future, self._change = future, change

    def result(self, timeout: float | None = None) -> Any:
        return self._change(self._future.result(timeout))


def answered_otherwise(owner: type, change: Callable[[Any], Any], *methods: str) -> Patch:
    """Let methods of the SDK return other results than the server's."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for method in methods:
            original = getattr(owner, method)

            def received(*args: Any, original: Any = original, **kwargs: Any) -> Any:
                return Changed(original(*args, **kwargs), change)

            monkeypatch.setattr(owner, method, received)

    return patch
