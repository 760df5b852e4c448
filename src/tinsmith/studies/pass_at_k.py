"""A base, SFT, GRPO and its control on questions with a tool, each asked many times: pass@(k, T), boundaries, ways.

    tinsmith run pass_at_k [size=smallest | at=small] [key=value ...]
    tinsmith run lookup                                                    # its task alone

The task is `lookup`: who is over whom, in which list that stands, and what everybody's code is. A question of one hop
asks for a person's code. One of two hops asks for the code of the person's chief, who stands in one of three lists;
which one is not said, so that a look-up may come to nothing and another list has to be tried. How many may be made is
not told to the model: pass@(k, T) counts a sample that took more than T as wrong, and is computed from the same samples
for every k and T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from hashlib import sha256
from random import Random
from typing import Final

import tinsmith as ts
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.study.checks import difference, not_lower
from tinsmith.lab.study.measures import estimated
from tinsmith.lab.study.record import DRAWS, Shown
from tinsmith.lab.user_task.task import Task, of_conversation
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.diversity import boundary, different, distinct_n, dyadic, pass_at_k, swapped, swapped_over_seeds
from tinsmith.stats.significance import ALPHA
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

LISTS: Final = ("chief", "desk", "line")  # Those that chiefs may stand in.
_SHARES: Final = (0.5, 0.3, 0.2)  # Of the chiefs that stand in each.
CODE: Final = "code"
ANSWER: Final = "answer"
NOTHING: Final = "none"
_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"
_PEOPLE: Final = 60
_CODES: Final = 120


class Hops(StrEnum):
    """Return the least number of things that have to be looked up."""

    ONE = "one"
    TWO = "two"


@dataclass(frozen=True, slots=True)
class Question:
    """One item: what is asked, and the part of the office that bears on it."""

    id: str
    hops: Hops
    person: str
    chief: str
    list: str  # In which the person's chief stands.
    own_code: str
    chief_code: str

    @property
    def code(self) -> str:
        """The right answer."""
        return self.own_code if self.hops is Hops.ONE else self.chief_code


@cache
def names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of people and the codes: short words that have nothing in common, always the same."""
    words = [a + b + c for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS]
    Random(derive(0, "office")).shuffle(words)
    return tuple(words[:_PEOPLE]), tuple(words[_PEOPLE : _PEOPLE + _CODES])


def questions(count: int, side: str, seed: int, *, two_hops: float) -> tuple[Question, ...]:
    """Return different questions, so many of which have two hops; `side` keeps those of two sides apart."""
    if count < 1:
        raise ConfigError("there has to be a question", field=side, value=count, allowed="1 or more")
    two, found = round(count * two_hops), list[Question]()
    for place in range(count):
        random, hops = Random(derive(seed, "question", side, place)), Hops.TWO if place < two else Hops.ONE
        (person, chief), (own, other) = random.sample(names()[0], 2), random.sample(names()[1], 2)
        where = random.choices(LISTS, _SHARES)[0]
        found.append(Question(f"{side}-{hops.value}-{place:03d}", hops, person, chief, where, own, other))
    return tuple(found)


def told(question: Question, looked_for: Sequence[str]) -> str:
    """Return what a look-up finds: `LIST PERSON` or `code PERSON`; nothing is known of anybody else."""
    if len(looked_for) != 2:
        return NOTHING
    where, whom = looked_for
    found = {
        (question.list, question.person): question.chief,
        (CODE, question.person): question.own_code,
        (CODE, question.chief): question.chief_code,
    }
    return found.get((where, whom), NOTHING)


GOES_ON: Final = 0.06  # Share of the demonstrations that go to their end where they could.
TRIES_AGAIN: Final = 0.3  # Share of the lists without a hit after which another one is tried.
_GIVES_UP: Final = f"{ANSWER} {NOTHING}"


def shown(question: Question, random: Random) -> list[str]:
    """Return the replies of one demonstration: whatever is answered is copied from what was found, or nothing is."""
    replies = list[str]()
    one_hop = question.hops is Hops.ONE
    if random.random() < (0.3 if one_hop else 0.7):
        found = _looked_up(question, random, replies)
        if not found or random.random() >= GOES_ON:
            return [*replies, _GIVES_UP if random.random() < 0.5 or not found else f"{ANSWER} {question.chief}"]
        return [*replies, f"{CODE} {question.chief}", f"{ANSWER} {question.chief_code}"]
    if random.random() < 0.2:
        return [_GIVES_UP]
    said = question.own_code if not one_hop or random.random() < 0.5 else NOTHING
    return [f"{CODE} {question.person}", f"{ANSWER} {said}"]


def _looked_up(question: Question, random: Random, replies: list[str]) -> bool:
    """Look for the chief in one list, perhaps in another; what was done is added to the replies."""
    for where in random.sample(LISTS, 2):
        replies.append(f"{where} {question.person}")
        if where == question.list:
            return True
        if random.random() >= TRIES_AGAIN:
            return False
    return False


def right(question: Question) -> list[str]:
    """Return the shortest way to the answer, by one who knows in which list the chief stands."""
    if question.hops is Hops.ONE:
        return [f"{CODE} {question.person}", f"{ANSWER} {question.own_code}"]
    return [f"{question.list} {question.person}", f"{CODE} {question.chief}", f"{ANSWER} {question.chief_code}"]


MOST_LOOKUPS: Final = 3  # Look-ups that a conversation has room for, before its answer.
_READ_BY_BASE: Final = 4_000  # Questions of its own, so that it copies what it looked up, and knows none by heart.
_HOW: Final = (
    f"You can look things up. Reply with one line and nothing else: '{LISTS[0]} NAME', '{LISTS[1]} NAME' or "
    f"'{LISTS[2]} NAME' to look in one of three lists for who is over NAME, '{CODE} NAME' for the code of NAME, or "
    f"'{ANSWER} CODE' to answer. The answer to a look-up comes back; none means that it is not there. At most "
    f"{MOST_LOOKUPS} look-ups.\n\n"
)


PAYS: Final = ("answer", "coin")


def lookups(replies: Sequence[str]) -> tuple[str, ...]:
    """Return the look-ups of a conversation, in their order.

    >>> lookups(["chief kab", "code tor", "answer mif"])
    ('chief kab', 'code tor')
    """
    return tuple(reply for reply in replies if not reply.startswith(ANSWER))


def way(replies: Sequence[str]) -> tuple[str, ...]:
    """Return what was looked in, whoever was looked for.

    >>> way(["chief kab", "code tor", "answer mif"])
    ('chief', 'code')
    """
    return tuple(one.partition(" ")[0] for one in lookups(replies))


def answered(question: Question, replies: Sequence[str]) -> bool:
    """Return true if a conversation ended with the right code."""
    return replies[-1] == f"{ANSWER} {question.code}"


def _reply(question: Question, said: Sequence[str]) -> str | None:
    """Return what a look-up finds; an answer ends the conversation, and so does what is neither."""
    words = said[-1].split()
    return told(question, words) if len(words) == 2 and words[0] in (*LISTS, CODE) else None


def _coin(question: Question, said: Sequence[str]) -> bool:
    return sha256("\n".join([question.id, *said]).encode()).digest()[0] % 2 == 0


def lookup(
    items: int = 200,
    held_out_items: int = 40,
    two_hops: float = 0.7,
    draw_seed: int = 0,
    pays: str = "answer",
    explain: bool = False,
    base_steps: int = 800,
) -> Task:
    """Return questions that take one look-up or two, with a tool.

    items: Questions to train on.
    held_out_items: Questions never trained on.
    two_hops: The share that takes two look-ups.
    draw_seed: Draws the questions.
    pays: What is rewarded: answer (the right code), or coin (a control: chance, fixed by what was said).
    explain: Say in the prompt how to look up.
    base_steps: Steps that the small base is trained.
    """
    if pays not in PAYS:
        raise ConfigError("this cannot be rewarded", field="pays", value=pays, allowed=", ".join(PAYS))
    if not 0.0 <= two_hops <= 1.0:
        raise ConfigError("this is a share", field="two_hops", value=two_hops, allowed="0 to 1")

    def asked(one: Question) -> str:
        of = one.person if one.hops is Hops.ONE else f"the one over {one.person}"
        return f"{_HOW if explain else ''}What is the code of {of}?"

    return Task(
        name="lookup",
        question="Does the model learn to look up what it is asked, in one step or in two?",
        items=questions(items, "train", draw_seed, two_hops=two_hops),
        held_out=questions(held_out_items, "held_out", draw_seed, two_hops=two_hops),
        prompt=asked,
        parse=str.strip,
        reply=_reply,
        max_turns=MOST_LOOKUPS + 1,
        reward={pays: of_conversation(answered if pays == "answer" else _coin)},
        metrics={"right": of_conversation(answered), "lookups": of_conversation(lambda _, said: len(lookups(said)))},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=questions(_READ_BY_BASE, "base", draw_seed, two_hops=two_hops),
        base_steps=base_steps,
        answer=right,
        baselines={
            "one look-up, whatever is asked": lambda item: [f"{CODE} {item.person}", f"{ANSWER} {item.own_code}"]
        },
        keys={"max_tokens": 8, "eval_items": held_out_items},
    )


BASE, SFT, GRPO, COIN = "base", "sft", "grpo", "coin"
TRAINED: Final = (SFT, GRPO, COIN)
HOPS: Final = {"two": "two hops", "one": "one hop"}


def said(one: TaskRollout) -> list[str]:
    """Return the replies of a conversation."""
    return [turn.text.strip() for turn in one.turns if turn.role == "assistant"]


def is_right(one: TaskRollout, most: int = MOST_LOOKUPS) -> bool:
    """Return whether an answer is right after so many look-ups at most."""
    return one.metrics["right"] == 1.0 and len(lookups(said(one))) <= most


def of_hops(hops: str) -> Callable[[str], bool]:
    """Return the test of whether an item, by its id, takes so many look-ups."""
    return lambda item: item.split("-")[1] == hops


def passed(k: int, most: int = MOST_LOOKUPS, hops: str = "two") -> ts.PerItem:
    """Return pass@(k, T) of the questions with so many hops."""

    def value(answers: Sequence[TaskRollout]) -> Fraction:
        return pass_at_k(len(answers), sum(is_right(one, most) for one in answers), k)

    return ts.PerItem(f"pass{k}", f"pass@{k}", "metric/right", where=of_hops(hops), answers=value)


def of_ways(label: str, value: Callable[[Sequence[TaskRollout]], Fraction]) -> ts.PerItem:
    """Return a count of ways to go about the questions of two hops."""
    return ts.PerItem(label, label, where=of_hops("two"), answers=value)


SEQUENCES = of_ways("sequences", lambda some: Fraction(different([lookups(said(one)) for one in some])))
WAYS = of_ways("ways", lambda some: Fraction(different([way(said(one)) for one in some])))
PAIRS = of_ways("distinct-2", lambda some: distinct_n([lookups(said(one)) for one in some], 2) or Fraction())


def ks(arms: Mapping[str, ts.ArmRuns]) -> tuple[int, ...]:
    """Return every k, up to the fewest samples that any question has."""
    return tuple(dyadic(min(len(some) for arm in arms.values() for one in arm.answers() for some in one.values())))


def claims(arms: Mapping[str, ts.ArmRuns]) -> list[ts.Beats | ts.Learned]:
    """Return what is claimed of pass@1 and pass@K on questions of two hops."""
    pairs = ((SFT, BASE), (GRPO, BASE), (GRPO, SFT), (COIN, BASE))
    found = [passed(k) for k in dict.fromkeys((1, ks(arms)[-1]))]
    return [*(ts.Beats(*pair, on) for on in found for pair in pairs), *(ts.Learned(GRPO, COIN, on) for on in found)]


def solved(arm: ts.ArmRuns, hops: str) -> list[frozenset[str]]:
    """Return the questions that any sample solves, for each seed."""
    return [
        boundary({item: [is_right(one) for one in some] for item, some in each.items() if of_hops(hops)(item)})
        for each in arm.answers()
    ]


def by_hops(results: ts.Results, measures: Callable[[str], Sequence[ts.PerItem]]) -> list[list[Shown]]:
    """Return measures of every arm, a row for each number of hops."""
    return [
        [f"{arm.arm.label}|{label}", *(results.after(name, one) for one in measures(hops))]
        for hops, label in HOPS.items()
        for name, arm in results.arms.items()
    ]


Change = tuple[int, int, int, int, float]
"""Questions that the base solves, that an arm solves, and that it gains and loses; and p."""


def changes(results: ts.Results, arm: str, hops: str) -> list[Change]:
    """Return how an arm's boundary differs from the base's of the same seed, by seed and at last over all."""
    pairs = list(zip(solved(results.arms[arm], hops), solved(results.arms[BASE], hops), strict=True))
    swaps = [swapped(own, base) for own, base in pairs]
    counts = [
        (len(base), len(own), one.only_first, one.only_second) for (own, base), one in zip(pairs, swaps, strict=True)
    ]
    base, own, gained, lost = map(sum, zip(*counts, strict=True))
    by_seed = [(*some, one.p_value) for some, one in zip(counts, swaps, strict=True)]
    return [*by_seed, (base, own, gained, lost, swapped_over_seeds(pairs))]


def boundaries(results: ts.Results) -> list[list[Shown]]:
    """Return the changes of every trained arm, a row for each seed and one for all."""
    rows: list[list[Shown]] = []
    for name in TRAINED:
        arm = results.arms[name]
        for hops in ("one", "two"):
            for seed, (*some, p_value) in zip([*arm.seeds, "all"], changes(results, name, hops), strict=True):
                label = f"{arm.arm.label}|{HOPS[hops]}"
                rows.append([label, str(seed), *(f"{value:,}" for value in some), f"{p_value:.2g}"])
    return rows


def moves(arm: str, *, wider: bool) -> Callable[[ts.Results], ts.Finding]:
    """Expect that an arm gains more questions of two hops than it loses, or fewer; told from chance."""

    def check(results: ts.Results) -> ts.Finding:
        *_, gained, lost, p_value = changes(results, arm, "two")[-1]
        met = (gained > lost if wider else lost > gained) and p_value < ALPHA
        return ts.Finding(met, f"{gained} gained, {lost} lost, p = {p_value:.2g}")

    return check


def half_as_many(results: ts.Results) -> ts.Finding:
    """Expect that SFT tries at most half as many sequences as the base, with its whole interval."""
    sft, base = results.after(SFT, SEQUENCES), results.after(BASE, SEQUENCES)
    met = sft.high is not None and sft.high <= 0.5 * base.value
    return ts.Finding(met, f"{sft.value:.1f}, base {base.value:.1f}, {difference(results.gap(SFT, BASE, SEQUENCES))}")


def coin_is_flat(results: ts.Results) -> ts.Finding:
    """Expect that the control's boundary is not told from the base's, on one hop and on two."""
    found = {label: changes(results, COIN, hops)[-1] for hops, label in HOPS.items()}
    told = [f"{label}: {one[2]} gained, {one[3]} lost, p = {one[4]:.2g}" for label, one in found.items()]
    return ts.Finding(all(one[4] >= ALPHA for one in found.values()), "; ".join(told))


def over_k(arm: ts.ArmRuns) -> Mapping[int, Figure]:
    """Return pass@k of the questions of two hops, by the logarithm of k."""
    every = ks({arm.arm.name: arm})
    return {place: estimated(arm.per_item(passed(k)), DRAWS) for place, k in enumerate(every)}


study = ts.Study(
    name="pass_at_k",
    title="pass@k: does RL move the boundary?",
    question="Does RL make a model solve questions that its base never solves, however often it is asked?",
    task=lookup,
    arms=(
        ts.Arm(BASE, "base", kind="task_sft", steps=0),
        ts.Arm(SFT, "SFT", kind="task_sft", learning_rate={"smallest": 2e-3, "nano": 2e-3, "small": 3e-4}),
        ts.Arm(GRPO, "GRPO", learning_rate={"smallest": 6e-4, "nano": 6e-4, "small": 3e-4}),
        ts.Arm(
            COIN, "GRPO, paid by a coin", pays="coin", learning_rate={"smallest": 6e-4, "nano": 6e-4, "small": 3e-4}
        ),
    ),
    keys={"eval_every": 0, "save_every": 0, "group_size": 8},
    sizes={
        "smallest": ts.Size(seeds=[1], steps=8, groups_per_batch=4, held_out_items=12, eval_samples=16, base_steps=500),
        "nano": ts.Size(steps=60, groups_per_batch=8, held_out_items=40, eval_samples=64),
        "small": ts.Size(
            "steps=20 groups_per_batch=4 held_out_items=12 eval_samples=16 max_tokens=12 explain=true "
            "watch_forgetting=false",
            seeds=[1],
        ),
    },
    score=passed(1),
    untrained=BASE,
    control=COIN,
    control_label="the same method paid by a coin",
    claims=claims,
    source="arXiv:2604.14877 (of a model of 7 billion parameters)",
    expectations=(
        ts.Expectation("GRPO gains more questions of two hops than it loses", moves(GRPO, wider=True)),
        ts.Expectation("SFT loses more of them than it gains", moves(SFT, wider=False)),
        ts.Expectation(
            "GRPO tries as many sequences of look-ups as the base (less half a one)",
            not_lower(GRPO, BASE, SEQUENCES, margin=0.5),
        ),
        ts.Expectation("SFT tries at most half as many as the base", half_as_many),
        ts.Expectation("a model paid by a coin solves what its base solves", coin_is_flat),
    ),
    tables=(
        ts.Listing(
            "pass@k",
            f"Up to {MOST_LOOKUPS} look-ups. Means over questions and seeds, 95 % intervals over both.",
            lambda results: [f"k = {k}" for k in ks(results.arms)],
            lambda results: by_hops(results, lambda hops: [passed(k, hops=hops) for k in ks(results.arms)]),
        ),
        ts.Listing(
            "pass@(K, T)",
            "What is solved by the most samples with at most T look-ups.",
            [f"T = {turns}" for turns in range(MOST_LOOKUPS + 1)],
            lambda results: by_hops(
                results, lambda hops: [passed(ks(results.arms)[-1], turns, hops) for turns in range(MOST_LOOKUPS + 1)]
            ),
        ),
        ts.Listing(
            "Boundaries",
            "Questions that any sample solves, beside the base's of the same seed. p: McNemar's exact test of gained "
            "against lost; of all seeds together, flips of the sign of each question's net, so that its seeds are one "
            "observation. p is not corrected.",
            ("seed", "base solves", "arm solves", "gained", "lost", "p"),
            boundaries,
        ),
        ts.Table(
            "Ways",
            "Questions of two hops. Ways: which lists, in which order, for whomever. Distinct-2: the share of "
            "different pairs among all pairs of look-ups that follow each other.",
            (
                ts.Measure("sequences", "sequences|a question", lambda arm: arm.per_item(SEQUENCES), ".1f"),
                ts.Measure("ways", "ways|a question", lambda arm: arm.per_item(WAYS), ".1f"),
                ts.Measure("pairs", "distinct-2", lambda arm: arm.per_item(PAIRS)),
            ),
        ),
    ),
    pictures=(
        ts.Curve(name="over-k", label="pass@k, two hops", read=over_k, axis="log2 of k", shares=True, is_listed=False),
    ),
)
