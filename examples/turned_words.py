"""One turn, one reward: say two words the other way round."""

from random import Random

from tinsmith import Task

TEXT = (
    "apple bread cloud dance earth flame grass house juice knife lemon mouse night ocean "
    "piano queen river stone tower uncle voice water youth zebra"
)
WORDS = TEXT.split()


def turned(item: dict, text: str) -> float:
    """Earn half for each word in its place."""
    said = text.split()
    return (said[:1] == [item["second"]]) / 2 + (said[1:] == [item["first"]]) / 2


def shown(item: dict, random: Random) -> str:
    """Show the small base how answers look."""
    words = [item["first"], item["second"]]
    random.shuffle(words)
    return " ".join(words[: random.randint(1, 2)])


task = Task(
    question="Does the model learn to turn two words round?",
    items=[{"first": a, "second": b} for a in WORDS for b in WORDS if a != b],
    prompt="Turn round: {first} {second}",
    reward=turned,
    demonstrate=shown,
    baselines={"left as it is": lambda item: f"{item['first']} {item['second']}"},
    keys={"max_tokens": 8},
)
