"""The handbook: what its lines mean, that the base may know all that is asked, and that no demonstration tells it."""

from collections import Counter
from random import Random

import pytest

from tinsmith.cli.registered import source_of
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.prompt_search.task import (
    BANK,
    BEST,
    DOORS,
    RIGHT,
    SIGNS,
    WAYS,
    WRITTEN,
    answer,
    answer_by,
    asked,
    done_under,
    door_of,
    held_out,
    items,
    kind_of,
    line_of,
    read_items,
    right,
    sorted_rightly,
)

EVERY = [sign for signs in SIGNS.values() for sign in signs]


def task() -> Task:
    source = source_of("handbook", {})
    assert source is not None
    return source.make({key.name: key.read(None) for key in source.keys})


def earned(lines: tuple[str, ...]) -> float:
    """Return what an answer that follows a handbook earns."""
    values = [right(item, done_under(lines, item["sign"], Random(place))) for place, item in enumerate(items() * 5)]
    return sum(values) / len(values)


def test_the_three_ways_lead_a_sign_to_three_doors() -> None:
    for sign in EVERY:
        assert len({door_of(sign, way) for way in WAYS[kind_of(sign)]}) == 3


def test_under_the_best_handbook_all_is_right_and_under_the_written_one_less_than_half_is() -> None:
    assert earned(BEST) == 1.0
    assert earned(()) == pytest.approx(1 / 3, abs=0.04)
    assert earned(WRITTEN) == pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 3) / 4, abs=0.05)


@pytest.mark.parametrize("apart", [False, True])
def test_no_letter_pays(apart: bool) -> None:
    doors = Counter(answer(item) for item in items() if held_out(item) is apart)
    assert set(doors) == set(DOORS)
    assert len(set(doors.values())) == 1


def test_it_says_which_way_was_taken() -> None:
    item = items()[0]
    by_way = [answer_by("oak", way) for way in WAYS["plant"]]
    assert [sorted_rightly(item, said) for said in by_way] == [0.0, 0.0, 1.0]
    assert [right(item, said) for said in by_way] == [0.0, 0.0, 1.0]
    assert right(item, answer(item)) == 1.0
    assert sorted_rightly(item, answer(item)) == 0.0


def test_where_two_lines_speak_of_a_kind_either_is_followed() -> None:
    both = (line_of("plant", "leaf"), line_of("plant", "bark"))
    said = {done_under(both, "oak", Random(seed)) for seed in range(40)}
    assert said == {answer_by("oak", "leaf"), answer_by("oak", "bark")}


def test_demonstrations_take_every_way_as_often() -> None:
    one = task()
    assert one.demonstrate is not None
    lines_read = [line for item in read_items() for line in item["lines"]]
    ways = [lines_read.count(line_of(kind, way)) for kind in WAYS for way in WAYS[kind]]
    assert max(ways) < 1.2 * min(ways)
    assert all(line_of(kind, way) in BANK for kind, way in RIGHT.items())


def test_signs_are_held_out_whole() -> None:
    apart = {item["sign"] for item in items() if held_out(item)}
    assert len(apart) == 8
    assert not apart & {item["sign"] for item in items() if not held_out(item)}


def test_a_prompt_begins_with_the_written_handbook_unless_an_item_has_its_own() -> None:
    one, item = task(), items()[0]
    assert callable(one.prompt)
    assert one.prompt(item) == asked(WRITTEN, item)
    assert one.prompt({**item, "lines": ["be kind"]}) == asked(["be kind"], item)
    assert one.answer is not None
    assert one.answer(item) == answer(item)
