"""The task `countdown`: one right answer an item, both ways to answer, and what is called sound."""

from random import Random

import pytest

from tinsmith.studies.confidence.countdown import (
    EASY,
    HARD,
    SO,
    claimed,
    countdown,
    gold,
    is_held_out,
    items,
    options,
    prompt_of,
    read_items,
    right,
    searched,
    sound,
    split_of,
    totals,
    written,
)


def test_items_have_one_right_answer_and_are_the_same_every_time() -> None:
    found = items()
    assert found == items()
    for one in found:
        assert sum(totals(one["numbers"], each)[-1] == one["target"] for each in options(one)) == 1
        assert len(options(one)) == {EASY: 4, HARD: 8}[split_of(one["id"])]
        assert str(one["target"]) in prompt_of(one)


def test_a_quarter_of_either_split_is_held_out() -> None:
    for split in (EASY, HARD):
        mine = [is_held_out(one) for one in items() if split_of(one["id"]) == split]
        assert sum(mine) / len(mine) == pytest.approx(0.25, abs=0.02)


def test_the_base_reads_everything_but_what_is_held_out() -> None:
    read, held = read_items(), [one for one in items() if is_held_out(one)]
    assert not {one["id"] for one in read} & {one["id"] for one in held}
    assert {one["id"] for one in items()} <= {one["id"] for one in [*read, *held]}
    assert all(right(one, f"{SO}{gold(one)}") == 1.0 for one in read)


def test_what_is_wanted_stands_beside_what_a_try_comes_to() -> None:
    one = items()[1]
    tries = searched(one, Random(0)).rpartition(SO)[0].split(" no ")
    assert all(f" ? {one['target']}" in each for each in tries)
    assert sound(one, f"{written(one['numbers'], gold(one))} ? {one['target']}{SO}{gold(one)}") == 1.0


def test_only_the_signs_at_the_end_are_rewarded_and_sound_asks_that_they_are_shown() -> None:
    one = items()[1]
    other = next(each for each in options(one) if each != gold(one))
    bare = f"clearly{SO}{gold(one)}"
    assert (right(one, bare), sound(one, bare)) == (1.0, 0.0)
    shown = f"{written(one['numbers'], gold(one))}{SO}{gold(one)}"
    assert (right(one, shown), sound(one, shown)) == (1.0, 1.0)
    assert right(one, f"{written(one['numbers'], gold(one))}{SO}{other}") == 0.0
    assert right(one, gold(one)) == 0.0


@pytest.mark.parametrize("before", ["", "3 +5 8 ", "3 +5 8\n", "3 so + "])
def test_so_is_found_at_the_start_of_a_line_and_signs_are_read_one_by_one(before: str) -> None:
    one = items()[1]
    for signs in (gold(one), gold(one).replace(" ", ""), gold(one).replace(" ", "  ") + "\n"):
        assert right(one, f"{before}so {signs}") == 1.0
        assert right(one, f"{before}also {signs}") == 0.0
    shown = f"{written(one['numbers'], gold(one))}\nso {gold(one)}"
    assert sound(one, shown) == 1.0
    assert sound(one, f"so {gold(one)}") == 0.0


def test_trying_is_right_more_often_than_claiming() -> None:
    random = Random(0)
    hard = [one for one in items() if split_of(one["id"]) == HARD]
    tried = sum(right(one, searched(one, random)) for one in hard) / len(hard)
    words = sum(right(one, claimed(one, random)) for one in hard) / len(hard)
    assert tried == pytest.approx(0.5 + 0.5 / 4, abs=0.06)
    assert words == pytest.approx(1 / 8, abs=0.05)


def test_every_easy_item_is_found_by_trying() -> None:
    random = Random(1)
    easy = [one for one in items() if split_of(one["id"]) == EASY]
    assert all(right(one, searched(one, random)) == 1.0 for one in easy)


def test_baselines_answer_with_one_sign_and_by_the_targets_sign() -> None:
    plus, minus, by_target = countdown().baselines.values()
    for one in items()[:40]:
        first, *others = one["numbers"]
        only = {"+": first + sum(others) == one["target"], "-": first - sum(others) == one["target"]}
        assert (right(one, str(plus(one))), right(one, str(minus(one)))) == (float(only["+"]), float(only["-"]))
        assert right(one, str(by_target(one))) == float(only["+" if one["target"] > 0 else "-"])
