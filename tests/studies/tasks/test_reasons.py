"""The task of `template_collapse`: reasons earn nothing, and whether they stand in the prompt is measured."""

from collections import Counter
from random import Random

import pytest

from tinsmith.studies.template_collapse import (
    ITEMS,
    LETTERS,
    WORDS,
    answer,
    demonstrate,
    grounded,
    items,
    letter_of,
    prompt_of,
    right,
    template,
)


def test_items_are_all_different_and_the_same_every_time() -> None:
    found = items()
    assert len({one["id"] for one in found}) == len(found) == ITEMS
    assert found == items()
    assert all(len({one["a"], one["b"], one["c"]}) == 3 for one in found)


def test_every_letter_is_right_for_as_many_words() -> None:
    assert Counter(map(letter_of, WORDS)) == dict.fromkeys(LETTERS, 4)


def test_reasons_earn_nothing_and_are_measured() -> None:
    one = items()[0]
    letter = letter_of(one["a"])
    assert right(one, answer(one)) == grounded(one, answer(one)) == 1.0
    assert right(one, f"x y so {letter}") == 1.0
    assert grounded(one, f"x {one['b']} so {letter}") == 0.5
    assert grounded(one, letter) == right(one, letter) == 0.0
    assert right(one, f"{letter} so ") == 0.0
    for between in ("\nso ", " so  ", " so so ", " so x so "):
        words = f"{one['a']} {one['b']}{between}{letter}"
        assert (right(one, words), grounded(one, words)) == (1.0, 2 / len(words.split()[:-2]))
    assert right(one, f"{one['a']} also {letter}") == 0.0


def test_a_demonstration_names_words_of_the_prompt_and_is_right_five_times_of_eight() -> None:
    found = [(one, demonstrate(one, Random(place))) for place, one in enumerate(items() * 4)]
    assert all(grounded(one, text) == 1.0 for one, text in found)
    share = sum(right(one, text) for one, text in found) / len(found)
    assert share == pytest.approx(0.5 + 0.5 / 4, abs=0.03)


def test_the_baseline_is_one_answer_whatever_is_asked() -> None:
    assert len({template(one) for one in items()}) == 1
    assert all(one[place] in prompt_of(one) for one in items()[:9] for place in "abc")
