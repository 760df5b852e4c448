"""The items of a user's task: read from a list, an iterator or a JSONL file, named, asked about, and split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.task import Items, Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import DataError, TinsmithError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.json_text import parse_json
from tinsmith.types.seeds import derive

MOST: Final = 200_000
"""Items that are read of an iterator, which might have no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """One item with its name, and the prompt that asks about it."""

    prompt_id: str
    item: Any
    messages: tuple[Message, ...]
    unit: str
    """What it belongs to; its own name where it stands alone."""
    aside: bool = False
    """True if it is trained on in batches of its own alone."""

    @property
    def prompt(self) -> str:
        """What is asked, as a text."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(f"{one.role.value}: {one.content}" for one in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSplit:
    """The items to train on, those that are held out, and those that are tested."""

    train: tuple[UserItem, ...]
    held_out: tuple[UserItem, ...]
    repeated: int
    """Items that were there before, and were left out."""
    tested: tuple[UserItem, ...] = ()

    @property
    def sha256(self) -> str:
        """Of every item and its prompt, by split."""
        sides = {"train": self.train, "held_out": self.held_out, **({"tested": self.tested} if self.tested else {})}
        return sha256_of({name: [_identity(one) for one in side] for name, side in sides.items()})


def split_items(task: Task, folder: Path, seed: int) -> UserSplit:
    """Read a task's items and hold some of them out; data files are looked for in `folder`."""
    split = _trained_on(task, folder, seed)
    if not task.tested:
        return split
    tested, repeated = _read(task, task.tested, folder, "tested")
    _require_apart((*split.train, *split.held_out), tested, "tested")
    return replace(split, tested=tested, repeated=split.repeated + repeated)


def _require_apart(others: Iterable[UserItem], apart: Iterable[UserItem], field: str) -> None:
    both = sorted({one.prompt_id for one in apart} & {one.prompt_id for one in others})
    if both:
        raise DataError(
            f"{len(both)} {field.replace('_', '-')} items are among those to train on",
            field=field,
            value=both[0],
            fix="leave them out on one side",
        )


def _trained_on(task: Task, folder: Path, seed: int) -> UserSplit:
    items, repeated = _read(task, task.items, folder, "items")
    held = task.held_out
    if isinstance(held, int | float):
        units = sorted({one.unit for one in items}, key=lambda one: derive(seed, "held out", one))
        chosen = set(units[: max(1, round(held * len(units))) if held else 0])
        ids = {one.prompt_id for one in items if one.unit in chosen}
    elif callable(held):
        ids = {one.prompt_id for one in items if _is_held_out(task, one)}
    else:
        apart, again = _read(task, held, folder, "held_out")
        _require_apart(items, apart, "held_out")
        return UserSplit(train=_some(items), held_out=apart, repeated=repeated + again)
    return UserSplit(
        train=_some(tuple(one for one in items if one.prompt_id not in ids)),
        held_out=tuple(one for one in items if one.prompt_id in ids),
        repeated=repeated,
    )


def items_of_base(task: Task, folder: Path) -> tuple[UserItem, ...] | None:
    """Read what the small base reads demonstrations of; None: the items to train on."""
    if task.base_items is None:
        return None
    return _some(_read(task, task.base_items, folder, "base_items")[0])


def _some(items: tuple[UserItem, ...]) -> tuple[UserItem, ...]:
    if not items:
        raise DataError("there is no item to train on", field="items", allowed="one or more")
    return items


def _is_held_out(task: Task, one: UserItem) -> bool:
    assert callable(task.held_out)
    found = attempt(task.held_out, one.item)
    if isinstance(found, Raised):
        raise DataError(str(found), field="held_out", value=one.item)
    return bool(found)


def _read(task: Task, items: Items, folder: Path, what: str) -> tuple[tuple[UserItem, ...], int]:
    """Return the items with names and prompts, each once, and how many were there more than once."""
    found: dict[str, UserItem] = {}
    repeated = 0
    for place, item in enumerate(_raw(items, folder, what)):
        one = named_item(task, item, f"{what}[{place}]")
        before = found.setdefault(one.prompt_id, one)
        if before is not one:
            if _identity(before) != _identity(one):
                raise DataError(
                    "two items have the same name",
                    field=f"{what}[{place}]",
                    value=one.prompt_id,
                    fix="give each an id of its own",
                )
            repeated += 1
    return tuple(found.values()), repeated


def _raw(items: Items, folder: Path, what: str) -> Sequence[Any]:
    if isinstance(items, str | Path):
        return _lines(folder / items, what)
    if isinstance(items, Mapping) or not isinstance(cast(object, items), Iterable):
        raise DataError(
            "items are a list, an iterator or the name of a JSONL file", field=what, value=type(items).__name__
        )
    read = attempt(lambda: list(islice(items, MOST + 1)))
    if isinstance(read, Raised):
        if isinstance(read.error, TinsmithError):  # it says itself what, where and what to do
            raise read.error
        raise DataError(str(read), field=what)
    if len(read) > MOST:
        raise DataError(
            f"there are more than {MOST:,} items, or they have no end",
            field=what,
            fix="itertools.islice(items, 10_000)",
        )
    return read


def _lines(file: Path, what: str) -> list[Any]:
    """Read a JSONL file; empty lines are passed over."""
    if not file.is_file():
        raise DataError(
            "there is no such file",
            field=what,
            value=str(file),
            allowed="a JSONL file; a name is looked for beside the task's file",
        )
    found: list[Any] = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                found.append(parse_json(line))
            except ValueError as error:
                told = getattr(error, "msg", None) or getattr(error, "reason", None) or error
                raise DataError(
                    f"{file.name}, line {number}: this is not JSON: {told}",
                    field=what,
                    value=line.decode(errors="replace").strip(),
                ) from None
    return found


def named_item(task: Task, item: object, where: str = "item") -> UserItem:
    """Return an item with its name and its prompt."""
    try:
        name = sha256_of(item)[:12]
    except DataError as error:
        raise DataError(
            f"an item is made of values that JSON has: {error.what}",
            field=f"{where} {error.field}",
            value=error.value,
            allowed="text, numbers, true, false, none, lists, and mappings or dataclasses of them",
        ) from None
    if task.item_id is not None:
        found = attempt(task.item_id, item)
        if isinstance(found, Raised):
            raise DataError(str(found), field=f"item_id of {where}", value=item)
        name = str(found)
    elif isinstance(item, Mapping) and isinstance(item.get("id"), str | int):
        name = str(cast(Mapping[str, object], item)["id"])
    unit: object = name if task.unit is None else attempt(task.unit, item)
    if isinstance(unit, Raised):
        raise DataError(str(unit), field=f"unit of {where}", value=item)
    aside: object = False if task.aside is None else attempt(task.aside, item)
    if isinstance(aside, Raised):
        raise DataError(str(aside), field=f"aside of {where}", value=item)
    return UserItem(prompt_id=name, item=item, messages=_messages(task, item, where), unit=str(unit), aside=bool(aside))


def _messages(task: Task, item: object, where: str) -> tuple[Message, ...]:
    """Ask about an item."""
    if isinstance(task.prompt, str):
        prompt: object = _filled(task.prompt, item, where)
    else:
        prompt = attempt(task.prompt, item)
    if isinstance(prompt, Raised):
        raise DataError(str(prompt), field=f"prompt of {where}", value=item)
    if isinstance(prompt, str):
        return (Message(role=Role.USER, content=prompt),)
    try:
        said = tuple(Message(role=Role(one["role"]), content=one["content"]) for one in prompt)
    except (TypeError, KeyError, ValueError, AttributeError):
        said = ()
    if not said or said[-1].role is Role.ASSISTANT:
        raise DataError(
            "a prompt is a text, or messages of which the last is not the model's own",
            field=f"prompt of {where}",
            value=prompt,
            allowed='[{"role": "system" or "user" or "assistant", "content": text}, ...]',
        )
    return said


def _filled(template: str, item: object, where: str) -> str:
    """Put an item's fields into a template; an item that has none stands for {item}."""
    fields: Mapping[str, object] = {"item": item}
    if isinstance(item, Mapping):
        fields = cast(Mapping[str, object], item)
    elif is_dataclass(item) and not isinstance(item, type):
        fields = asdict(item)
    try:
        return template.format_map(fields)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"the prompt cannot be filled from this item: {type(error).__name__}: {error}",
            field=f"prompt of {where}",
            value=template,
            allowed="the item's fields in braces: " + ", ".join(f"{{{name}}}" for name in fields),
            fix="{{ and }} stand for braces themselves; or give a function of the item",
        ) from None


def _identity(one: UserItem) -> dict[str, object]:
    return {
        "id": one.prompt_id,
        "item": one.item,
        "messages": [(message.role.value, message.content) for message in one.messages],
    }
