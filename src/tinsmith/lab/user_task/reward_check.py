"""Trials of a task before a run: pay of right answers and of others, one answer, and which examples it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, Final

from tinsmith.lab.runs.records import ExampleRecord
from tinsmith.lab.schedule import subset
from tinsmith.lab.user_task.calls import Raised, attempt, required
from tinsmith.lab.user_task.dialogue import Dialogue, Earned, demonstrated, earned
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import Failed
from tinsmith.lab.user_task.task import Ask, Examples, Task
from tinsmith.lab.user_task.tools import Call
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.visible import visible

ITEMS: Final = 24  # Items that are tried.
_DRAWS: Final = 32  # Demonstrations of which the best paid stands for a right answer, where the task names none.
_LONGEST: Final = 60  # Letters of an example that are shown.


class Tried(StrEnum):
    """Ways to answer that should earn less than a right answer."""

    EMPTY = "empty answers"
    RANDOM = "random words"
    ECHO = "the prompt itself"
    MUTANT = "right answers with one change"
    OTHER = "right answers of other items"
    SEVERAL = "several answers at once, the right one among them"


_FROM_THE_FIRST: Final = (Tried.EMPTY, Tried.RANDOM, Tried.ECHO)
"""Ways to answer that are every reply of a conversation; others are its last one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """One answer that was tried, and its reward beside that of the right answer."""

    how: Tried
    item: str
    text: str
    reward: float
    right: float | None  # Reward of the item's right answer in the same group; None: no right answer is known.


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardCheck:
    """Pay of all answers that were tried."""

    rights: tuple[float, ...]  # Rewards of the right answers, one an item; empty: none is known.
    paid: tuple[Paid, ...]
    failed: int  # Answers without a reward.

    def of(self, how: Tried) -> list[Paid]:
        """Return the answers of a kind."""
        return [one for one in self.paid if one.how is how]

    def as_much(self, how: Tried) -> list[Paid]:
        """Return the answers of a kind that earn something, and no less than the right answer does."""
        return [one for one in self.of(how) if one.right is not None and one.reward >= one.right and one.reward > 0.0]


def mutants(text: str, words: Sequence[str], random: Random, count: int = 8) -> list[str]:
    """Return different texts with one change: a word left out, replaced or exchanged, a digit or letter other.

    >>> mutants("so 4", ["5"], Random(0), 3)
    ['so 5', '5 4', '4']
    """
    parts, found = text.split(), dict[str, None]()
    for _ in range(8 * count if parts else 0):
        at, way, made = random.randrange(len(parts)), random.randrange(4), list(parts)
        if way == 0:
            del made[at]
        elif way == 1:
            made[at] = random.choice(words) if words else ""
        elif way == 2:
            other = random.randrange(len(parts))
            made[at], made[other] = made[other], made[at]
        else:
            cut = random.randrange(len(made[at]))
            digit = made[at][cut]
            changed = str((int(digit) + 1) % 10) if digit in "0123456789" else ""
            made[at] = made[at][:cut] + changed + made[at][cut + 1 :]
        mutant = " ".join(made)
        if mutant.split() != parts and len(found) < count:
            found.setdefault(mutant)
    return list(found)


def check_reward(task: Task, items: Sequence[UserItem], seed: int = 0) -> RewardCheck:
    """Pay right answers of some items, and those that should earn less; each of these in a group with the right one.

    Of a conversation the last reply is tried otherwise; what is empty, random or the prompt stands for every reply.
    """
    task = replace(task, reward=deepcopy(task.reward))  # what it remembers of this is nobody's
    chosen = subset(items, ITEMS)
    rights = [_right(task, one, seed) for one in chosen]
    ends = [each[-1] for each in rights if each]
    words = sorted({word for text in ends or [one.prompt for one in chosen] for word in text.split()})
    played: list[tuple[Tried | None, UserItem, list[Dialogue]]] = []
    for place, (one, right) in enumerate(zip(chosen, rights, strict=True)):
        played += [(None, one, [_played(task, one, right)])] if right else []
        others = [each[-1] for each in (*rights[place + 1 :], *rights[:place]) if each and each[-1:] != right[-1:]]
        for how, text in _tried(one, right, others, words, Random(derive(seed, "tried", one.prompt_id))):
            before, group = () if how in _FROM_THE_FIRST else right[:-1], object()
            beside = [_played(task, one, right, group)] if right else []
            played.append((how, one, [_played(task, one, (*before, text), group), *beside]))
    scored = iter(earned(task, [each for _, _, both in played for each in both]))
    totals, paid, failed = [], [], 0
    for how, one, both in played:
        found = [next(scored) for _ in both]
        pay = [each.total for each in found if isinstance(each, Earned)]
        if len(pay) < len(found):
            failed += 1
        elif how is None:
            totals += pay
        else:
            text = both[0].replies[-1]
            paid.append(Paid(how=how, item=one.prompt_id, text=text, reward=pay[0], right=(*pay, None)[1]))
    return RewardCheck(rights=tuple(totals), paid=tuple(paid), failed=failed)


def _tried(
    one: UserItem, right: Sequence[str], others: Sequence[str], words: Sequence[str], random: Random
) -> Iterator[tuple[Tried, str]]:
    """Yield answers to try that are not the right one."""
    end = right[-1] if right else " ".join(words[:8])
    made = [(Tried.EMPTY, ""), (Tried.ECHO, one.prompt)]
    made += [(Tried.RANDOM, " ".join(random.choices(words or [""], k=max(1, len(end.split()))))) for _ in range(4)]
    if right:
        made += [(Tried.OTHER, each) for each in others[:4]]
        made += [(Tried.MUTANT, each) for each in mutants(end, words, random)]
        made += [(Tried.SEVERAL, " ".join(each)) for each in ([*others[:3], end], [end, *others[:3]])]
    yield from (each for each in made if not right or each[1].split() != end.split())


def _right(task: Task, one: UserItem, seed: int) -> tuple[str, ...]:
    """Return the replies of a right answer; none where the task shows neither that nor demonstrations."""
    random, shown = Random(derive(seed, "right answer", one.prompt_id)), task.demonstrate
    drawn = [] if shown is None else [attempt(shown, one.item, random) for _ in range(_DRAWS)]
    drawn = drawn if task.answer is None else [attempt(task.answer, one.item)]
    known = dict.fromkeys(
        (each,) if isinstance(each, str) else tuple(each) for each in drawn if not isinstance(each, Raised)
    )
    played = [_played(task, one, each) for each in known if each]
    paid = [each.total if isinstance(each, Earned) else None for each in earned(task, played)]
    best = max((pay for pay in paid if pay is not None), default=None)
    return next((each.replies for each, pay in zip(played, paid, strict=True) if pay is not None and pay == best), ())


def _played(task: Task, one: UserItem, replies: Sequence[str], group: object | None = None) -> Dialogue:
    """Have a conversation: the last reply is given again as long as the task goes on."""
    talk = Dialogue(task=task, item=one, group=group or object())
    while not talk.is_over:
        move: Any = talk.say(replies[min(len(talk.replies), len(replies) - 1)])
        if isinstance(move, Ask):
            talk.tell(attempt(move.then, ""))  # the model that would be asked says nothing
    return talk


def check_lines(task: Task, items: Sequence[UserItem], seed: int = 0) -> list[str]:
    """Return what a reward pays, for a person; what should not be paid so is shown by an example."""
    found = check_reward(task, items, seed)
    rights = "no right answer is known, as the task has neither answer= nor demonstrate="
    if found.rights:
        pay = " to ".join(dict.fromkeys(f"{one:g}" for one in (min(found.rights), max(found.rights))))
        whose = f"the best of {_DRAWS} demonstrations each" if task.answer is None else "as the task names them"
        rights = f"right answers earn {pay}, {whose}"
    lines = [f"check of the reward on {min(len(items), ITEMS)} items; {rights}"]
    for how in Tried:
        tried, alike = found.of(how), found.as_much(how)
        paid = sum(one.reward > 0.0 for one in tried)
        line = f"{how.value}: {paid} of {len(tried)} earn something"
        line += f", {len(alike)} AS MUCH AS THE RIGHT ANSWER" if alike else ""
        if paid:
            best = max(alike or tried, key=lambda one: one.reward)
            line += f"; such as {_short(best.text)!r} to {best.item}, {best.reward:g}"
        lines += [line] if tried else []
    failed = f"{found.failed} answers have no reward, as a function of the task failed on them"
    return lines + ([failed] if found.failed else [])


def filter_examples(task: Task, examples: Examples, items: Sequence[UserItem]) -> list[ExampleRecord]:
    """Return for each item whether its demonstration passes a task's filter; of duplicates the first one passes."""
    read: list[ExampleRecord] = []
    hashes = set[str]()
    for one in items:
        replies = demonstrated(task, one)
        sha256 = sha256_of([(message.role.value, message.content) for message in one.messages] + list(replies))
        calls = _calls(task, examples, one, replies)
        left_out = _too_short_or_long(examples, len(replies), calls)
        if not left_out and examples.where is not None:
            passes = required(examples.where, one.item, list(replies), field="examples", value=one.prompt_id)
            left_out = "" if passes else "by the condition"
        if not left_out and not examples.keeps_duplicates and sha256 in hashes:
            left_out = "duplicates"
        if not left_out:
            hashes.add(sha256)
        read.append(ExampleRecord(id=one.prompt_id, sha256=sha256, steps=len(replies), calls=calls, left_out=left_out))
    if all(one.left_out for one in read):
        longest, most = max(one.steps for one in read), max(one.calls for one in read)
        value = f"none of {len(read):,} demonstrations, of at most {longest} steps and {most} calls"
        raise DataError("no demonstration passes the filter", field="examples", value=value)
    return read


def _calls(task: Task, examples: Examples, one: UserItem, replies: Sequence[str]) -> int:
    if examples.call is not None:
        return sum(bool(required(examples.call, reply, field="examples", value=one.prompt_id)) for reply in replies)
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


def tried(task: Task, one: UserItem) -> list[str]:
    """Return lines on what `parse`, `reply` and the rewards make of one made-up answer to an item."""
    origin, replies = _made_up(task, one)
    talk, lines = Dialogue(task=task, item=one), [f"tried on item {one.prompt_id}, {origin}: {_quoted(replies[0])}"]
    while not talk.is_over:
        response = talk.say(replies[min(len(talk.replies), len(replies) - 1)])
        if isinstance(response, str):
            lines.append(f"  then the model reads: {_quoted(response)}")
        elif response is not None:
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
    summary = ", ".join(f"{name} {value:g}" for name, value in values.items())
    return [*lines, f"  reward {found.total:g} ({summary})"]


def _made_up(task: Task, one: UserItem) -> tuple[str, list[str]]:
    """Return replies as the task itself has them, and where they are from."""
    makers = [("its right answer", task.answer), *((f"the baseline {name}", b) for name, b in task.baselines.items())]
    found = [(origin, attempt(make, one.item)) for origin, make in makers if make is not None]
    if task.demonstrate is not None:
        found.insert(0, ("a demonstration", attempt(task.demonstrate, one.item, Random(0))))
    for origin, texts in found:
        replies: list[object] = [] if isinstance(texts, Raised) else [texts] if isinstance(texts, str) else list(texts)
        if replies and all(isinstance(each, str) for each in replies):  # as a user's function may give anything
            return origin, [str(each) for each in replies]
    return "a made-up answer", ["I think it is 4."]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _quoted(text: str) -> str:
    return f'"{_short(" ".join(visible(text).split()))}"'
