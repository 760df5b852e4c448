"""Which of a task's items a run trains on and is evaluated on, and whether each is with its own right answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from tinsmith.lab.user_task.items import UserItem, UserSplit
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

_VALIDATION: Final = 0.2
"""The share of the training items that is put aside to choose by."""


class Examined(StrEnum):
    """What a run is evaluated on."""

    HELD_OUT = "held_out"
    VALIDATION = "validation"
    """A fifth of the training items, which this run is then not trained on; what is held out is not looked at."""


def chosen_items(task: Task, split: UserSplit, *, examined: Examined, shuffle_labels: bool, seed: int) -> UserSplit:
    """Return the items that one run trains on and is evaluated on; units stay together."""
    if examined is Examined.VALIDATION:
        split = _validation(split, seed)
    if not shuffle_labels:
        return split
    if task.talk is not None:
        raise ConfigError(
            "what is said in a conversation of several turns belongs to its item",
            field="shuffle_labels",
            value=True,
            allowed="false for this task",
        )
    return replace(split, train=_shuffled(split.train, seed))


def _validation(split: UserSplit, seed: int) -> UserSplit:
    units = _together(split.train)
    count = max(1, round(_VALIDATION * len(units)))
    if count == len(units):
        raise ConfigError(
            "there is no item left to train on",
            field="examined",
            value=Examined.VALIDATION.value,
            allowed="with two or more items, or units of items, to train on",
        )
    chosen = set(sorted(units, key=lambda name: derive(seed, "validation", name))[:count])
    apart = {one.prompt_id for name in chosen for one in units[name]}
    return replace(
        split,
        train=tuple(one for one in split.train if one.prompt_id not in apart),
        held_out=tuple(one for one in split.train if one.prompt_id in apart),
    )


def _shuffled(items: Sequence[UserItem], seed: int) -> tuple[UserItem, ...]:
    """Give every item what another is rewarded and answered by; those of one unit get those of one other unit."""
    alike: defaultdict[int, list[str]] = defaultdict(list)
    units = _together(items)
    for name, members in units.items():
        alike[len(members)].append(name)
    given: dict[str, Any] = {}
    for names in alike.values():
        ring = sorted(names, key=lambda name: derive(seed, "shuffled labels", name))
        if len(ring) < 2:
            raise ConfigError(
                "an item has no other one to be shuffled with",
                field="shuffle_labels",
                value=True,
                allowed="two or more items to train on, in units of one size",
            )
        for name, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            for mine, theirs in zip(units[name], units[other], strict=True):
                given[mine.prompt_id] = theirs.item
    return tuple(replace(one, item=given[one.prompt_id]) for one in items)


def _together(items: Sequence[UserItem]) -> dict[str, list[UserItem]]:
    """Return the items by their unit."""
    found: defaultdict[str, list[UserItem]] = defaultdict(list)
    for one in items:
        found[one.unit].append(one)
    return dict(found)
