"""One budget of adapter weights over one, three or seven agents that write one reply each and share the end's reward.

    tinsmith run coupled_agents [size=smallest] [key=value ...]
    tinsmith run errands nodes=3 lora_rank=7                      # its task alone

An item has two words; wanted is a reply with both in their order. The base was shown conversations in which each reply
repeats the one before or adds a word to it, whoever speaks: no reply adds two, two words that get a third are lost, and
nothing says who does what. Agents share the base and read all replies before their own; each has an adapter, trained on
its own replies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import fsum
from random import Random
from typing import Final

import tinsmith as ts
from tinsmith.engine.checkpoint_files import ADAPTER, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.runs.files import STATE
from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.checks import difference, higher, within
from tinsmith.lab.user_task.task import Task, Turns, of_conversation
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Item = Mapping[str, str]
WORDS: Final = (
    *("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer"),
    *("island", "jacket", "kettle", "ladder", "mirror", "needle", "orchard", "pillow"),
)
NONE, LOST, NEXT = "none", "lost", "next"
_HABITS: Final = (0.4, 0.3, 0.3)
"""Shares of demonstrations that repeat the reply before, add the first word, and the second."""
PAYS: Final = ("answer", "coin")
MOST: Final = 7


def items() -> list[Item]:
    """Return every two different words in both orders."""
    pairs = [(first, second) for first in WORDS for second in WORDS if first != second]
    return [{"id": f"{first}-{second}", "first": first, "second": second} for first, second in pairs]


def held_out(item: Item) -> bool:
    """True for one item in five."""
    return derive(0, "side", item["id"]) % 5 == 0


def added(before: str, word: str) -> str:
    """Return a reply that adds a word to the one before.

    >>> added("none", "anchor"), added("anchor", "basket"), added("anchor basket", "anchor")
    ('anchor', 'anchor basket', 'lost')
    """
    return word if before == NONE else LOST if before == LOST or " " in before else f"{before} {word}"


def right(item: Item, said: Sequence[str]) -> bool:
    """True where the last agent writes both words in their order."""
    return said[-1] == f"{item['first']} {item['second']}"


def coin(item: Item, said: Sequence[str]) -> bool:
    """Half of all conversations, chosen by their hash."""
    return sha256("\n".join([item["id"], *said]).encode()).digest()[0] % 2 == 0


def shown(item: Item, random: Random) -> list[str]:
    """Return one demonstration: as many replies as may be, each by habit."""
    said = list[str]()
    for _ in range(random.randint(1, MOST)):
        before = said[-1] if said else NONE
        word = random.choices(("", item["first"], item["second"]), _HABITS)[0]
        said.append(added(before, word) if word else before)
    return said


def agents_of(nodes: str) -> dict[int, int]:
    """Return the number of agents from each step at which it changes.

    >>> agents_of("3,5@14,7@28")
    {0: 3, 14: 5, 28: 7}
    """
    if not re.fullmatch(r"\d+(,\d+@\d+)*", nodes):
        raise ConfigError("this is no number of agents", field="nodes", value=nodes, allowed="3, or 3,5@14,7@28")
    parts = [one.partition("@") for one in nodes.split(",")]
    return {int(step or 0): int(count) for count, _, step in parts}


def errands(nodes: str = "3", adapters: str = "each", pays: str = "answer", base_steps: int = 800) -> Task:
    """Return pairs of words, which several agents put together one after the other.

    nodes: Replies of a conversation, or how many from which step: 3,5@14,7@28.
    adapters: Whose they are: each (reply has an adapter of its own), or one (for all of them).
    pays: What is rewarded: answer (both words at the end), or coin (a control: chance, fixed by what was said).
    base_steps: Steps that the small base is trained.
    """
    for key, value, allowed in (("pays", pays, PAYS), ("adapters", adapters, ("each", "one"))):
        if value not in allowed:
            raise ConfigError("there is no such choice", field=key, value=value, allowed=allowed)
    by_step = agents_of(nodes)
    most, alone = max(by_step.values()), adapters == "one"
    return Task(
        name="errands",
        question="Do several agents on one base learn who adds which word?",
        items=items(),
        held_out=held_out,
        prompt="put together {first} and {second}",
        parse=lambda text: text.strip(),
        turns=Turns(reply=lambda _, __, ___: NEXT, most=most, agents=1 if alone else by_step),
        reward={"right": of_conversation(right if pays == "answer" else coin)},
        metrics={"right": of_conversation(right)},
        demonstrate=shown,
        base_steps=base_steps,
        baselines={"the words alone": lambda one: one["first"]},
        keys={"max_tokens": 4, "eval_items": 32},
    )


ONE, SHARED, THREE, SCRATCH, GROWN, COIN = "one", "shared", "three", "seven", "grown", "coin"
RIGHT = ts.PerItem("right", "right", "metric/right")
REPLIES: Final = "eval/replies"
MARGIN: Final = 0.05


def parameters(arm: ts.ArmRuns) -> int | None:
    """Return the number of trained parameters of all adapters at a run's end; None: they are not there."""
    found = {_parameters(one.run) for one in arm.reads}
    return found.pop() if len(found) == 1 else None


def _parameters(run: Run) -> int | None:
    chosen = None if run.manifest is None else run.manifest.selected
    if chosen is None or not (run.folder / STATE).is_dir():
        return None
    folders = [TinkerPath.parse(path).folder(run.folder / STATE) for path in chosen.final_path.split()]
    return sum(tensor.numel() for each in folders for tensor in read(each).tensors(ADAPTER).values())


def sampled(arm: ts.ArmRuns) -> float:
    """Return how many replies a run samples in training."""
    group, batch = arm.setting("group_size", 8), arm.setting("groups_per_batch", 8)
    return group * batch * fsum(arm.in_training("train/replies")) / len(arm.reads)


def equal(results: ts.Results) -> ts.Finding:
    """Expect as many trained parameters in every arm."""
    counts = {parameters(arm) for arm in results.arms.values()}
    shown = " or ".join(sorted("not known" if one is None else f"{one:,}" for one in counts))
    return ts.Finding(len(counts) == 1 and None not in counts, f"{shown} parameters")


def no_more_from_scratch(results: ts.Results) -> ts.Finding:
    """Expect that seven agents that begin together are not above one, but for a margin."""
    gap = results.gap(SCRATCH, ONE, RIGHT)
    return ts.Finding(gap.high is not None and gap.high <= MARGIN, difference(gap))


study = ts.Study(
    name="coupled_agents",
    title="A budget of adapters over several agents",
    question="Do several agents with small adapters do more than one agent with as many weights, if they are grown?",
    task=errands,
    # Adapters of ranks 21, 7 and 3: one, three and seven of them have as many weights.
    arms=(
        ts.Arm(ONE, "1 agent, 1 reply", nodes="1", lora_rank=21),
        ts.Arm(SHARED, "1 agent, 3 replies", nodes="3", adapters="one", lora_rank=21),
        ts.Arm(THREE, "3 agents", nodes="3", lora_rank=7),
        ts.Arm(SCRATCH, "7 agents from scratch", nodes="7", lora_rank=3),
        ts.Arm(GROWN, "3, then 5, then 7 agents", nodes={"smallest": "3,5@1,7@2", "nano": "3,5@14,7@28"}, lora_rank=3),
        ts.Arm(COIN, "3 agents, paid by chance", nodes="3", lora_rank=7, pays="coin"),
    ),
    keys={"save_every": 0},
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.002 steps=4 group_size=4 groups_per_batch=2 eval_every=4 eval_samples=1 base_steps=100 "
            "eval_items=9",
            seeds=[1],
        ),
        "nano": ts.Size(learning_rate=2e-3, steps=40, group_size=8, groups_per_batch=4, eval_every=20, eval_samples=2),
    },
    score=RIGHT,
    control=COIN,
    claims=(
        *(ts.Beats(name, ONE) for name in (THREE, SCRATCH, GROWN)),
        ts.Beats(THREE, SHARED),
        ts.Beats(GROWN, SCRATCH),
        ts.Learned(THREE, COIN),
        ts.Learned(GROWN, COIN),
    ),
    source="arXiv:2605.16757",
    expectations=(
        ts.Expectation("all arms train as many parameters", equal),
        ts.Expectation("three agents end above one", higher(THREE, ONE, RIGHT)),
        ts.Expectation("three agents end above one that writes as many replies", higher(THREE, SHARED, RIGHT)),
        ts.Expectation("seven that begin together end no higher than one (but for 5 points)", no_more_from_scratch),
        ts.Expectation("seven that are grown end above seven that begin together", higher(GROWN, SCRATCH, RIGHT)),
        ts.Expectation("pay by chance changes it by less than 0.1", within(COIN, 0.1)),
    ),
    tables=(
        ts.Table(
            "Weights and compute",
            "Parameters: of all adapters at the end, counted in the saved files; grown ones have fewer before. "
            "Replies: of a conversation at the end, and all that a run samples in training.",
            (
                ts.Measure("parameters", "trained|parameters", parameters, "d"),
                ts.Measure("replies", "replies|an answer", lambda arm: list(arm.per_run(REPLIES)), ".1f"),
                ts.Measure("sampled", "replies|in training", sampled, "d"),
            ),
            note="More agents take more replies at equal weights: one agent with three replies has as many of both as "
            "three agents.",
        ),
    ),
    pictures=(ts.BeforeAfter(), ts.over_steps("eval/metric/right", "right")),
    notes=(
        "Whoever writes one reply has to write both words at once, which the base was never shown: what one agent "
        "lacks here is a reply, and not weights.",
        "Agents that are added begin with an adapter that changes nothing, and write after those that were there.",
    ),
)
