"""What may be asked of pairs of papers: the keys of the task, and their values as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError

Choice = TypeVar("Choice", bound=StrEnum)


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
    """Which pairs are made of a corpus, and how they are split by time.

    Raises:
        ConfigError: a value that is out of range.
    """

    match: Match = Match.MONTH
    window: int = 3
    """Calendar years after that of publication whose citations count; see `rated_papers` for that year itself."""
    thirds: bool = True
    gap: int = 3
    text: Text = Text.TITLE
    train_before: int = 0
    test_from: int = 0
    test_before: int = 0
    """Years; 0: see `Years`."""
    pairs: int = 10_000
    validation_pairs: int = 200
    test_pairs: int = 2_000
    """Most pairs of each side; a pair is two items, one for each order."""
    draw_seed: int = 0
    length: Length = Length.ANY
    preference: Preference = Preference.CITED

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
                raise ConfigError(
                    "the years are not in order: training, then the test",
                    field=key,
                    value=first,
                    allowed=f"0, or a year not after {later} = {second}",
                )


def pair_keys() -> tuple[OwnKey, ...]:
    """Return the keys that say which pairs there are, with their defaults."""
    usual = PairSettings()
    told: tuple[tuple[str, Value, str], ...] = (
        ("match", usual.match.value, "What a pair has in common: month, or year_field."),
        ("window", usual.window, "Calendar years after publication whose citations count."),
        ("thirds", usual.thirds, "The upper against the lower third of a matched group."),
        ("gap", usual.gap, "Least difference of citations."),
        ("text", usual.text.value, "What is shown: title, or abstract (title and abstract)."),
        ("train_before", usual.train_before, "Training ends before this year; 0: test_from."),
        ("test_from", usual.test_from, "The test begins; 0: two years before its end."),
        ("test_before", usual.test_before, "The test ends; 0: where windows are still closed."),
        ("pairs", usual.pairs, "Most pairs to train on; each is asked in both orders."),
        ("validation_pairs", usual.validation_pairs, "Most of the last stretch of training."),
        ("test_pairs", usual.test_pairs, "Most pairs of the later years."),
        ("draw_seed", usual.draw_seed, "Who meets whom, and which comes first, is drawn from it."),
        ("length", usual.length.value, "matched: both texts of a pair are equally long; or any."),
        ("preference", usual.preference.value, "shuffled: the right answer is drawn; or cited."),
    )
    return tuple(OwnKey(name=n, kind=type(value), default=value, words=w) for n, value, w in told)


def pair_settings(values: Mapping[str, Value]) -> PairSettings:
    """Return the settings that the values of `pair_keys` say.

    Raises:
        ConfigError: a value that is not allowed.
    """
    return PairSettings(
        match=one_of("match", Match, values),
        window=int(values["window"]),
        thirds=bool(values["thirds"]),
        gap=int(values["gap"]),
        text=one_of("text", Text, values),
        train_before=int(values["train_before"]),
        test_from=int(values["test_from"]),
        test_before=int(values["test_before"]),
        pairs=int(values["pairs"]),
        validation_pairs=int(values["validation_pairs"]),
        test_pairs=int(values["test_pairs"]),
        draw_seed=int(values["draw_seed"]),
        length=one_of("length", Length, values),
        preference=one_of("preference", Preference, values),
    )


def one_of(key: str, kind: type[Choice], values: Mapping[str, Value]) -> Choice:
    """Return the choice that a key's value names.

    Raises:
        ConfigError: there is no such choice.
    """
    try:
        return kind(str(values[key]))
    except ValueError:
        allowed = ", ".join(one.value for one in kind)
        raise ConfigError("there is no such choice", field=key, value=values[key], allowed=allowed) from None


LETTERS: Final = ("A", "B")
"""The first paper, and the second."""
