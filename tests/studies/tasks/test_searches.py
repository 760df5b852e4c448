"""Searches on shelves: what looks find, how long demonstrations are, and which of them each filter leaves."""

from collections import Counter, defaultdict
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.reward_check import filter_examples
from tinsmith.studies.patience import COLOURS, SHELVES, Search, demonstrated, right, searches, searches_for, seen, shown
from tinsmith.types.errors import ConfigError

TRAIN = searches_for(60, "train", SHELVES)
THING = Search("a", "kab", shelf=3, colour="red", patience=6)


def test_a_look_finds_the_colour_on_its_shelf_and_anything_else_ends_the_search() -> None:
    assert [seen(THING, [f"look {shelf}"]) for shelf in (1, 2, 3)] == ["none", "none", "red"]
    assert {seen(THING, [over]) for over in ("answer red", "look", "look 7", "look 0", "look 1 2", "")} == {None}


def test_every_thing_is_searched_for_with_every_patience_and_lies_on_every_shelf_alike() -> None:
    assert Counter(one.shelf for one in TRAIN) == dict.fromkeys(range(1, 7), 60)
    assert Counter(one.patience for one in TRAIN) == dict.fromkeys(range(1, 7), 60)
    assert len({one.thing for one in TRAIN}) == 60
    assert not {one.thing for one in TRAIN} & {one.thing for one in searches_for(360, "held_out", 1)}
    task = searches(things=360, held_out_things=360)
    assert task.held_out is not None
    things = [{one.thing for one in some} for some in (task.items, task.held_out, task.base_items)]
    assert [len(some) for some in things] == [360, 360, 2_000]
    assert len(set().union(*things)) == 2_720


@pytest.mark.parametrize(("side", "things"), [("train", 60), ("train", 360), ("base", 2_000)])
@pytest.mark.parametrize("held_out", [36, 360])
@pytest.mark.parametrize("letters", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_letters_of_names_tell_no_shelf(side: str, things: int, held_out: int, letters: list[int]) -> None:
    def part(one: Search) -> str:
        return "".join(one.thing[at] for at in letters)

    shelves: dict[str, Counter[int]] = defaultdict(Counter)
    for one in searches_for(things, side, 1):
        shelves[part(one)][one.shelf] += 1
    guesses = {some: counts.most_common(1)[0][0] for some, counts in shelves.items()}
    right_ones = fmean(guesses.get(part(one)) == one.shelf for one in searches_for(held_out, "held_out", 1))
    assert right_ones < 1 / SHELVES + 4 * sqrt(5 / 36 / held_out)


def test_no_colour_alone_is_right_more_often_than_the_baseline_that_answers_one() -> None:
    task = searches()
    assert isinstance(task.held_out, tuple)
    replies = task.baselines["the commonest colour"](task.held_out[0])
    shares = [fmean(right(one, [f"answer {colour}"]) for one in task.held_out) for colour in COLOURS]
    assert fmean(right(one, replies) for one in task.held_out) == max(shares)


def test_a_demonstration_ends_with_what_it_found_or_gives_up() -> None:
    for one in TRAIN:
        words = demonstrated(one)
        assert len(words) == min(one.shelf, one.patience) + 1
        assert right(one, words) == (one.patience >= one.shelf) == (seen(one, words[:-1]) == one.colour)
    circles = [demonstrated(one) for one in searches_for(6, "train", SHELVES, in_circles=True)]
    assert {reply for words in circles for reply in words[:-1]} == {"look 1"}


def test_a_demonstration_for_the_base_gives_up_after_every_other_miss() -> None:
    deep = [len(shown(Search("a", "kab", 6, "red", 6), Random(number))) - 1 for number in range(2_000)]
    assert fmean(deep) == pytest.approx(2 - 2**-5, abs=0.1)


@pytest.mark.parametrize(
    ("keys", "kept", "mean"),
    [
        ({}, 210, 56 / 21),
        ({"most_calls": 2}, 110, 16 / 11),
        ({"fewest_calls": 4}, 60, 28 / 6),
        ({"found": True}, 60, 3.5),
        ({"fewest_calls": 4, "in_circles": True}, 60, 28 / 6),
        ({"as_base": True}, 360, 1.672),
    ],
)
def test_a_filter_leaves_as_many_demonstrations_as_can_be_counted_by_hand(
    keys: dict[str, int], kept: int, mean: float
) -> None:
    task = searches(**keys)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert task.examples is not None
    found = filter_examples(task, task.examples, split_items(task, Path(), 0).train)
    calls = [one.calls for one in found if not one.left_out]
    assert (len(calls), fmean(calls)) == (kept, pytest.approx(mean, abs=0.06 if "as_base" in keys else None))


def test_too_few_things_for_the_shelves_or_too_many_for_the_names_are_refused() -> None:
    for wrong in ({"things": 5}, {"held_out_things": 361}):
        with pytest.raises(ConfigError, match="things"):
            searches(**wrong)
