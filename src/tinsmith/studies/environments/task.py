"""`tinsmith run verifiers:NAME`: an environment of the `verifiers` library, as a task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from tinsmith.lab.user_task.argument_keys import with_keys
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import MOST_TURNS, RESERVED, OfConversation, OfGroup, Reward, Task, Value
from tinsmith.studies.environments.loading import code_of, environment_keys, load, load_function
from tinsmith.studies.environments.play import Player, Term, Theirs
from tinsmith.studies.environments.refusals import require_scored, require_served, require_turns
from tinsmith.types.errors import ConfigError

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
    """Return the functions of a rubric, and of those that it is made of, in their order.

    Raises:
        ConfigError: one cannot be called here, or none earns anything.
    """
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
