"""A study in one file, `tinsmith run turned_words_study.py`: does an entropy bonus help to turn two words round?"""

from random import Random

from tinsmith import Arm, Expectation, PerItem, Size, Study, Table, Task, checks

TEXT = "apple bread cloud dance earth flame grass house juice knife lemon mouse night ocean piano queen"
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


def turn(base_steps: int = 300) -> Task:
    """Return pairs of words to turn round; its arguments are keys of the study.

    base_steps: How long the small base is trained.
    """
    return Task(
        items=[{"id": f"{a}-{b}", "first": a, "second": b} for a in WORDS for b in WORDS if a != b],
        held_out=0.25,
        prompt="Turn round: {first} {second}",
        reward=turned,
        demonstrate=shown,
        baselines={"left as it is": lambda item: f"{item['first']} {item['second']}"},
        base_steps=base_steps,
        keys={"max_tokens": 8},
    )


BOTH = PerItem("both", "both words", of=lambda some: float(min(some) == 1))
study = Study(
    name="turned_words",
    question="Does an entropy bonus help a model to turn two words round?",
    task=turn,
    arms=(
        Arm("plain", "RL"),
        Arm("bonus", "RL, entropy bonus", entropy_bonus=0.05),
        Arm("shuffled", "RL, shuffled labels", shuffle_labels=True),
    ),
    sizes={"nano": Size(learning_rate=2e-3, steps=20, eval_every=20, split_seed=0, save_every=0)},
    score=PerItem("reward", "words in place"),
    clusters=lambda item: item.split("-")[0],
    against="plain",
    control="shuffled",
    expectations=(Expectation("RL turns words", checks.rises("plain")),),
    tables=(Table("Both words", "Of held-out pairs.", (BOTH,)),),
)
