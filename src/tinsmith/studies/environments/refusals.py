"""Refusals of environments of `verifiers` that cannot be played turn by turn, in this process, by one model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.session import hook_boundary

from tinsmith.studies.environments.play import agents_of
from tinsmith.studies.environments.seat import AnyTask
from tinsmith.studies.environments.source import FIELD
from tinsmith.types.errors import ConfigError


def require_served(name: str, env: vf.Env[Any], first: AnyTask) -> None:
    """Check an environment and its first task.

    Raises:
        ConfigError: it needs something that is not served here, which the message names.
    """
    needed = next(iter((*_needed_by(env, first), *_needed_by_hooks(first))), None)
    if needed is not None:
        what = f"this environment needs {needed}, which is not served here"
        allowed = "tasks of one or more turns whose rewards are functions, without tools, sandboxes and judges"
        raise ConfigError(what, field=FIELD, value=name, allowed=allowed)


def _needed_by(env: vf.Env[Any], first: AnyTask) -> Iterator[str]:
    config = env.config
    agents = agents_of(env)
    if len(agents) != 1:
        yield f"several agents ({', '.join(agents)})"
    for agent, each in agents.items():
        if each.model is not None or each.client is not None:
            yield f"a model of its own ({agent})"
        harness = vf.default_harness_id(config.taskset.id) if each.harness is None else each.harness.id
        if harness not in ("null", "bash" if each.harness is None else "null"):
            yield f"a harness of its own ({harness})"
    for hook in ("start", "stop"):
        if getattr(type(env), hook) is not getattr(vf.Env, hook):
            yield f"services of its own ({type(env).__name__}.{hook})"
    tools = [*env.taskset.toolsets(config.taskset), *first.toolsets(first.config)]
    if tools:
        yield f"tools: {', '.join(sorted(type(one).__name__ for one in tools))}"
    if first.NEEDS_CONTAINER:
        yield f"a container ({type(first).__name__})"
    judges = [one.id for one in first.config.judges]
    for part in (config, config.taskset, first.config):
        judges += [name for name, value in part if isinstance(value, vf.JudgeConfig)]
    if judges:
        yield f"a judge ({', '.join(judges)})"


def _needed_by_hooks(task: AnyTask) -> Iterator[str]:
    for name, function in inspect.getmembers(type(task), inspect.isfunction):
        if hasattr(function, "intercept"):
            yield f"to change messages on their way ({name})"
    for stop in task.hooks("stop"):
        if hook_boundary(stop, allow_trace=True) is not vf.Trace:
            yield f"a stop that reads requests or responses ({stop.__name__})"
    for function in (*task.hooks("metric"), *task.hooks("reward")):
        runtime = inspect.signature(function).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            yield f"a sandbox ({function.__name__} takes a runtime)"
