"""Tests that are coroutines: who runs them also makes their first arguments, and fixtures are the others."""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import signature
from typing import Any

Script = Callable[..., Awaitable[None]]


def coroutine_test(run: Callable[..., None], *fixtures: str, made: int = 1) -> Callable[[Script], Callable[..., None]]:
    """Decorate a coroutine function: pytest calls `run(script, *fixtures)`, which awaits `script(*made)`."""

    def decorate(script: Script) -> Callable[..., None]:
        own = [*signature(script).parameters.values()][made:]

        @wraps(script)
        def test(**given: Any) -> None:
            more = {one.name: given[one.name] for one in own}
            run(lambda *arguments: script(*arguments, **more), *(given[name] for name in fixtures))

        needed = {name: signature(_named).parameters["name"].replace(name=name) for name in fixtures}
        needed |= {one.name: one for one in own}
        vars(test)["__signature__"] = signature(script).replace(parameters=list(needed.values()))
        return test

    return decorate


def _named(name: Any) -> None:
    del name
