"""The small house: what actions bring, which checkpoints it has, what is paid, what a base is shown, and failures."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.lab.user_task.items import split_items
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.renderers.tokenizer import train_tokenizer
from tinsmith.studies.exploration.house import (
    DOORS,
    HELD_OUT,
    HOLDERS,
    MOST_REPLIES,
    USUAL,
    Kind,
    Visit,
    answer,
    coverage,
    found,
    house,
    kind_of,
    opened,
    repeated,
    shown,
    usual,
    visits,
)

ERRANDS, EXPLORES, RECOVERS = (visits(400, kind, "train") for kind in Kind)
HOUSE = Visit(
    id="explore-made-0000", kind=Kind.EXPLORE, holders=("bag", "box", "jar", "pot"), locked="south", key_in=""
)


def test_checkpoints_are_what_can_be_opened_and_follow_from_the_house() -> None:
    assert HOUSE.checkpoints == {"north", "bag", "east", "box", "west", "pot"}
    for one in (*ERRANDS[:50], *EXPLORES[:50], *RECOVERS[:50]):
        assert len(one.checkpoints) == 6
        assert one.locked not in one.checkpoints


def test_an_action_brings_what_is_there() -> None:
    assert answer(HOUSE, ["open north"]) == "bag"
    assert answer(HOUSE, ["open north", "open bag"]) == "empty"
    assert answer(HOUSE, ["open bag"]) == "no", "its door is closed"
    assert answer(HOUSE, ["open south"]) == "locked"
    assert answer(HOUSE, ["open south", "open jar"]) == "no"
    assert answer(replace(HOUSE, key_in="bag"), ["open north", "open bag"]) is None
    for over in ("stop", "jump", "", "open", "open north bag", "take bag"):
        assert answer(HOUSE, [over]) is None


def test_coverage_is_the_share_of_checkpoints_whatever_their_order_and_number_of_times() -> None:
    assert coverage(HOUSE, ["stop"]) == 0
    assert coverage(HOUSE, ["open north", "open north", "open bag"]) == Fraction(2, 6)
    assert coverage(HOUSE, ["open  north", "open bag "]) == Fraction(2, 6), "blanks do not count"
    assert coverage(HOUSE, ["open bag", "open north"]) == Fraction(1, 6), "it was closed then"
    every = [f"open {one}" for one in ("north", "bag", "east", "box", "west", "pot")]
    assert coverage(HOUSE, every) == 1
    assert len(every) == MOST_REPLIES, "a visit has room for all of it"
    assert opened(HOUSE, ["open south", "open jar", "north", "take bag"]) == frozenset()


def test_repeated_actions_are_counted_and_a_failed_one_is_among_those_of_before() -> None:
    assert repeated(HOUSE, ["open north", "open north", "stop"]) == Fraction(1, 3)
    one = RECOVERS[0]
    assert repeated(one, [f"open {one.locked}", "stop"]) == Fraction(1, 2)


def test_an_errand_mostly_ends_by_habit_and_never_does_after_a_failure() -> None:
    by_habit = sum(found(one, usual(one)) for one in ERRANDS) / len(ERRANDS)
    assert abs(by_habit - USUAL) < 0.06
    assert not any(found(one, usual(one)) for one in (*RECOVERS, *EXPLORES))
    assert all(one.locked == DOORS[0] for one in RECOVERS)
    assert not any(found(one, [f"open {one.key_in}"]) for one in ERRANDS), "its door is closed"


def test_a_baseline_that_reads_nothing_covers_three_quarters_of_a_visit() -> None:
    every_door = house().baselines["every door, then two holders"]
    for one in EXPLORES[:50]:
        assert coverage(one, every_door(one)) == Fraction(3 + sum(h in one.checkpoints for h in HOLDERS[:2]), 6)
    assert len({tuple(every_door(one)) for one in EXPLORES}) == 1
    held = visits(HELD_OUT, Kind.EXPLORE, "held")
    assert sum(coverage(one, every_door(one)) for one in held) / len(held) == Fraction(3, 4)


def test_every_errand_can_be_done_in_what_is_left_after_a_failure() -> None:
    for one in (*ERRANDS, *RECOVERS):
        way = [f"open {DOORS[one.holders.index(one.key_in)]}", f"open {one.key_in}"]
        assert found(one, way)
        assert len(one.failed) + len(way) <= MOST_REPLIES


def test_exploration_is_paid_by_coverage_and_its_control_by_a_number_that_tells_nothing() -> None:
    words = [["stop"], ["open north", "open bag"], ["open north", "open bag"]]
    paid = [one.total for one in score_group(house(), HOUSE, words) if isinstance(one, Earned)]
    assert paid == [0.0, pytest.approx(1 / 3), pytest.approx(1 / 3)]
    task, looks = house(pays="chance"), [["open north"], ["open north", "open bag"]]
    assert score_group(task, HOUSE, looks) == score_group(task, HOUSE, looks)
    more = 0
    for one in EXPLORES:
        first, second = DOORS.index(one.locked) == 0, 0
        ways = [["stop"], [f"open {DOORS[1 if first else second]}"]]
        low, high = (each.total for each in score_group(task, one, ways) if isinstance(each, Earned))
        more += high > low
    assert 0.4 < more / len(EXPLORES) < 0.6, "to look is paid no better than not to"
    errand = ERRANDS[0]
    same = [
        [one.total for one in score_group(each, errand, [usual(errand)]) if isinstance(one, Earned)]
        for each in (task, house())
    ]
    assert same[0] == same[1], "errands are paid alike"


def test_what_explores_is_aside_and_no_house_is_on_both_sides(tmp_path: Path) -> None:
    split = split_items(house(), tmp_path, 0)
    assert all(one.aside == (kind_of(one.prompt_id) is Kind.EXPLORE) for one in split.train)
    held = {kind: sum(kind_of(one.prompt_id) is kind for one in split.held_out) for kind in Kind}
    assert held == dict.fromkeys(Kind, HELD_OUT)
    assert not {one.prompt_id for one in split.train} & {one.prompt_id for one in split.held_out}


def test_a_failed_action_stands_in_the_prompt_as_one_of_the_models_own(tmp_path: Path) -> None:
    split = split_items(house(), tmp_path, 0)
    one = next(one for one in split.held_out if kind_of(one.prompt_id) is Kind.RECOVER)
    assert [message.role for message in one.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert [message.content for message in one.messages[1:]] == [f"open {one.item.locked}", "locked"]
    renderer = renderer_for(train_tokenizer([m.content for m in one.messages] * 9, 300))
    first, failed, received = one.messages
    begun = renderer.build_generation_prompt((first,))
    reply = renderer.build_supervised_example((first, failed))[0][len(begun) :]
    lived = (*begun, *renderer.extend((), tuple(reply), (Message(role=Role.USER, content=received.content),)))
    assert tuple(renderer.build_generation_prompt(one.messages)) == lived


def test_an_action_that_failed_before_is_one_of_those_there_are() -> None:
    reply, one = house().reply, RECOVERS[0]
    look = [f"open {DOORS[1]}"] * MOST_REPLIES
    assert reply(one, look[: MOST_REPLIES - 2]) is not None
    assert reply(one, look[: MOST_REPLIES - 1]) is None


def test_a_base_is_shown_errands_that_end_well_now_and_then_and_loops() -> None:
    ends = [found(one, shown(one, Random(number))) for number, one in enumerate(ERRANDS)]
    assert 0.1 < sum(ends) / len(ends) < 0.35
    looks = [(one, shown(one, Random(number))) for number, one in enumerate(EXPLORES)]
    assert all(len(text) <= MOST_REPLIES for _, text in looks)
    assert 0.2 < sum(coverage(*one) for one in looks) / len(looks) < 0.35
    assert sum(repeated(*one) for one in looks) / len(looks) > 0.15
    assert shown(EXPLORES[0], Random(1)) == shown(EXPLORES[0], Random(1))
