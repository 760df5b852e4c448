"""`tinsmith run verifiers:NAME`: an environment of the `verifiers` library, as a task; its arguments are keys.

It is found without side effects; what of one cannot be served here is refused by name, before anything is built.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import logging
import re
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import Raised, attempt, with_keys
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import MOST_TURNS, RESERVED, OfConversation, OfGroup, Reward, Task, Value
from tinsmith.studies.environments.play import Player, Term, Theirs
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


PREFIX: Final = "args."
_LOAD: Final = "load_environment"
_PLAIN: Final = (str, int, float, bool)


def load_function(name: str) -> tuple[ModuleType, Callable[..., Any]]:
    """Return an environment's module, and its function that makes the environment."""
    module_name = name.replace("-", "_").rpartition("/")[2]
    if not module_name.isidentifier() or importlib.util.find_spec(module_name) is None:
        allowed = f"the name of an installed package with {_LOAD}()"
        fix = f"prime env install {name if '/' in name else f'OWNER/{name}'}, or pip install its folder"
        raise ConfigError("there is no such environment", field="verifiers", value=name, allowed=allowed, fix=fix)
    with _quiet():
        module = attempt(importlib.import_module, module_name)
    if isinstance(module, Raised):
        raise ConfigError(f"this environment cannot be imported: {module}", field="verifiers", value=name)
    found = getattr(module, _LOAD, None)
    if not callable(found):
        what = f"this package has no {_LOAD}(): what the library calls a taskset (v1) is not served here"
        raise ConfigError(what, field="verifiers", value=name, allowed=f"a package with {_LOAD}()")
    return module, found


def environment_keys(given: Mapping[str, str]) -> Sequence[OwnKey]:
    """Return the arguments of the environment that is named, as keys."""
    installed_version("verifiers")
    name = given.get("environment", "")
    if not name:
        raise ConfigError("which environment?", field="verifiers", value=name, fix="tinsmith run verifiers:NAME")
    return _keys_of(load_function(name)[1])


def _keys_of(function: Callable[..., Any]) -> Sequence[OwnKey]:
    """Return the arguments of `load_environment` as keys; what is no plain value is told in JSON."""
    keys: list[OwnKey] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            continue
        default = "" if each.default is each.empty else each.default
        plain = type(default) in _PLAIN
        if not plain and _as_json(default) is None:
            continue
        words = f"Argument {each.name} of {_LOAD}" + ("." if plain else ", as JSON.")
        keys.append(
            OwnKey(
                name=f"{PREFIX}{each.name}",
                kind=type(default) if plain else str,
                default=default if plain else str(_as_json(default)),
                words=words,
            )
        )
    return keys


def load(name: str, function: Callable[..., Any], values: Mapping[str, Value]) -> Theirs:
    """Return the environment; only arguments that differ from their defaults are given."""
    arguments: dict[str, Any] = {}
    for key in _keys_of(function):
        if (value := values.get(key.name, key.default)) == key.default:
            continue
        default = inspect.signature(function).parameters[key.name.removeprefix(PREFIX)].default
        plain = type(default) in _PLAIN
        arguments[key.name.removeprefix(PREFIX)] = value if plain else _read(str(value))
    with _quiet():
        made = attempt(lambda: function(**arguments))
    if isinstance(made, Raised):
        fix = f"tinsmith run verifiers:{name} --help lists its arguments"
        raise ConfigError(f"{_LOAD}() fails: {made}", field="verifiers", value=name, fix=fix)
    return made


def code_of(module: ModuleType) -> dict[str, str]:
    """Return the SHA-256 of a module's sources, by file."""
    file = Path(str(module.__file__))
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    start = file.parent.parent if file.name == "__init__.py" else file.parent
    return {one.relative_to(start).as_posix(): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Let nothing be said, and put back what is done on Ctrl-C: an environment takes that for itself."""
    import datasets
    import verifiers  # which sets its log's level when it is imported

    del verifiers
    logging.getLogger("verifiers").setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            if signal.getsignal(each) is not handler:
                signal.signal(each, handler)


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value)
    except TypeError:
        return None


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


NAME: Final = "verifiers"
_NAME: Final = re.compile(r"[^a-z0-9_]")


@with_keys(environment_keys)
def verifiers(
    environment: str = "", items: int = 0, held_out_items: int = 0, max_turns: int = MOST_TURNS, **args: Value
) -> Task:
    """Return the rows of an installed environment, which its rubric rewards.

    environment: its name.
    items: Rows to train on, the first ones; 0: all.
    held_out_items: Held-out rows; 0: all.
    max_turns: Replies after which a conversation ends, if the environment does not end it before.

    Raises:
        ConfigError: verifiers or the environment is not installed, or cannot be served.
    """
    name, version = environment, installed_version(NAME)
    module, function = load_function(name)
    env = load(name, function, args)
    require_served(name, env)
    terms = _terms(name, env.rubric)
    player = Player(env=env, terms=terms)
    turns = int(env.max_turns if 0 < env.max_turns < max_turns else max_turns)
    several = turns > 1
    for term in terms:
        if term.of_group and several:
            require_turns(name, term.name)
    rows: dict[str, Mapping[str, Any]] = {}
    apart = env.build_eval_dataset()
    held = [] if apart is None else _items(player, rows, "held_out", apart, held_out_items, ())
    train = env.build_dataset()
    if train is None:
        raise ConfigError("this environment has nothing to train on", field=NAME, value=name)
    asked = _items(player, rows, "train", train, items, [one["prompt"] for one in held])
    answers = sorted({str(one["answer"]) for one in asked if one["answer"]}) or [""]

    def shown(item: dict[str, Any], random: Random) -> list[str]:
        """Answer rightly where the row says how, or as another row is answered."""
        right = [item["answer"] or random.choice(answers), random.choice(answers)]
        return [str(random.choice(right)) for _ in range(turns)]

    def says(item: dict[str, Any], replies: Sequence[str]) -> str | None:
        return player.said(item["id"], rows[item["id"]], replies)

    def paid(term: Term, weight: float) -> Reward:
        return _reward(player, rows, term, weight)

    return Task(
        name=f"{NAME}/{name}",
        question=f"What does the model learn of {name}?",
        identity={NAME: version, **code_of(module)},
        items=asked,
        held_out=held or 0.2,
        prompt=lambda item: item["prompt"],
        reply=says if several else None,
        max_turns=turns,
        reward={one.name: paid(one, one.weight) for one in terms if one.weight},
        metrics={one.name: paid(one, 1.0) for one in terms if not one.weight},
        demonstrate=shown,
    )


def _reward(player: Player, rows: Mapping[str, Mapping[str, Any]], term: Term, weight: float) -> Reward:
    def of_group(item: Mapping[str, Any], answers: Sequence[str]) -> list[float]:
        found = player.worth_of_group(item["id"], rows[item["id"]], answers, term)
        return [weight * one for one in found]

    def of_conversation(item: Mapping[str, Any], replies: Sequence[str]) -> float:
        return weight * player.worth(item["id"], rows[item["id"]], replies, term.name)

    return OfGroup(of_group) if term.of_group else OfConversation(of_conversation)


def _terms(name: str, rubric: Theirs) -> list[Term]:
    """Return the functions of a rubric, and of those that it is made of, in their order."""
    from verifiers.legacy.rubrics.rubric_group import RubricGroup

    if type(rubric) is RubricGroup:
        parts: list[Any] = list(rubric.rubrics)
        found = [term for part in parts for term in _terms_of(name, part)]
    else:
        found = _terms_of(name, rubric)
    if not any(one.weight for one in found):
        raise ConfigError(
            "this environment's rubric rewards nothing",
            field=NAME,
            value=name,
            allowed="a function with a weight other than 0",
        )
    counts: dict[str, int] = {}
    named: list[Term] = []
    for one in found:
        counts[one.name] = counts.get(one.name, 0) + 1
        again = f"{one.name}_{counts[one.name]}" if counts[one.name] > 1 else one.name
        named.append(
            Term(name=again, rubric=one.rubric, function=one.function, weight=one.weight, of_group=one.of_group)
        )
    return named


def _terms_of(name: str, rubric: Theirs) -> list[Term]:
    require_scored(name, rubric)
    return [
        Term(
            name=_key_name(function),
            rubric=rubric,
            function=function,
            weight=float(weight),
            of_group=rubric._is_group_func(function),
        )
        for function, weight in zip(rubric.funcs, rubric.weights, strict=True)
    ]


def _key_name(function: Callable[..., Any]) -> str:
    """Return a name that can stand in a metric's key."""
    plain = _NAME.sub("_", str(getattr(function, "__name__", "reward")).lower()).lstrip("_0123456789")
    return f"{plain or 'reward'}_" if plain in RESERVED else plain or "reward"


def _items(
    player: Player, rows: dict[str, Mapping[str, Any]], side: str, dataset: Theirs, most: int, apart: Sequence[object]
) -> list[dict[str, Any]]:
    """Return a dataset's rows as items, none of which begins as one of those `apart`; `rows` keeps them whole."""
    items: list[dict[str, Any]] = []
    for number, row in enumerate(dataset):
        if most and len(items) == most:
            break
        name = f"{side}-{number}"
        prompt = player.opening(name, row)
        if prompt in apart:
            continue
        rows[name] = dict(row)
        known = json.loads(json.dumps(row.get("info") or {}, default=str))
        items.append({"id": name, "prompt": prompt, "answer": row.get("answer") or "", "info": known})
    return items
