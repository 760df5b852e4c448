"""A task's functions, called once on a made-up answer before anything is computed: what each of them gave."""

from __future__ import annotations

from random import Random

from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.dialogue import Dialogue, earned
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import Failed
from tinsmith.lab.user_task.task import Task
from tinsmith.types.visible import visible

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
        return [*lines, f"  warning: {found.where} failed: {found.what}"]
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
