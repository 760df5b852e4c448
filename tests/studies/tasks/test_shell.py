"""The small shell: what it answers, what a base is shown, what is paid, and what its control tells."""

from pathlib import Path
from random import Random

from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.lab.user_task.items import items_of_base, split_items
from tinsmith.studies.environment_loss.shell import (
    FILES,
    GET,
    HOME,
    MOST_REPLIES,
    NO,
    PLACES,
    Facts,
    answer,
    errands,
    found,
    other_worlds,
    places_of,
    shell,
    shown,
)

TRAIN = errands(0, Facts.TRUE, held_out=False)


def test_two_files_are_in_each_place_and_worlds_differ() -> None:
    where = places_of(0)
    assert sorted(where) == sorted(FILES)
    assert all(list(where.values()).count(place) == 2 for place in PLACES)
    assert where != places_of(1)


def test_every_file_is_wanted_in_training_and_beside_it() -> None:
    held = errands(0, Facts.TRUE, held_out=True)
    assert {one.file for one in TRAIN} == {one.file for one in held} == set(FILES)
    assert not {one.id for one in TRAIN} & {one.id for one in held}
    assert (len(TRAIN), len(held)) == (192, 48)


def test_the_shell_tells_the_truth() -> None:
    one = TRAIN[0]
    listed = answer(one, [f"ls {one.place}"])
    assert one.file in listed.split()
    assert answer(one, ["pwd"]) == HOME
    for words in (["history"], ["pwd", "history"], ["pwd", "pwd", "history"]):
        lines = answer(one, words)
        command, name, place = lines.split()
        assert (command, place) == (GET, places_of(0)[name])
    wrong = next(place for place in PLACES if place != one.place)
    assert answer(one, [f"{GET} {one.file} {wrong}"]) == NO
    for over in (f"{GET} {one.file} {one.place}", "ls nowhere", "cd attic", ""):
        assert answer(one, [over]) is None


def test_scrambled_answers_are_another_worlds_at_every_look() -> None:
    one = errands(0, Facts.SCRAMBLED, held_out=False)[0]
    messages = {answer(one, ["pwd"] * size + ["ls attic"]) for size in range(6)}
    assert len(messages) > 3
    assert answer(one, ["ls attic"]) == answer(one, ["ls attic"])
    assert found(one, [f"{GET} {one.file} {one.place}"])


def test_blanks_do_not_count() -> None:
    one = TRAIN[0]
    text = [f"{GET}  {one.file}  {one.place}"]
    assert found(one, text)
    assert answer(one, text) is None


def test_four_places_in_turn_find_a_third_of_the_files() -> None:
    task, held = shell(), errands(0, Facts.TRUE, held_out=True)
    in_turn = task.baselines["four places in turn"]
    scored = [score_group(task, one, [in_turn(one)])[0] for one in held]
    assert sum(one.total for one in scored if isinstance(one, Earned)) == len(held) * MOST_REPLIES / len(PLACES)


def test_only_the_file_that_is_wanted_is_paid() -> None:
    task, one = shell(), TRAIN[0]
    other = next(each for each in TRAIN if each.file != one.file)
    sentence = [["pwd", f"{GET} {one.file} {one.place}"], [f"{GET} {other.file} {other.place}"]]
    totals = [each.total for each in score_group(task, one, sentence) if isinstance(each, Earned)]
    assert totals == [1.0, 0.0]


def test_a_base_succeeds_now_and_then_and_knows_no_place(tmp_path: Path) -> None:
    read = other_worlds(1_000)
    ends = [found(one, shown(one, Random(number))) for number, one in enumerate(read)]
    assert 0.05 < sum(ends) / len(ends) < 0.25
    assert all(len(shown(one, Random(1))) <= MOST_REPLIES for one in read[:50])
    task = shell()
    split = split_items(task, tmp_path, 0)
    assert {one.item.world for one in split.train} == {0}
    assert 0 not in {one.item.world for one in items_of_base(task, tmp_path) or ()}
