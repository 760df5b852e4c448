"""Which items a run trains on and is evaluated on: a validation part, shuffled answers, and whole pairs."""

from pathlib import Path
from typing import Any

import pytest

from tinsmith import Task
from tinsmith.lab.user_task.items import Examined, UserItem, UserSplit, chosen_items, split_items
from tinsmith.types.errors import ConfigError

PAIRS = [
    {"id": f"{pair}-{order}", "pair": pair, "order": order, "answer": f"{pair} {order}"}
    for pair in range(10)
    for order in ("ab", "ba")
]
ALONE = [{"id": f"alone-{number}", "answer": number} for number in range(3)]
HELD = [{"id": "held-1", "answer": 0}, {"id": "held-2", "answer": 1}]


def task(**changed: Any) -> Task:
    values: dict[str, Any] = {
        "items": [*PAIRS, *ALONE],
        "held_out": HELD,
        "prompt": "{id}",
        "unit": lambda item: str(item.get("pair", item["id"])),
        "reward": lambda item, text: text == item["answer"],
    }
    return Task(**values | changed)


def chosen(
    examined: Examined = Examined.HELD_OUT, seed: int = 0, *, shuffled: bool = False
) -> tuple[UserSplit, UserSplit]:
    one = task()
    split = split_items(one, Path(), 0)
    return split, chosen_items(one, split, examined=examined, shuffle_labels=shuffled, seed=seed)


def _nothing(item: object, replies: object) -> None:
    del item, replies


def ids(items: tuple[UserItem, ...]) -> set[str]:
    return {one.prompt_id for one in items}


def test_what_is_held_out_stays_as_it_is() -> None:
    split, found = chosen()
    assert found is split
    assert ids(found.held_out) == {"held-1", "held-2"}


def test_a_validation_part_is_of_whole_pairs_and_of_the_training_items_alone() -> None:
    split, found = chosen(Examined.VALIDATION)
    assert ids(found.train) | ids(found.held_out) == ids(split.train)
    assert not ids(found.train) & ids(found.held_out)
    pairs = [{one.unit for one in side} for side in (found.train, found.held_out)]
    assert not pairs[0] & pairs[1]
    # A fifth of ten pairs and three single items.
    clusters = {one.unit for one in found.held_out}
    assert len(clusters) == 3
    assert chosen(Examined.VALIDATION)[1] == found
    assert ids(chosen(Examined.VALIDATION, seed=1)[1].held_out) != ids(found.held_out)


def test_shuffled_items_keep_their_prompts_and_have_others_answers() -> None:
    split, found = chosen(shuffled=True)
    assert [(one.prompt_id, one.messages) for one in found.train] == [
        (one.prompt_id, one.messages) for one in split.train
    ]
    before = {one.prompt_id: one.item for one in split.train}
    after = {one.prompt_id: one.item for one in found.train}
    assert all(after[name] != before[name] for name in before)
    assert sorted(one["id"] for one in after.values()) == sorted(before)
    for pair in range(10):
        both = [after[f"{pair}-{order}"] for order in ("ab", "ba")]
        assert both[0]["pair"] == both[1]["pair"] != pair
        assert [one["order"] for one in both] == ["ab", "ba"]
    assert found.held_out == split.held_out
    assert found.sha256 != split.sha256


def test_a_control_without_held_out_items_is_evaluated_by_the_items_own_answers() -> None:
    one = task(items=PAIRS, held_out=0)
    split = split_items(one, Path(), 0)
    shuffled = chosen_items(one, split, examined=Examined.HELD_OUT, shuffle_labels=True, seed=0)
    assert shuffled.held_out == split.train
    assert shuffled.train != split.train


def test_too_few_items_and_conversations_are_refused() -> None:
    one = task(items=[{"id": "only", "answer": 0}])
    split = split_items(one, Path(), 0)
    for changed, field in (
        ({"examined": Examined.VALIDATION, "shuffle_labels": False}, "examined"),
        ({"examined": Examined.HELD_OUT, "shuffle_labels": True}, "shuffle_labels"),
    ):
        with pytest.raises(ConfigError) as caught:
            chosen_items(one, split, seed=0, **changed)  # pyright: ignore[reportArgumentType]
        assert caught.value.field == field
    talk = task(reply=_nothing)
    whole = UserSplit(train=split_items(talk, Path(), 0).train, held_out=(), repeated=0)
    with pytest.raises(ConfigError) as caught:
        chosen_items(talk, whole, examined=Examined.HELD_OUT, shuffle_labels=True, seed=0)
    assert caught.value.field == "shuffle_labels"
