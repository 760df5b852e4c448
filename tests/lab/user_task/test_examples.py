"""Filters of the items to train on by their demonstrations: limits, duplicates, conditions, and their record."""

from pathlib import Path
from typing import Any

import pytest
from own_task import lines, whole

from command_line import Run
from tinsmith import Examples, Task
from tinsmith.lab.runs.records import ExampleRecord, examples_summary
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.reward_check import filter_examples
from tinsmith.types.errors import ConfigError, DataError, TaskError

SAID = {"a": ["yes"], "b": ["ask 1", "yes"], "c": ["ask 1", "ask 2", "no"], "d": ["ask 1", "ask 2", "yes"]}


def task(examples: Examples | None, **fields: Any) -> Task:
    given: dict[str, Any] = {
        "items": [{"id": name, "about": name.upper()} for name in SAID],
        "prompt": "About {about}:",
        "reward": lambda _, text: float(text == "yes"),
        "answer": lambda item: SAID[item["id"]],
        "reply": lambda _, said: "none" if said[-1].startswith("ask") else None,
        "held_out": 0.0,
    }
    return Task(examples=examples, **{**given, **fields})


def left(examples: Examples, **fields: Any) -> list[ExampleRecord]:
    of = task(examples, **fields)
    return filter_examples(of, examples, split_items(of, Path(), 0).train)


def not_a(item: dict[str, str], said: object) -> bool:
    del said
    return item["id"] != "a"


def names(found: list[ExampleRecord]) -> str:
    return "".join(one.id for one in found if not one.left_out)


def test_limits_of_steps_and_calls_are_both_kept() -> None:
    assert names(left(Examples())) == "abcd"
    assert names(left(Examples(fewest_steps=2))) == "bcd"
    assert names(left(Examples(most_steps=2))) == "ab"
    assert names(left(Examples(fewest_calls=1, most_calls=1))) == "b"
    assert names(left(Examples(fewest_calls=2))) == names(left(Examples(fewest_steps=3))) == "cd"
    assert names(left(Examples(most_calls=1, call=lambda text: text == "ask 2"))) == "abcd"
    assert names(left(Examples(fewest_calls=1, call=lambda text: text == "ask 2"))) == "cd"


def test_of_what_asks_and_answers_the_same_the_first_one_stays() -> None:
    assert names(left(Examples(), prompt="About it:")) == "abcd", "their replies differ"
    alike = {"prompt": "About it:", "answer": lambda _: ["yes"]}
    assert names(left(Examples(), **alike)) == "a"
    assert names(left(Examples(keeps_duplicates=True), **alike)) == "abcd"
    assert names(left(Examples(), answer=lambda _: ["yes"])) == "abcd", "their prompts differ"
    assert names(left(Examples(where=not_a), **alike)) == "b"


def test_a_condition_sees_item_and_replies_and_its_fault_names_the_item() -> None:
    assert names(left(Examples(where=lambda _, said: said[-1] == "yes"))) == "abd"
    with pytest.raises(DataError, match="KeyError") as refused:
        left(Examples(where=lambda item, _: item["no"]))
    assert (refused.value.field, refused.value.value) == ("examples", "a")


def test_every_demonstration_is_recorded_with_its_hash_and_the_reason() -> None:
    found = left(Examples(most_calls=1, where=not_a))
    record = [(one.id, one.steps, one.calls, one.left_out) for one in found]
    assert record == [
        ("a", 1, 0, "by the condition"),
        ("b", 2, 1, ""),
        ("c", 3, 2, "with more than 1 calls"),
        ("d", 3, 2, "with more than 1 calls"),
    ]
    assert len({one.sha256 for one in found}) == 4
    assert found == left(Examples(most_calls=1, where=not_a)) != left(Examples(most_calls=1))
    summary = examples_summary(found)
    assert all(part in summary for part in ("1 of 4", "2.00 steps", "1.00 calls", "2 with more than 1 calls"))


def test_a_filter_that_nothing_passes_or_without_demonstrations_is_refused() -> None:
    with pytest.raises(DataError, match="no demonstration passes"):
        left(Examples(fewest_steps=9))
    with pytest.raises(TaskError, match="item a"):
        left(Examples(), answer=lambda _: [])
    for wrong in ({"fewest_calls": 3, "most_calls": 2}, {"most_steps": -1}):
        with pytest.raises(ConfigError, match="no demonstration passes"):
            Examples(**wrong)
    with pytest.raises(ConfigError) as refused:
        task(Examples(), answer=None)
    assert refused.value.field == "examples"
    with pytest.raises(ConfigError) as refused:
        task(Examples(where=lambda _: True))  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
    assert refused.value.field == "examples where"


TASK = """\
from tinsmith import Examples, Task

task = Task(
    items=[{"id": f"item-{n}", "n": n, "says": "ab"[n % 2]} for n in range(12)],
    prompt="Item {n}:",
    held_out=lambda item: item["n"] > 7,
    reward=lambda item, text: float(text == item["says"]),
    answer=lambda item: item["says"],
    examples=Examples(where=lambda item, said: said == ["a"]),
)
"""


@pytest.mark.usefixtures("place")
def test_a_run_trains_on_what_is_left_and_says_so_in_its_folder_and_on_its_page(run: Run, tmp_path: Path) -> None:
    keys = {"kind": "task_sft", "batch_size": "2", "log_path": "run"}
    assert "4 of 8 demonstrations" in run(without=("group_size", "groups_per_batch"), **keys, dry_run="true").out
    run(without=("group_size", "groups_per_batch"), **keys, code=0)
    record = whole(tmp_path / "run", "task.json")["examples"]
    assert [one["left_out"] for one in record] == ["", "by the condition"] * 4
    assert whole(tmp_path / "run", "config.json")["data"]["train"] == 4
    assert whole(tmp_path / "run", "manifest.json")["identity"]["data"]["examples"]
    assert all(one["train/learned_tokens"] > 0 for one in lines(tmp_path / "run", "metrics.jsonl")[:-1])
    assert "4 of 8 demonstrations" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
