"""The task of `dead_groups`: both bases are right a quarter of the time, and only one of them fails at random."""

from collections import Counter
from random import Random

import pytest

from tinsmith.studies.dead_groups import DOORS, ITEMS, SIGNS, door_of, right, sandbagger, wrong_door


def shown(fails: str) -> dict[str, Counter[str]]:
    one = sandbagger(fails=fails)
    found: dict[str, Counter[str]] = {sign: Counter() for sign in SIGNS}
    for place, item in enumerate(ITEMS):
        for draw in range(20):
            words = one.demonstrate(item, Random(20 * place + draw))
            found[item["sign"]][str(words)] += 1
    return found


def test_every_door_is_right_for_as_many_signs_and_a_wrong_one_is_never_the_right_one() -> None:
    assert Counter(map(door_of, SIGNS)) == dict.fromkeys(DOORS, 4)
    assert all(door_of(sign) != wrong_door(sign) for sign in SIGNS)


def test_the_base_that_always_fails_names_one_door_for_each_sign() -> None:
    found = shown("always")
    assert all(len(text) == 1 for text in found.values())
    assert sum(door_of(sign) in text for sign, text in found.items()) == len(SIGNS) // 4


def test_the_base_that_fails_by_chance_is_right_a_quarter_of_the_time_at_every_sign() -> None:
    for sign, answer in shown("chance").items():
        assert answer[door_of(sign)] / answer.total() == pytest.approx(0.25, abs=0.06)


def test_an_answer_is_right_for_its_sign_whatever_the_notes() -> None:
    one = ITEMS[0]
    assert right(one, f" {door_of(one['sign'])}\n") == 1.0
    assert right(one, "door A") == 0.0
    assert callable(prompt := sandbagger().prompt)
    assert one["notes"] in str(prompt(one))


def test_it_names_its_options_and_its_right_answers_unless_it_is_locked() -> None:
    one = ITEMS[-1]
    free, locked = sandbagger(), sandbagger(locked=True)
    assert free.options(one) == DOORS
    assert free.answer(one) == door_of(one["sign"])
    assert locked.answer(one) == wrong_door(one["sign"])
