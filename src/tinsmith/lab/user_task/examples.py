"""Demonstrations of a task: which of them are trained on, and one tried before the run; why others were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tinsmith.lab.runs.records import ExampleRecord
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.dialogue import Dialogue, demonstrated, earned
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import Failed
from tinsmith.lab.user_task.task import Examples, Task
from tinsmith.lab.user_task.tools import Call
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The items that a filter left, and the record of every demonstration that it read."""

    items: tuple[UserItem, ...]
    demonstrations: tuple[ExampleRecord, ...]

    @property
    def sha256(self) -> str:
        """Of every demonstration, and of the decision on it."""
        return sha256_of([(one.id, one.sha256, one.left_out) for one in self.demonstrations])


def filter_examples(task: Task, examples: Examples, items: Sequence[UserItem]) -> Filtered:
    """Return the items whose demonstrations pass a task's filter; of duplicates the first one passes."""
    read: list[ExampleRecord] = []
    seen = set[str]()
    for one in items:
        replies = demonstrated(task, one)
        sha256 = sha256_of([(said.role.value, said.content) for said in one.messages] + list(replies))
        calls = _calls(task, examples, one, replies)
        left_out = _too_short_or_long(examples, len(replies), calls)
        if not left_out and examples.where is not None and not _asked(examples.where, one, one.item, list(replies)):
            left_out = "by the condition"
        if not left_out and not examples.keeps_duplicates and sha256 in seen:
            left_out = "duplicates"
        if not left_out:
            seen.add(sha256)
        read.append(ExampleRecord(id=one.prompt_id, sha256=sha256, steps=len(replies), calls=calls, left_out=left_out))
    kept = tuple(one for one, record in zip(items, read, strict=True) if not record.left_out)
    if not kept:
        longest, most = max(one.steps for one in read), max(one.calls for one in read)
        value = f"none of {len(read):,} demonstrations, of at most {longest} steps and {most} calls"
        raise DataError("no demonstration passes the filter", field="examples", value=value)
    return Filtered(items=kept, demonstrations=tuple(read))


def _calls(task: Task, examples: Examples, one: UserItem, replies: Sequence[str]) -> int:
    if examples.call is not None:
        return sum(bool(_asked(examples.call, one, reply)) for reply in replies)
    if task.tools is not None:
        return sum(isinstance(task.tools.read(reply), Call) for reply in replies)
    return len(replies) - 1


def _too_short_or_long(examples: Examples, steps: int, calls: int) -> str:
    for what, count, fewest, most in (
        ("steps", steps, examples.fewest_steps, examples.most_steps),
        ("calls", calls, examples.fewest_calls, examples.most_calls),
    ):
        if count < fewest:
            return f"with fewer than {fewest} {what}"
        if 0 < most < count:
            return f"with more than {most} {what}"
    return ""


def _asked(function: object, one: UserItem, *arguments: object) -> object:
    assert callable(function), "a filter's functions are checked with its task"
    found = attempt(function, *arguments)
    if isinstance(found, Raised):
        raise DataError(str(found), field="examples", value=one.prompt_id)
    return found


_LONGEST = 60


def tried(task: Task, one: UserItem) -> list[str]:
    """Return lines on what `parse`, `reply` and the rewards make of one made-up answer to an item."""
    origin, replies = _made_up(task, one)
    talk, lines = Dialogue(task=task, item=one), [f"tried on item {one.prompt_id}, {origin}: {_quoted(replies[0])}"]
    while not talk.is_over:
        said = talk.say(replies[min(len(talk.replies), len(replies) - 1)])
        if isinstance(said, str):
            lines.append(f"  then the model reads: {_quoted(said)}")
        elif said is not None:
            return [*lines, "  then another model replies, which a dry run leaves out"]
    if task.parse is not None and talk.failed is None:
        read = attempt(task.parse, replies[0])
        lines.append(f"  parse gave {read if isinstance(read, Raised) else _quoted(repr(read))}")
    if isinstance(task.reward, JudgedReward):
        return [*lines, "  the reward is a judge's, which a dry run does not call"]
    (found,) = earned(task, [talk])
    if isinstance(found, Failed):
        return [*lines, f"  warning: the task's {found.where} failed: {found.what}"]
    values = {**found.terms, **found.metrics}
    told = ", ".join(f"{name} {value:g}" for name, value in values.items())
    return [*lines, f"  reward {found.total:g} ({told})"]


def _made_up(task: Task, one: UserItem) -> tuple[str, list[str]]:
    """Return replies as the task itself has them, and where they are from."""
    makers = [("its right answer", task.answer), *((f"the baseline {name}", b) for name, b in task.baselines.items())]
    found = [(origin, attempt(make, one.item)) for origin, make in makers if make is not None]
    if task.demonstrate is not None:
        found.insert(0, ("a demonstration", attempt(task.demonstrate, one.item, Random(0))))
    for origin, texts in found:
        replies: list[object] = (
            [texts] if isinstance(texts, str) else list(texts) if not isinstance(texts, Raised) else []
        )
        if replies and all(isinstance(each, str) for each in replies):  # as a user's function may give anything
            return origin, [str(each) for each in replies]
    return "a made-up answer", ["I think it is 4."]


def _quoted(text: str) -> str:
    line = " ".join(visible(text).split())
    return f'"{line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."}"'
