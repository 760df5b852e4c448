"""Trials of a task before a run: rewards of right and wrong answers, one made-up answer, filtered examples."""

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
from tinsmith.lab.user_task.items import UserItem, named_item
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.learned_reward import LabelsAlone, LearnedReward
from tinsmith.lab.user_task.step_reward import Failed
from tinsmith.lab.user_task.task import Ask, Examples, Spawn, Task
from tinsmith.lab.user_task.tools import Call
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.visible import visible

ITEMS: Final = 24  # Items that are tried.
_DRAWS: Final = 32  # Demonstrations of which the best paid stands for a right answer, where the task names none.
_MOST_DRAWS: Final = 256  # The same, where none of the first ones earns anything.
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
"""Trial answers that replace every reply of a conversation; others replace the last alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """Trial answer with its reward, beside that of the right answer."""

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
    replaced: int  # Items whose named answer earns nothing, so that a demonstration stands for it.

    def of(self, how: Tried) -> list[Paid]:
        """Return the answers of a kind."""
        return [one for one in self.paid if one.how is how]

    def as_much(self, how: Tried) -> list[Paid]:
        """Return the wrong answers of a kind that earn no less than a right answer that earns something."""
        nothing = self.nothing
        return [one for one in self.of(how) if one.right is not None and one.reward >= one.right > nothing]

    def instead(self, how: Tried) -> list[Paid]:
        """Return the wrong answers of a kind that earn something while the right answer earns nothing."""
        nothing = self.nothing
        return [one for one in self.of(how) if one.right is not None and one.reward > nothing >= one.right]

    @property
    def nothing(self) -> float:
        """Reward that is nothing earned: 0, or the least of all where some are negative, as of a penalty."""
        return min([0.0, *self.rights, *(one.reward for one in self.paid)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Right:
    """Replies that represent a right answer to an item."""

    replies: tuple[str, ...]
    pay: float
    named: bool  # True if it is the task's `answer`.


def mutants(text: str, words: Sequence[str], random: Random, count: int = 8) -> list[str]:
    """Return distinct mutations of a text: a word omitted, replaced or swapped, a digit or letter changed.

    >>> mutants("so 4", ["5"], Random(0), 3)
    ['so 5', '5 4', '4']
    """
    parts, texts = text.split(), dict[str, None]()
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
        if mutant.split() != parts and len(texts) < count:
            texts.setdefault(mutant)
    return list(texts)


def check_reward(task: Task, items: Sequence[UserItem], seed: int = 0) -> RewardCheck:
    """Score right answers of some items, and wrong ones, each grouped with its right answer.

    Of a conversation the last reply is tried otherwise; what is empty, random or the prompt stands for every reply.
    """
    task = _apart(task)
    chosen = subset(items, ITEMS)
    known = [_right(task, one, seed) for one in chosen]
    rights = [() if one is None else one.replies for one in known]
    ends = [each[-1] for each in rights if each]
    words = sorted({word for text in ends or [one.prompt for one in chosen] for word in text.split()})
    played: list[tuple[Tried | None, UserItem, list[Dialogue]]] = []
    for place, (item, right) in enumerate(zip(chosen, rights, strict=True)):
        played += [(None, item, [_played(task, item, right)])] if right else []
        others = [each[-1] for each in (*rights[place + 1 :], *rights[:place]) if each and each[-1:] != right[-1:]]
        for how, text in _tried(item, right, others, words, Random(derive(seed, "tried", item.prompt_id))):
            before, group = () if how in _FROM_THE_FIRST else right[:-1], object()
            beside = [_played(task, item, right, group)] if right else []
            played.append((how, item, [_played(task, item, (*before, text), group), *beside]))
    scored = iter(_paid(task, [each for _, _, both in played for each in both]))
    totals, paid, failed = [], [], 0
    for how, item, both in played:
        earnings = [next(scored) for _ in both]
        pay = [each.total for each in earnings if isinstance(each, Earned)]
        if len(pay) < len(earnings):
            failed += 1
        elif how is None:
            totals += pay
        else:
            text = both[0].replies[-1]
            paid.append(Paid(how=how, item=item.prompt_id, text=text, reward=pay[0], right=(*pay, None)[1]))
    replaced = 0 if task.answer is None else sum(one is not None and not one.named for one in known)
    return RewardCheck(rights=tuple(totals), paid=tuple(paid), failed=failed, replaced=replaced)


def _apart(task: Task) -> Task:
    """Return a task whose reward has a state of its own; a learned reward is replaced by its labels."""
    reward = task.reward
    return replace(task, reward=LabelsAlone(learned=reward) if isinstance(reward, LearnedReward) else deepcopy(reward))


def _tried(
    one: UserItem, right: Sequence[str], others: Sequence[str], words: Sequence[str], random: Random
) -> Iterator[tuple[Tried, str]]:
    end = right[-1] if right else " ".join(words[:8])
    made = [(Tried.EMPTY, ""), (Tried.ECHO, one.prompt)]
    made += [(Tried.RANDOM, " ".join(random.choices(words or [""], k=max(1, len(end.split()))))) for _ in range(4)]
    if right:
        made += [(Tried.OTHER, each) for each in others[:4]]
        made += [(Tried.MUTANT, each) for each in mutants(end, words, random)]
        made += [(Tried.SEVERAL, " ".join(each)) for each in ([*others[:3], end], [end, *others[:3]])]
    yield from (each for each in made if not right or each[1].split() != end.split())


def _right(task: Task, item: UserItem, seed: int) -> _Right | None:
    """Return a right answer: the task's, or the best demonstration if that earns nothing.

    A task's `answer` may demonstrate what is not right, such as a search that gives up. None: nothing stands for it.
    """
    random, shown = Random(derive(seed, "right answer", item.prompt_id)), task.demonstrate
    best = None if task.answer is None else _best_paid(task, item, [attempt(task.answer, item.item)], named=True)
    drawn = 0
    while shown is not None and drawn < _MOST_DRAWS and (best is None or best.pay <= 0.0):
        some = [attempt(shown, item.item, random) for _ in range(_DRAWS)]
        candidate, drawn = _best_paid(task, item, some, named=False), drawn + _DRAWS
        best = candidate if candidate is not None and (best is None or candidate.pay > best.pay) else best
    return best


def _best_paid(
    task: Task, one: UserItem, answers: Sequence[str | Sequence[str] | Raised], *, named: bool
) -> _Right | None:
    """Return the best paid of some answers, the first of those that are paid alike; None: none has a reward."""
    texts = [(each,) if isinstance(each, str) else tuple(each) for each in answers if not isinstance(each, Raised)]
    played = [_played(task, one, each) for each in dict.fromkeys(texts) if each]
    found = [
        _Right(replies=talk.replies, pay=each.total, named=named)
        for talk, each in zip(played, _paid(task, played), strict=True)
        if isinstance(each, Earned)
    ]
    return max(found, key=lambda each: each.pay, default=None)


def _played(task: Task, one: UserItem, replies: Sequence[str], group: object | None = None, depth: int = 0) -> Dialogue:
    """Play a conversation; the last reply is repeated until it ends."""
    talk = Dialogue(task=task, item=one, group=group or object(), depth=depth)
    while not talk.is_over:
        move: Any = talk.say(replies[min(len(talk.replies), len(replies) - 1)])
        if isinstance(move, Ask):
            talk.tell(attempt(move.then, ""))  # the model that would be asked says nothing
        elif isinstance(move, Spawn):
            _spawn(talk, move)
    return talk


def _spawn(talk: Dialogue, move: Spawn) -> str | None:
    """Play the spawned conversations with the task's demonstrations; return the response to their answers."""
    task, begun = talk.task, list[Dialogue]()
    for item in move.items:
        one = named_item(task, item)
        shown: str | Sequence[str] | Raised = ""
        if task.answer is not None:
            shown = attempt(task.answer, item)
        elif task.demonstrate is not None:
            shown = attempt(task.demonstrate, item, Random(0))
        replies = [""] if isinstance(shown, Raised) or not shown else [shown] if isinstance(shown, str) else list(shown)
        begun.append(_played(task, one, replies, depth=talk.depth + 1))
    talk.children = (*talk.children, *begun)
    return talk.tell(attempt(move.then, [one.answer for one in begun]))


def _paid(task: Task, played: Sequence[Dialogue]) -> list[Earned | Failed]:
    return earned(task, [*played, *(each for one in played for each in _below(one))])[: len(played)]


def _below(talk: Dialogue) -> Iterator[Dialogue]:
    for one in talk.children:
        yield one
        yield from _below(one)


def check_lines(task: Task, items: Sequence[UserItem], seed: int = 0) -> list[str]:
    """Return lines on a reward's payments, with an example of each wrong answer that is paid."""
    check = check_reward(task, items, seed)
    rights = "no right answer is known, as the task has neither answer= nor demonstrate="
    if check.rights:
        pay = " to ".join(dict.fromkeys(f"{one:g}" for one in (min(check.rights), max(check.rights))))
        whose = (
            f"the best of {_DRAWS} to {_MOST_DRAWS} demonstrations each"
            if task.answer is None
            else "as the task names them"
        )
        rights = f"right answers earn {pay}, {whose}"
    if check.replaced:
        rights += f"; on {check.replaced} items that one earns nothing, and the best demonstration stands for it"
    what = "the labels, of which the reward is learned within a run," if isinstance(task.reward, LearnedReward) else ""
    lines = [f"check of {what or 'the reward'} on {min(len(items), ITEMS)} items; {rights}"]
    for how in Tried:
        tried, alike, instead = check.of(how), check.as_much(how), check.instead(how)
        paid = sum(one.reward > 0.0 for one in tried)
        line = f"{how.value}: {paid} of {len(tried)} earn something"
        line += f", {len(alike)} AS MUCH AS THE RIGHT ANSWER" if alike else ""
        line += f", {len(instead)} WHERE THE RIGHT ANSWER EARNS NOTHING" if instead else ""
        if paid or alike or instead:
            best = max(alike or instead or tried, key=lambda one: one.reward)
            line += f"; such as {_short(best.text)!r} to {best.item}, {best.reward:g}"
        lines += [line] if tried else []
    failed = f"{check.failed} answers have no reward, as a function of the task failed on them"
    return lines + ([failed] if check.failed else [])


def filter_examples(task: Task, examples: Examples, items: Sequence[UserItem]) -> list[ExampleRecord]:
    """Return each item's demonstration with the filter's result; of duplicates the first one passes."""
    read: list[ExampleRecord] = []
    hashes = set[str]()
    for item in items:
        replies = demonstrated(task, item)
        sha256 = sha256_of([(message.role.value, message.content) for message in item.messages] + list(replies))
        calls = _calls(task, examples, item, replies)
        left_out = _too_short_or_long(examples, len(replies), calls)
        if not left_out and examples.where is not None:
            passes = required(examples.where, item.item, list(replies), field="examples", value=item.prompt_id)
            left_out = "" if passes else "by the condition"
        if not left_out and not examples.keeps_duplicates and sha256 in hashes:
            left_out = "duplicates"
        if not left_out:
            hashes.add(sha256)
        read.append(ExampleRecord(id=item.prompt_id, sha256=sha256, steps=len(replies), calls=calls, left_out=left_out))
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


def tried(task: Task, item: UserItem, *, asks_judge: bool = True) -> list[str]:
    """Return lines on the results of `parse`, `reply` and the rewards for made-up answers to an item.

    A judge that is a model is not to be asked.
    """
    made = _made_up(task, item)
    return [line for each in made.items() for line in _results(task, item, *each, asks_judge=asks_judge)]


def _results(task: Task, item: UserItem, origin: str, replies: Sequence[str], *, asks_judge: bool) -> list[str]:
    learned, task = isinstance(task.reward, LearnedReward), _apart(task)
    talk, lines = Dialogue(task=task, item=item), [f"tried on item {item.prompt_id}, {origin}: {_quoted(replies[0])}"]
    while not talk.is_over:
        response = talk.say(replies[min(len(talk.replies), len(replies) - 1)])
        if isinstance(response, Spawn):
            lines.append(
                f"  then the model is asked about {len(response.items)} items, answered here as the task shows"
            )
            response = _spawn(talk, response)
        if isinstance(response, str):
            lines.append(f"  then the model reads: {_quoted(response)}")
        elif response is not None:
            return [*lines, "  then another model replies, which a dry run leaves out"]
    if task.parse is not None and talk.failed is None:
        read = attempt(task.parse, replies[0])
        lines.append(f"  parse gave {read if isinstance(read, Raised) else _quoted(repr(read))}")
    if isinstance(task.reward, JudgedReward) and not asks_judge:
        return [*lines, "  the reward is a judge's, which a dry run does not call"]
    (earnings,) = _paid(task, [talk])
    if isinstance(earnings, Failed):
        return [*lines, f"  warning: the task's {earnings.where} failed: {earnings.what}"]
    values = {**earnings.terms, **earnings.metrics}
    summary = ", ".join(f"{name} {value:g}" for name, value in values.items())
    lines.append(f"  reward {earnings.total:g} ({summary})")
    return [*lines, *(["  the label is tried alone: the reward is learned of it within a run"] if learned else [])]


def _made_up(task: Task, one: UserItem) -> dict[str, list[str]]:
    """Return replies by their origin: what the base is shown and the right answer, else a baseline's, else any."""
    makers = [("its right answer", task.answer), *((f"the baseline {name}", b) for name, b in task.baselines.items())]
    found = [(origin, attempt(make, one.item)) for origin, make in makers if make is not None]
    if task.demonstrate is not None:
        found.insert(0, ("what the base is shown, right or not", attempt(task.demonstrate, one.item, Random(0))))
    made: dict[str, list[str]] = {}
    for origin, texts in found:
        replies: list[object] = [] if isinstance(texts, Raised) else [texts] if isinstance(texts, str) else list(texts)
        usable = replies and all(isinstance(each, str) for each in replies)  # as a user's function may give anything
        if usable and (not made or origin == makers[0][0]):
            made[origin] = [str(each) for each in replies]
    return made or {"a made-up answer": ["I think it is 4."]}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _quoted(text: str) -> str:
    return f'"{_short(" ".join(visible(text).split()))}"'
