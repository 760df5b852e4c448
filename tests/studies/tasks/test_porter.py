"""The task of `curriculum`: answers, verdicts, demonstrations, and a reward that changes after some steps."""

from collections import Counter
from random import Random

import pytest

from tinsmith.lab.user_task.step_reward import Conversation
from tinsmith.studies.curriculum import (
    DOORS,
    GUESTS,
    KNOWN,
    NEW,
    RIGHT,
    RIGHT_NEW,
    Staged,
    accepts,
    answer,
    attempt,
    demonstrate,
    door_of,
    end,
    porter,
    sound,
    verdict,
)

ITEM = {"id": "ann-hana", "guests": ["ann", "hana"]}


def test_three_guests_have_each_door() -> None:
    assert Counter(map(door_of, GUESTS)) == dict.fromkeys(DOORS, 3)
    assert answer(ITEM) == "ann A hana D"


@pytest.mark.parametrize(
    ("text", "fine", "coarse", "marks"),
    [
        ("ann A hana D", 1.0, 1.0, "ann A y hana D y"),
        ("ann B hana D", 0.0, 1.0, "ann B n hana D y"),
        ("ann A hana A", 0.0, 0.0, "ann A y hana A n"),
        ("D", 0.0, 0.0, ""),
    ],
)
def test_the_fine_reward_sees_every_door_and_the_coarse_one_the_last(
    text: str, fine: float, coarse: float, marks: str
) -> None:
    assert (sound(ITEM, text), end(ITEM, text)) == (fine, coarse)
    assert verdict(ITEM, text) == marks
    assert accepts(marks) == ("n" not in marks.split())


def test_demonstrations_are_as_often_right_as_is_said_and_verdicts_always() -> None:
    known, new = ({"id": guest, "guests": [guest]} for guest in ("ben", "ivo"))
    for one, share in ((known, RIGHT + (1 - RIGHT) / 4), (new, RIGHT_NEW)):
        found = [sound(one, attempt(one, Random(seed))) for seed in range(2000)]
        assert sum(found) / len(found) == pytest.approx(share, abs=0.03)
    for seed in range(200):
        replies = demonstrate(ITEM, Random(seed))
        for words, marks in zip(replies[::2], replies[1::2], strict=False):
            assert marks == verdict(ITEM, words)
        assert len(replies) in (2, 4, 5)


def test_the_controls_have_the_same_guests_and_answers_as_often_right_as_the_base_was_shown() -> None:
    plain, redrawn, as_base = porter(), porter(redrawn=True), porter(as_base=True)
    assert isinstance(redrawn.items, list)
    assert redrawn.items == plain.items[::-1] != plain.items
    assert (as_base.items, redrawn.held_out, as_base.held_out) == (plain.items, plain.held_out, plain.held_out)
    assert redrawn.answer is answer
    doors = [
        (guest, door)
        for item in plain.items
        for guest, door in zip(item["guests"], str(as_base.answer(item)).split()[1::2], strict=True)
    ]
    for guests, share in ((KNOWN, RIGHT + (1 - RIGHT) / 4), (NEW, RIGHT_NEW)):
        found = [door == door_of(guest) for guest, door in doors if guest in guests]
        assert sum(found) / len(found) == pytest.approx(share, abs=0.05)


def test_a_second_answer_keeps_what_was_right_before_the_first_wrong_door() -> None:
    for seed in range(200):
        replies = demonstrate(ITEM, Random(seed))
        if len(replies) > 2 and replies[0].startswith("ann A"):
            assert replies[2].startswith("ann A")


def test_a_staged_reward_pays_the_end_first_and_goes_on_from_its_state() -> None:
    one, requests = Staged(2), [Conversation(item=ITEM, replies=("ann B hana D",), text="ann B hana D")]
    assert [one(requests)[0].total for _ in range(3)] == [1.0, 1.0, 0.0]
    other = Staged(2)
    other.restore(one.state())
    assert other(requests)[0].total == 0.0
