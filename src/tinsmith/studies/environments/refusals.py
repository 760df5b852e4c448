"""What of a `verifiers` environment cannot be served here, by name: it is refused before anything is built."""

from __future__ import annotations

import inspect
from typing import Final

from tinsmith.studies.environments.play import Theirs
from tinsmith.types.errors import ConfigError

_CLASSES: Final = {
    "EnvGroup": "several environments in one",
    "SandboxEnv": "a sandbox",
    "SandboxMixin": "a sandbox",
    "CliAgentEnv": "an agent's own program",
    "BrowserEnv": "a browser",
    "MCPEnv": "tools of an MCP server",
    "ToolEnv": "tools",
}
"""Classes of the library, the most telling one first, and what an environment needs that is one of them."""
_OWN: Final = ("get_model_response", "add_model_response", "rollout")
"""Methods whose replacement talks to a model in a way of its own."""


def require_served(name: str, env: Theirs) -> None:
    """Check that an environment can be played turn by turn, in this process, by one model."""
    from verifiers.legacy.envs.environment import Environment
    from verifiers.legacy.envs.multiturn_env import MultiTurnEnv

    if not isinstance(env, Environment):
        raise _refused(name, f"{type(env).__name__}, and no verifiers.Environment")
    ancestors = {each.__name__ for each in type(env).__mro__}
    needed = next((what for each, what in _CLASSES.items() if each in ancestors), None)
    if needed is not None:
        raise _refused(name, needed)
    if env.tool_defs:
        raise _refused(name, f"tools: {', '.join(sorted(one.name for one in env.tool_defs))}")
    if not isinstance(env, MultiTurnEnv):
        raise _refused(name, f"a loop of its own ({type(env).__name__})")
    for method in _OWN:
        if getattr(type(env), method) is not getattr(MultiTurnEnv, method):
            raise _refused(name, f"a {method} of its own")
    if env.message_type != "chat":
        raise _refused(name, f"prompts that are no chat ({env.message_type})")


def require_scored(name: str, rubric: Theirs) -> None:
    """Check that each of a rubric's functions can be called alone, and asks no judge."""
    from verifiers.legacy.rubrics.rubric import Rubric

    for method in ("score_rollout", "score_group"):
        if getattr(type(rubric), method) is not getattr(Rubric, method):
            raise _refused(name, f"a rubric with a {method} of its own ({type(rubric).__name__})")
    for function in rubric.funcs:
        if "judge" in inspect.signature(function).parameters:
            raise _refused(name, f"a judge ({function.__name__})")


def require_turns(name: str, function: str) -> None:
    """Refuse a reward of a whole group, where a conversation has several turns."""
    raise _refused(name, f"a reward of whole groups over several turns ({function})")


def _refused(name: str, needed: str) -> ConfigError:
    what = f"this environment needs {needed}, which is not served here"
    allowed = "environments of one or more turns whose rubric is functions, without tools, sandboxes and judges"
    return ConfigError(what, field="verifiers", value=name, allowed=allowed)
