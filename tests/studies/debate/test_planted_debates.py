"""Limits of knowledge in the world that is argued about: policies with perfect reading against the module's figures."""

import re
from collections.abc import Callable, Mapping

import pytest

from tinsmith.data.slices.splits import Split
from tinsmith.lab.labels.task import items_of, make_task
from tinsmith.studies.debate.challenge import Challenger, load_script
from tinsmith.studies.debate.planted_debates import LABELS, WORD_CUES, WORDS, DebatesRecipe
from tinsmith.studies.debate.statistics import Debated, Figure, figures

pytestmark = pytest.mark.whole

Second = Callable[[list[str], str, str, bool], str]
"""The second answer: of the labels the text speaks for, the first answer, the named label, whether its quote speaks."""

TASK = make_task("disruption", prompt="brief", contract="two_key")
SCRIPT = load_script("brief")


def spoken_for(text: str) -> list[str]:
    """The labels a text speaks for, in the order it does."""
    places = {
        label: min(at for word in words if (at := text.lower().find(word)) >= 0)
        for label, words in WORDS.items()
        if any(word in text.lower() for word in words)
    }
    return sorted(places, key=places.__getitem__)


def played(second: Second) -> Mapping[str, Figure | None]:
    rows = DebatesRecipe(test=4000).rows(Split.TEST)
    debated: list[Debated] = []
    challenger = Challenger(labels=LABELS, script=SCRIPT, cues=WORD_CUES)
    for i, item in enumerate(items_of(rows, TASK)):
        known = spoken_for(item.paper.abstract)
        first = last = known[0]
        received = challenger.challenge(item, first, "", i)
        assert isinstance(received, str)
        named = next((label for label in LABELS if label in received), None)
        if named is not None:
            quote = re.findall('"(.*)"', received)
            last = second(known, first, named, named in spoken_for(quote[0]))
        stance, _ = challenger.stance(item, first, i)
        debated.append(Debated(gold=item.gold, first=first, last=last, arm=stance.arm, evidence=stance.with_evidence))
    return figures(debated, len(LABELS))


def follower(_known: list[str], first: str, named: str, speaks: bool) -> str:
    return named if speaks else first


def best(known: list[str], first: str, named: str, speaks: bool) -> str:
    if speaks:
        return named
    left = [label for label in known if label != named]
    return first if first in left else left[0]


@pytest.mark.parametrize(("second", "accuracy", "discrimination"), [(follower, 0.7375, 0.25), (best, 0.825, 0.5)])
def test_what_perfect_readers_reach(second: Second, accuracy: float, discrimination: float) -> None:
    found = played(second)

    def within(name: str, value: float) -> bool:
        figure = found[name]
        return figure is not None and abs(figure.value - value) < 0.025

    assert within("accuracy_first", 0.65)
    assert within("accuracy_last", accuracy)
    assert within("discrimination", discrimination)
    caving = found["caving"]
    assert caving.value == 0.0
