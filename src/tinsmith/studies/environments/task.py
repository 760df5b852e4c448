"""Task of `tinsmith run verifiers:NAME`: an environment of the `verifiers` library, whose arguments are keys.

It is found without side effects; what of one cannot be served here is refused by name, before anything is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import Raised, attempt, with_keys
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import MOST_TURNS, RESERVED, OfConversation, Task, Value
from tinsmith.types.errors import ConfigError, TaskError

if TYPE_CHECKING:
    from tinsmith.studies.environments.play import Player

Theirs = Any  # An object of the library's, which is imported when an environment is asked for.
NAME: Final = "verifiers"
_NAME: Final = re.compile(r"[^a-z0-9_]")


def environment_keys(given: Mapping[str, str]) -> Sequence[OwnKey]:
    """Return the arguments of the environment that is named, as keys."""
    installed_version(NAME)
    from tinsmith.studies.environments.source import keys_of

    name = given.get("environment", "")
    if not name:
        raise ConfigError("which environment?", field=NAME, value=name, fix="tinsmith run verifiers:NAME")
    return keys_of(name)


@with_keys(environment_keys)
def verifiers(
    environment: str = "",
    items: int = 0,
    held_out: str = "",
    held_out_items: int = 0,
    max_turns: int = MOST_TURNS,
    **args: Value,
) -> Task:
    """Return the tasks of an installed environment, which its own functions reward.

    environment: its name.
    items: Tasks to train on, the first ones; 0: all.
    held_out: Arguments of the held-out tasks that differ, as JSON, such as {"split": "test"}; empty: a fifth of all.
    held_out_items: Held-out tasks that are loaded with these; 0: all.
    max_turns: Replies after which a conversation ends, if the environment does not end it before.
    """
    name, version = environment, installed_version(NAME)
    from tinsmith.studies.environments.play import Player, turns_of
    from tinsmith.studies.environments.source import code_of, environment_module, load

    player = Player()
    held = []
    if held_out:
        env = load(name, args, _changes(held_out))
        held = _items(name, player, "held_out", env, held_out_items, ())
    env = load(name, args)
    chosen = _items(name, player, "train", env, items, [one["prompt"] for one in held])
    if not chosen:
        raise ConfigError("this environment has nothing to train on", field=NAME, value=name)
    first, turns = chosen[0], turns_of(env, max_turns)
    try:
        rewards, metrics = player.names(first["id"], first["answer"], turns)
    except TaskError as error:
        raise ConfigError(f"this environment cannot be played: {error.what}", field=NAME, value=name) from None
    if not rewards:
        allowed = "a reward with a weight other than 0"
        raise ConfigError("this environment rewards nothing", field=NAME, value=name, allowed=allowed)
    answers = sorted({str(one["answer"]) for one in chosen if one["answer"]}) or [""]

    def shown(item: dict[str, Any], random: Random) -> list[str]:
        """Answer rightly where the row says how, or as another row is answered."""
        right = [item["answer"] or random.choice(answers), random.choice(answers)]
        return [str(random.choice(right)) for _ in range(turns)]

    def follows(item: dict[str, Any], replies: Sequence[str]) -> str | None:
        return player.reply(item["id"], replies)

    def reward(term: str) -> OfConversation:
        return OfConversation(lambda item, replies: player.worth(item["id"], replies).rewards.get(term, 0.0))

    def metric(term: str) -> OfConversation:
        return OfConversation(lambda item, replies: cast(float, player.worth(item["id"], replies).metrics.get(term)))

    keys = _keys([*rewards, *metrics])
    return Task(
        name=f"{NAME}/{name}",
        question=f"What does the model learn of {name}?",
        identity={NAME: version, **code_of(environment_module(name))},
        items=chosen,
        held_out=held or 0.2,
        prompt=lambda item: item["prompt"],
        reply=follows if turns > 1 else None,
        max_turns=turns,
        reward={key: reward(term) for key, term in zip(keys, rewards, strict=False)},
        metrics={key: metric(term) for key, term in zip(keys[len(rewards) :], metrics, strict=True)},
        demonstrate=shown,
    )


def _items(
    name: str, player: Player, side: str, env: Theirs, most: int, apart: Sequence[object]
) -> list[dict[str, Any]]:
    """Return an environment's tasks as items, none of which begins as one of those `apart`; the player keeps them."""
    from tinsmith.studies.environments.play import require_served
    from tinsmith.studies.environments.source import own_values, tasks_of

    if not (most or env.taskset.bounded):
        field = "items" if side == "train" else "held_out_items"
        raise ConfigError("this environment has no last task", field=field, value=most, allowed="1 or more")
    items: list[dict[str, Any]] = []
    for number, task in enumerate(tasks_of(name, env)):
        if number == 0:
            require_served(name, env, task)
        if most and len(items) == most:
            break
        key = f"{side}-{number}"
        player.rows[key] = env, task
        prompt = attempt(player.opening, key)
        if isinstance(prompt, Raised):
            raise ConfigError(f"its task {number} cannot be played: {prompt}", field=NAME, value=name)
        if prompt not in apart:
            info = own_values(task)
            answer = info.pop("answer", "")
            items.append(
                {"id": key, "prompt": prompt, "answer": answer if isinstance(answer, str) else "", "info": info}
            )
    return items


def _changes(text: str) -> Mapping[str, object]:
    found = attempt(json.loads, text)
    if not isinstance(found, dict):
        raise ConfigError("this must be JSON", field="held_out", value=text, allowed='such as {"split": "test"}')
    return cast(Mapping[str, object], found)


def _keys(names: Sequence[str]) -> list[str]:
    """Return names that can stand in a metric's key, each once."""
    keys: list[str] = []
    for name in names:
        plain = _NAME.sub("_", name.lower()).lstrip("_0123456789") or "reward"
        plain = f"{plain}_" if plain in RESERVED else plain
        keys.append(plain if plain not in keys else f"{plain}_{len(keys)}")
    return keys
