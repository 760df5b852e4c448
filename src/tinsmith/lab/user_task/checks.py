"""What the parts of a user's task must be, and how it is told where they are not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Final

from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.types.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def require_callable(what: str, function: object, count: int) -> None:
    """Check that something can be called with so many arguments."""
    arguments = {1: "one argument", 2: "two arguments", 3: "three arguments"}[count]
    if not callable(function):
        raise ConfigError("this has to be a function", field=what, value=function, allowed=f"of {arguments}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a function of C that does not say what it takes
    try:
        signature.bind(*[None] * count)
    except TypeError:
        code = getattr(function, "__code__", None)
        line = "" if code is None else f" (line {code.co_firstlineno})"
        raise ConfigError(
            f"this function{line} cannot be called with {arguments}",
            field=what,
            value=f"{getattr(function, '__name__', 'function')}{signature}",
            allowed=f"a function of {arguments}",
        ) from None


def require_name(what: str, name: object) -> None:
    """Check the name of a term or a metric, which becomes part of a metric's key."""
    if isinstance(name, str) and _NAME.fullmatch(name) and name not in ("total", "names"):
        return
    raise ConfigError(
        "this name cannot stand in a metric's key",
        field=what,
        value=name,
        allowed="small letters, digits and _, beginning with a letter; not total or names",
    )


def require_share(what: str, share: float) -> None:
    """Check a share of the items."""
    if isinstance(share, bool) or not 0.0 <= share < 1.0:
        raise ConfigError(
            "this is a share of the items, and some are left to train on",
            field=what,
            value=share,
            allowed="0 or more, below 1",
        )


def require_base_steps(steps: object, *, demonstrated: bool) -> None:
    """Check how long a task's base is trained."""
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise ConfigError(
            "this is a number of steps",
            field="base_steps",
            value=steps,
            allowed="0 (the laboratory's own number), or more",
        )
    if steps and not demonstrated:
        raise ConfigError(
            "there are no demonstrations that a base could be trained on",
            field="base_steps",
            value=steps,
            fix="demonstrate=... in the task, or leave base_steps out",
        )


def require_step_reward(reward: StepReward, baselines: Iterable[str]) -> None:
    """Check the names of a step reward's terms, and that no answers without a model are to be scored by it."""
    for name in reward.terms:
        require_name("reward", name)
    if named := ", ".join(baselines):
        raise ConfigError(
            "a reward of a whole step scores no answers without a model",
            field="baselines",
            value=named,
            fix="leave baselines out, or give a reward of (item, answer)",
        )
