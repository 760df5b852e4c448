"""Items of a user's own task: a list, an iterator and a JSONL file are one and the same; what is no item is told."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.lab.user_task.items import UserSplit, split_items
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError, DataError, TinsmithError

SUMS = [{"a": a, "b": 2} for a in range(20)]
NAMED = [{"id": f"n{place}", **one} for place, one in enumerate(SUMS)]


def reward(item: Any, text: str) -> float:
    return float(text == str(item))


def task(items: Any, **changes: Any) -> Task:
    return Task(**{"items": items, "prompt": "{a} + {b}", "reward": reward, **changes})


def ids(split: UserSplit) -> tuple[set[str], set[str]]:
    return {one.prompt_id for one in split.train}, {one.prompt_id for one in split.held_out}


def test_a_list_an_iterator_and_a_jsonl_file_give_the_same_items(tmp_path: Path) -> None:
    def drawn() -> Iterator[dict[str, int]]:
        yield from SUMS

    text = "\n\n".join(json.dumps(one) for one in SUMS)
    (tmp_path / "sums.jsonl").write_text(text + "\n")
    forms = (SUMS, drawn(), "sums.jsonl", Path("sums.jsonl"), tmp_path / "sums.jsonl")
    splits = [split_items(task(form), tmp_path, 0) for form in forms]
    assert all(split == splits[0] for split in splits)
    assert len({split.sha256 for split in splits}) == 1
    assert (len(splits[0].train), len(splits[0].held_out)) == (16, 4)
    assert {one.prompt for one in splits[0].held_out} <= {f"{a} + 2" for a in range(20)}


def test_what_is_held_out_follows_from_the_names_and_the_seed_alone() -> None:
    split = split_items(task(NAMED), Path(), 0)
    assert ids(split_items(task(NAMED[::-1]), Path(), 0)) == ids(split)
    assert ids(split_items(task(NAMED), Path(), 1)) != ids(split)
    assert ids(split)[0].isdisjoint(ids(split)[1])


def test_a_task_says_itself_what_is_held_out(tmp_path: Path) -> None:
    by_item = split_items(task(NAMED, held_out=lambda item: item["a"] > 17), tmp_path, 0)
    assert ids(by_item)[1] == {"n18", "n19"}
    apart = split_items(task(NAMED[:5], held_out=NAMED[5:7]), tmp_path, 3)
    assert ids(apart)[1] == {"n5", "n6"}
    assert len(apart.train) == 5
    nothing = split_items(task(NAMED, held_out=0.0), tmp_path, 0)
    assert (len(nothing.train), nothing.held_out) == (20, ())
    with pytest.raises(DataError) as lines:
        split_items(task(NAMED, held_out=NAMED[2:4]), tmp_path, 0)
    assert (lines.value.field, lines.value.value) == ("held_out", "n2")


@pytest.mark.parametrize("field", ["held_out", "tested"])
def test_a_unit_that_stands_on_both_sides_is_refused(field: str) -> None:
    parts: dict[str, Any] = {"unit": lambda item: f"u{item['a'] // 2}", "held_out": 0.0, field: NAMED[5:7]}
    with pytest.raises(DataError) as refused:
        split_items(task(NAMED[:5], **parts), Path(), 0)
    assert (refused.value.field, refused.value.value) == (field, "u2")


def test_a_rule_that_holds_out_a_part_of_a_unit_is_refused() -> None:
    with pytest.raises(DataError, match="units"):
        split_items(
            task(NAMED, unit=lambda item: f"u{item['a'] // 2}", held_out=lambda item: item["a"] > 16), Path(), 0
        )


def test_an_item_that_comes_twice_is_kept_once_and_counted() -> None:
    split = split_items(task([*SUMS, *SUMS[:3]]), Path(), 0)
    assert (len(split.train) + len(split.held_out), split.repeated) == (20, 3)


@dataclass
class Sum:
    a: int
    b: int


def test_items_are_mappings_dataclasses_or_plain_values() -> None:
    of_class = split_items(task([Sum(1, 2), Sum(3, 4)], held_out=0.0), Path(), 0)
    assert [one.prompt for one in of_class.train] == ["1 + 2", "3 + 4"]
    plain = split_items(task(["x", "y"], prompt="Say {item}.", held_out=0.0), Path(), 0)
    assert [one.prompt for one in plain.train] == ["Say x.", "Say y."]
    named = split_items(task(NAMED, item_id=lambda item: item["a"] * 2, held_out=0.0), Path(), 0)
    assert [one.prompt_id for one in named.train][:3] == ["0", "2", "4"]


def test_a_prompt_is_a_text_or_messages() -> None:
    def asked(item: Any) -> list[dict[str, str]]:
        return [{"role": "system", "content": "Add."}, {"role": "user", "content": str(item["a"])}]

    split = split_items(task(SUMS, prompt=asked, held_out=0.0), Path(), 0)
    assert [one.role.value for one in split.train[0].messages] == ["system", "user"]
    assert "Add." in split.train[0].prompt


@pytest.mark.parametrize(
    ("make", "field", "words"),
    [
        (lambda: task("gone.jsonl"), "items", "gone.jsonl"),
        (lambda: task("torn.jsonl"), "items", "torn.jsonl, line 3"),
        (lambda: task({"a": 1}), "items", "dict"),
        (lambda: task(7), "items", "int"),
        (lambda: task([]), "items", "train"),
        (lambda: task([SUMS[0]], held_out=0.2), "held_out", "1 of 1 items are held out"),
        (lambda: task(itertools.count(), prompt="{item}"), "items", "islice"),
        (lambda: task([{"a": {1, 2}, "b": 1}]), "items[0] value.a", "set"),
        (lambda: task([{"a": 1}]), "prompt of items[0]", "{b}"),
        (lambda: task(SUMS, prompt=lambda item: item["c"]), "prompt of items[0]", "KeyError: 'c'"),
        (lambda: task(SUMS, prompt=lambda _item: 7), "prompt of items[0]", "7"),
        (lambda: task(SUMS, held_out=lambda item: item["c"]), "held_out", "KeyError: 'c'"),
        (lambda: task([{"id": "x", "a": 1, "b": 1}, {"id": "x", "a": 2, "b": 1}]), "items[1]", "x"),
        (lambda: task(1 / 0 for _ in range(2)), "items", "ZeroDivisionError"),
    ],
)
def test_items_that_cannot_be_had_are_told_by_place(
    make: Callable[[], Task], field: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "torn.jsonl").write_text('{"a": 1, "b": 2}\n\n{"a": 1,\n')
    with pytest.raises(DataError) as messages:
        split_items(make(), tmp_path, 0)
    assert messages.value.field == field
    assert words in str(messages.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reward": {}}, "reward"),
        ({"reward": {"Right": reward}}, "reward"),
        ({"reward": {"total": reward}}, "reward"),
        ({"reward": "right"}, "reward"),
        ({"reward": lambda _text: 1.0}, "reward"),
        ({"reward": {"right": 1}}, "reward right"),
        ({"metrics": {"words": 3}}, "reward words"),
        ({"parse": lambda: None}, "parse"),
        ({"reply": lambda _item: None}, "reply"),
        ({"held_out": 1.0}, "held_out"),
        ({"held_out": -0.1}, "held_out"),
        ({"max_turns": 0}, "max_turns"),
        ({"baselines": {"none": lambda: ""}}, "baselines 'none'"),
    ],
)
def test_a_part_that_cannot_be_what_it_is_is_refused_when_the_task_is_made(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as printed:
        task(SUMS, **changes)
    assert printed.value.field == field
    assert isinstance(printed.value, TinsmithError)


def test_a_share_that_is_held_out_has_whole_units(tmp_path: Path) -> None:
    made = task(NAMED, held_out=0.3, unit=lambda item: str(item["a"] // 2))
    for seed in range(4):
        split = split_items(made, tmp_path, seed)
        assert {one.unit for one in split.train}.isdisjoint(one.unit for one in split.held_out)
        assert len(split.held_out) == 6
    alone = split_items(task(NAMED), tmp_path, 0)
    assert all(one.unit == one.prompt_id for one in alone.train)


def test_a_unit_that_cannot_be_told_is_the_files_mistake(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        split_items(task(NAMED, unit=lambda item: item["none"]), tmp_path, 0)
    assert "unit" in str(caught.value.field)


def test_held_out_prompts_that_are_trained_on_too_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from tinsmith import Task\n"
        "items = [{'id': str(n), 'a': n % 3} for n in range(6)]\n"
        "task = Task(items=items[:3], held_out=items[3:5], prompt='{a}', reward=lambda item, text: 0.0)\n"
    )
    (line, *_) = data_of_task(plan_of(str(file), {})).before()
    assert "2 held out; 2 of these have a prompt that is trained on too" in line
