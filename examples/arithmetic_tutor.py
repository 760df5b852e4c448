"""Two turns, two reward terms: a tutor says of a wrong sum whether it is too small or too large."""

from collections.abc import Sequence
from random import Random

from tinsmith import Answered, Task, of_conversation


def number(text: str) -> int | None:
    """Read a reply; None where it is no number."""
    return int(text) if text.strip().isdecimal() else None


def tutor(item: dict, replies: Sequence[int | None]) -> str | None:
    """Say what the model is told after its first reply; None ends the conversation."""
    reply, total = replies[0], item["a"] + item["b"]
    if len(replies) == 2 or reply == total:
        return None
    return "Only a number." if reply is None else "Too small." if reply < total else "Too large."


def solved(item: dict, reply: int | None) -> float:
    """Earn 1 for the right sum in the last reply."""
    return float(reply == item["a"] + item["b"])


@of_conversation
def listened(item: dict, replies: Sequence[int | None]) -> float:
    """Earn a quarter for a first reply that is right, or a second one on the side that the tutor named."""
    first, last, total = replies[0], replies[-1], item["a"] + item["b"]
    if first is None or last is None:
        return 0.0
    return 0.25 * (first == total or (last - first) * (total - first) > 0)


def shown(item: dict, random: Random) -> list[str]:
    """Show the small base what conversations look like: sums that are mostly near, and seldom right."""
    return [str(max(0, item["a"] + item["b"] + random.randint(-3, 3))) for _ in range(2)]


def at_once(answers: Sequence[Answered]) -> str:
    """Make a section of the page."""
    right = sum(len(one.replies) == 1 for one in answers)
    return f"{right} of {len(answers)} sums were right before the tutor had said anything."


def task(largest: int = 9) -> Task:
    """Return the task.

    largest: The larger of the two numbers is at most this.
    """
    pairs = [{"a": a, "b": b} for a in range(largest + 1) for b in range(largest + 1)]
    terms = {"solved": solved, "listened": listened}
    page = {"sections": {"Right at once": at_once}, "baselines": {"nine": lambda _: ["9", "9"]}}
    more = {"demonstrate": shown, "keys": {"max_tokens": 6}, **page}
    return Task(items=pairs, prompt="{a} + {b} =", parse=number, reply=tutor, reward=terms, **more)
