"""What may be asked of pairs of papers: the keys of the task, and their values as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from tinsmith.lab.experiment.key_text import one_of
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError


class Match(StrEnum):
    """What the two papers of a pair have in common."""

    MONTH = "month"
    YEAR_FIELD = "year_field"


class Text(StrEnum):
    """What is shown of a paper."""

    TITLE = "title"
    ABSTRACT = "abstract"


class Length(StrEnum):
    """Whether the two papers of a pair have texts of the same length."""

    ANY = "any"
    MATCHED = "matched"


class Preference(StrEnum):
    """What decides which paper is the right answer."""

    CITED = "cited"
    SHUFFLED = "shuffled"


class Answers(StrEnum):
    """The form of an answer."""

    LETTER = "letter"
    JSON = "json"


class Side(StrEnum):
    """The parts of the split by time."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """Which pairs are made of a corpus, and how they are split by time."""

    match: Match = Match.MONTH
    """Common to a pair: month, or year_field."""
    window: int = 3
    """Calendar years after publication whose citations count."""
    thirds: bool = True
    """The upper against the lower third of a matched group."""
    gap: int = 3
    """Least difference of citations."""
    text: Text = Text.TITLE
    """Shown text: title, or abstract (title and abstract)."""
    train_before: int = 0
    """Training ends before this year; 0: test_from."""
    test_from: int = 0
    """The test begins; 0: two years before its end."""
    test_before: int = 0
    """The test ends; 0: where windows are still closed."""
    pairs: int = 10_000
    """Most pairs to train on; each is asked in both orders."""
    validation_pairs: int = 200
    """Most of the last stretch of training."""
    test_pairs: int = 2_000
    """Most pairs of the later years."""
    draw_seed: int = 0
    """Seed of who meets whom, and which comes first."""
    length: Length = Length.ANY
    """matched: both texts of a pair are equally long; or any."""
    preference: Preference = Preference.CITED
    """shuffled: the right answer is drawn; or cited."""

    def __post_init__(self) -> None:
        least = {"window": 1, "gap": 1, "pairs": 1, "validation_pairs": 0, "test_pairs": 1}
        for key, lowest in least.items():
            if getattr(self, key) < lowest:
                raise ConfigError(
                    "this number is too small", field=key, value=getattr(self, key), allowed=f"{lowest} or more"
                )
        for key, later in (("train_before", "test_from"), ("test_from", "test_before")):
            first, second = getattr(self, key), getattr(self, later)
            if min(first, second) < 0 or (
                first and second and (first > second or (first == second and key == "test_from"))
            ):
                what = "the years are not in order: training, then the test"
                raise ConfigError(what, field=key, value=first, allowed=f"0, or a year not after {later} = {second}")


def pair_settings(**values: Value) -> PairSettings:
    """Return the settings whose choices are given as text."""
    choices: dict[str, type[StrEnum]] = {"match": Match, "text": Text, "length": Length, "preference": Preference}
    read = {key: one_of(key, choices[key], str(value)) for key, value in values.items() if key in choices}
    return PairSettings(**cast(Any, {**values, **read}))


LETTERS: Final = ("A", "B")
"""The first paper, and the second."""
