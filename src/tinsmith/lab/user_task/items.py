"""Items of a user's task: read from a list, an iterator or a JSONL file, named, prompted and split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from tinsmith.lab.schedule import units_of
from tinsmith.lab.user_task.calls import Raised, attempt, required
from tinsmith.lab.user_task.task import Items, Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import ConfigError, DataError, TinsmithError, perhaps
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.json_text import parse_json
from tinsmith.types.seeds import derive

MOST: Final = 200_000  # Items that are read of an iterator, which might have no end.


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """Item with its name and prompt."""

    prompt_id: str
    item: Any
    messages: tuple[Message, ...]
    unit: str  # What it belongs to; its own name where it stands alone.
    aside: bool = False  # True if it is trained on in batches of its own alone.

    @property
    def prompt(self) -> str:
        """Messages as one text."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(f"{one.role.value}: {one.content}" for one in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSplit:
    """Items to train on, held-out items, and test items."""

    train: tuple[UserItem, ...]
    held_out: tuple[UserItem, ...]
    repeated: int  # Items that were there before, and were left out.
    tested: tuple[UserItem, ...] = ()

    @property
    def sha256(self) -> str:
        """Of every item and its prompt, by split."""
        sides = {"train": self.train, "held_out": self.held_out, **({"tested": self.tested} if self.tested else {})}
        return sha256_of({name: [_identity(one) for one in side] for name, side in sides.items()})


def split_items(task: Task, folder: Path, seed: int) -> UserSplit:
    """Read a task's items and hold some of them out; names of data files are relative to `folder`."""
    items, repeated = _read(task, task.items, folder, "items")
    held, ids, apart = task.held_out, set[str](), ()
    if isinstance(held, int | float):
        units = sorted({one.unit for one in items}, key=lambda one: derive(seed, "held out", one))
        chosen = set(units[: max(1, round(held * len(units))) if held else 0])
        ids = {one.prompt_id for one in items if one.unit in chosen}
    elif callable(held):
        ids = {one.prompt_id for one in items if required(held, one.item, field="held_out")}
    else:
        apart, again = _read(task, held, folder, "held_out")
        repeated += again
    held_out = (*(one for one in items if one.prompt_id in ids), *apart)
    train = tuple(one for one in items if one.prompt_id not in ids)
    _require_apart(train, held_out, "held_out")
    tested, again = _read(task, task.tested, folder, "tested") if task.tested else ((), 0)
    _require_apart((*train, *held_out), tested, "tested")
    if items and not train:
        what = f"{len(items)} of {len(items)} items are held out: none is left to train on"
        value = held if isinstance(held, int | float) else "a function"
        raise DataError(what, field="held_out", value=value, fix="give more items, or hold out fewer (0: none)")
    return UserSplit(train=_some(train), held_out=held_out, repeated=repeated + again, tested=tested)


def _require_apart(others: Iterable[UserItem], apart: Iterable[UserItem], field: str) -> None:
    both = sorted({one.prompt_id for one in apart} & {one.prompt_id for one in others})
    if both:
        what = f"{len(both)} {field.replace('_', '-')} items are among those to train on"
        raise DataError(what, field=field, value=both[0], fix="leave them out on one side")
    both = sorted({one.unit for one in apart} & {one.unit for one in others})
    if both:
        what = f"{len(both)} units have {field.replace('_', '-')} items and others"
        raise DataError(what, field=field, value=both[0], fix="leave the items of a unit together on one side")


def items_of_base(task: Task, folder: Path) -> tuple[UserItem, ...] | None:
    """Read the items demonstrated to the small base; None for the training items."""
    return None if task.base_items is None else _some(_read(task, task.base_items, folder, "base_items")[0])


def _some(items: tuple[UserItem, ...]) -> tuple[UserItem, ...]:
    if not items:
        raise DataError("there are no items to train on", field="items", allowed="one or more")
    return items


def _read(task: Task, items: Items, folder: Path, what: str) -> tuple[tuple[UserItem, ...], int]:
    by_id: dict[str, UserItem] = {}
    repeated = 0
    for place, item in enumerate(_raw(items, folder, what)):
        one = named_item(task, item, f"{what}[{place}]")
        before = by_id.setdefault(one.prompt_id, one)
        repeated += before is not one
        if before is not one and _identity(before) != _identity(one):
            fix = "give each an id of its own"
            raise DataError("two items have the same id", field=f"{what}[{place}]", value=one.prompt_id, fix=fix)
    return tuple(by_id.values()), repeated


def _raw(items: Items, folder: Path, what: str) -> Sequence[Any]:
    if isinstance(items, str | Path):
        return _lines(folder / items, what)
    if isinstance(items, Mapping) or not isinstance(cast(object, items), Iterable):
        allowed = "items are a list, an iterator or the name of a JSONL file"
        raise DataError(allowed, field=what, value=type(items).__name__)
    read = attempt(lambda: list(islice(items, MOST + 1)))
    if isinstance(read, Raised):
        if isinstance(read.error, TinsmithError):  # it says itself what, where and what to do
            raise read.error
        raise DataError(str(read), field=what)
    if len(read) > MOST:
        many = f"there are more than {MOST:,} items, or the iterator never ends"
        raise DataError(many, field=what, fix="itertools.islice(items, 10_000)")
    return read


def _lines(file: Path, what: str) -> list[Any]:
    if not file.is_file():
        allowed = "a JSONL file; a name is looked for beside the task's file"
        raise DataError("there is no such file", field=what, value=str(file), allowed=allowed)
    values: list[Any] = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                values.append(parse_json(line))
            except ValueError as error:
                reason = getattr(error, "msg", None) or getattr(error, "reason", None) or error
                wrong = f"{file.name}, line {number}: this is not JSON: {reason}"
                raise DataError(wrong, field=what, value=line.decode(errors="replace").strip()) from None
    return values


def named_item(task: Task, item: object, where: str = "item") -> UserItem:
    """Return an item with its name and its prompt."""
    try:
        name = sha256_of(item)[:12]
    except DataError as error:
        what = f"an item is made of values that JSON has: {error.what}"
        allowed = "text, numbers, true, false, none, lists, and mappings or dataclasses of them"
        raise DataError(what, field=f"{where} {error.field}", value=error.value, allowed=allowed) from None
    if task.item_id is not None:
        name = str(required(task.item_id, item, field=f"item_id of {where}"))
    elif isinstance(item, Mapping) and isinstance(item.get("id"), str | int):
        name = str(cast(Mapping[str, object], item)["id"])
    unit = name if task.unit is None else str(required(task.unit, item, field=f"unit of {where}"))
    aside = task.aside is not None and bool(required(task.aside, item, field=f"aside of {where}"))
    return UserItem(prompt_id=name, item=item, messages=_messages(task, item, where), unit=unit, aside=aside)


def _messages(task: Task, item: object, where: str) -> tuple[Message, ...]:
    field, template = f"prompt of {where}", task.prompt
    prompt: Any = _filled(template, item, field) if isinstance(template, str) else required(template, item, field=field)
    if isinstance(prompt, str):
        return (Message(role=Role.USER, content=prompt),)
    try:
        messages = tuple(Message(role=Role(one["role"]), content=one["content"]) for one in prompt)
    except (TypeError, KeyError, ValueError, AttributeError):
        messages = ()
    if not messages or messages[-1].role is Role.ASSISTANT:
        what = "a prompt is a text, or messages of which the last is not the model's own"
        allowed = '[{"role": "system" or "user" or "assistant", "content": text}, ...]'
        raise DataError(what, field=field, value=prompt, allowed=allowed)
    return messages


def _filled(template: str, item: object, field: str) -> str:
    """Fill a template with an item's fields; an item without fields fills {item}."""
    fields: Mapping[str, object] = {"item": item}
    if isinstance(item, Mapping):
        fields = cast(Mapping[str, object], item)
    elif is_dataclass(item) and not isinstance(item, type):
        fields = asdict(item)
    try:
        return template.format_map(fields)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        what = f"the prompt cannot be filled from this item: {type(error).__name__}: {error}"
        allowed = "the item's fields in braces: " + ", ".join(f"{{{name}}}" for name in fields)
        fix = "{{ and }} stand for braces themselves; or give a function of the item"
        if isinstance(error, KeyError) and str(error.args[0]).isidentifier():
            what = f"the prompt names {{{error.args[0]}}}, which this item does not have"
            fix = perhaps(str(error.args[0]), fields) or fix
        raise DataError(what, field=field, value=template, allowed=allowed, fix=fix) from None


def _identity(one: UserItem) -> dict[str, object]:
    return {
        "id": one.prompt_id,
        "item": one.item,
        "messages": [(message.role.value, message.content) for message in one.messages],
    }


class Examined(StrEnum):
    """The items that a run is evaluated on."""

    HELD_OUT = "held_out"
    VALIDATION = "validation"
    """A fifth of the training items, which the run is not trained on; held-out items are not used."""


_VALIDATION: Final = 0.2  # Share of the training items that is put aside to choose by.


def chosen_items(task: Task, split: UserSplit, *, examined: Examined, shuffle_labels: bool, seed: int) -> UserSplit:
    """Return the training and evaluation items of one run; units stay together."""
    if examined is Examined.VALIDATION:
        units = _together(split.train)
        count = max(1, round(_VALIDATION * len(units)))
        if count == len(units):
            what = "no items are left to train on"
            allowed = "with two or more items, or units of items, to train on"
            raise ConfigError(what, field="examined", value=Examined.VALIDATION.value, allowed=allowed)
        chosen = sorted(units, key=lambda name: derive(seed, "validation", name))[:count]
        apart = {one.prompt_id for name in chosen for one in units[name]}
        train = tuple(one for one in split.train if one.prompt_id not in apart)
        split = replace(split, train=train, held_out=tuple(one for one in split.train if one.prompt_id in apart))
    if shuffle_labels and task.talk is not None:
        what = "labels can only be shuffled in tasks of one turn"
        raise ConfigError(what, field="shuffle_labels", value=True, allowed="false for this task")
    if not shuffle_labels:
        return split
    # Where nothing is held out the control is evaluated as its runs are: by the items' own answers.
    return replace(split, train=_shuffled(split.train, seed), held_out=split.held_out or split.train)


def _shuffled(items: Sequence[UserItem], seed: int) -> tuple[UserItem, ...]:
    """Shuffle the items' rewards and answers; the items of a unit get those of one other unit."""
    units, exchanged = _together(items), dict[str, Any]()
    for size in {len(members) for members in units.values()}:
        names = [name for name, members in units.items() if len(members) == size]
        ring = sorted(names, key=lambda name: derive(seed, "shuffled labels", name))
        if len(ring) < 2:
            what = "labels cannot be shuffled: some item has no partner to exchange with"
            allowed = "two or more items to train on, in units of one size"
            raise ConfigError(what, field="shuffle_labels", value=True, allowed=allowed)
        for name, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            for mine, theirs in zip(units[name], units[other], strict=True):
                exchanged[mine.prompt_id] = theirs.item
    return tuple(replace(one, item=exchanged[one.prompt_id]) for one in items)


def _together(items: Sequence[UserItem]) -> dict[str, Sequence[UserItem]]:
    return {some[0].unit: some for some in units_of(items, lambda one: one.unit)}
