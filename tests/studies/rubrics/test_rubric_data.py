"""Rubric data: every form is read to the same tasks, harmless damage is mended, the rest is located."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.studies.rubrics.dataset import Rubric, read_dataset, read_text, task_of
from tinsmith.types.errors import ConfigError, DataError

REAL = Path(__file__).parents[4] / "shared" / "data" / "rlvr" / "rlvr_tinker_test.jsonl"
WIDE = {
    "task_id": "a",
    "prompt": "Write a line.",
    "rubric - 10. criterion": "is long",
    "rubric - 2. criterion": "  is short ",
    "rubric - 3. criterion": "",
    "rubric - 4. criterion": None,
    "rubric - 2. weight": "0.5",
    "rubric - 2. ratingA": "Yes",
    "rubric - 2. necessity": {"level": 1},
    "responseA": "ignored",
}
LISTED = {"task_id": "b", "prompt": "Write two.", "rubrics": ["is short", "", "is long"]}


def test_the_wide_form_skips_gaps_and_empty_ones_and_keeps_what_else_is_said() -> None:
    task = task_of(WIDE)
    assert task.rubrics == (
        Rubric(criterion="is short", number=2, weight=0.5, extras=(("necessity", '{"level": 1}'), ("ratingA", "Yes"))),
        Rubric(criterion="is long", number=10),
    )


def test_a_raw_record_of_252_keys_over_many_lines_is_read() -> None:
    record: dict[str, object] = {"task_id": "raw", "prompt": "p", "responseA": "r", "responseB": "s"}
    for number in range(1, 63):
        text = f"criterion {number}" if number <= 16 else ""
        record[f"rubric - {number}. criterion"] = text
        record[f"rubric - {number}. ratingA"] = "Yes" if text else ""
        record[f"rubric - {number}. ratingB"] = "No" if text else ""
        record[f"rubric - {number}. necessity"] = "explicit" if text else None
    assert len(record) == 252
    raw = json.dumps(record, indent=2).replace("criterion 7", "a\tb\nc\x01")
    found = read_text(raw.encode(), "raw.json")
    assert found.control_characters == 3
    assert len(found.tasks[0].rubrics) == 16
    assert found.tasks[0].rubrics[6].criterion == "a\tb\nc\x01"
    assert dict(found.tasks[0].rubrics[0].extras)["ratingB"] == "No"


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.ndjson", "t.csv", "t.tsv", "t.parquet", "t.arrow"])
def test_every_kind_of_file_gives_the_same_tasks(tmp_path: Path, name: str) -> None:
    wide = {key: "" if value is None else value for key, value in WIDE.items()}
    wide["rubric - 2. necessity"] = "low"
    rows = [wide, {**wide, "task_id": "1", "prompt": "2", "rubric - 10. criterion": None}]
    path = tmp_path / name
    if name.endswith(".json"):
        path.write_text(json.dumps(rows, indent=1))
    elif name.endswith(("jsonl", "ndjson")):
        path.write_text("\ufeff" + "\r\n\r\n".join(map(json.dumps, rows)))
    else:
        table = pl.DataFrame(rows)
        match path.suffix:
            case ".csv":
                table.write_csv(path)
            case ".tsv":
                table.write_csv(path, separator="\t")
            case ".parquet":
                table.write_parquet(path)
            case _:
                table.write_ipc(path)
    found = read_dataset(path)
    plain = read_text(json.dumps(rows).encode(), "plain.json")
    assert found.tasks == plain.tasks
    assert found.sha256 == plain.sha256
    assert [task.task_id for task in found.tasks] == ["a", "1"]
    assert found.rubric_count == 3


def test_a_table_may_hold_the_list_form(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame([LISTED]).write_parquet(path)
    as_text = tmp_path / "t.csv"
    pl.DataFrame([{**LISTED, "rubrics": json.dumps(LISTED["rubrics"])}]).write_csv(as_text)
    assert read_dataset(path).tasks == read_dataset(as_text).tasks
    assert read_dataset(path).tasks[0].criteria == ("is short", "is long")


def test_rubrics_may_be_objects_and_ids_may_be_missing() -> None:
    objects = {"prompt": "p", "rubrics": [{"criterion": "c", "weight": 2}, {"criterion": None}]}
    task = task_of(objects)
    assert task.rubrics == (Rubric(criterion="c", number=1, weight=2.0),)
    again = task_of(objects)
    other = task_of({**objects, "prompt": "q"})
    assert task.task_id == again.task_id != other.task_id


def test_a_tree_gives_the_rubrics_and_must_agree_with_those_given() -> None:
    tree = {"children": [{"criterion": "x", "critical": True}, {"criterion": "y"}]}
    task = task_of({"prompt": "p", "rubric_tree": tree})
    assert task.criteria == ("x", "y")
    assert task_of({"prompt": "p", "rubric_tree": json.dumps(tree), "rubrics": ["x", "y"]}) is not None
    with pytest.raises(DataError, match="leaves"):
        task_of({"prompt": "p", "rubric_tree": tree, "rubrics": ["y", "x"]})


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"rubrics": ["x"]}, "prompt"),
        ({"prompt": " ", "rubrics": ["x"]}, "prompt"),
        ({"prompt": "p", "rubrics": "x"}, "rubrics"),
        ({"prompt": "p", "rubrics": {"a": 1}}, "rubrics"),
        ({"prompt": "p", "rubrics": [3]}, "rubrics[0]"),
        ({"prompt": "p", "rubrics": [{"text": "x"}]}, "rubrics[0]"),
        ({"prompt": "p", "rubrics": [{"criterion": "x", "weight": "much"}]}, "rubrics[0] weight"),
        ({"prompt": "p", "rubrics": ["x"], "rubric - 1. criterion": "y"}, "rubrics"),
        ({"prompt": "p", "rubric - 1. criterion": "y", "rubric - 01. criterion": "z"}, "rubric - 01. criterion"),
        ({"prompt": "p\ud800", "rubrics": ["x"]}, "prompt"),
        ({"prompt": "p", "task_id": 1.5, "rubrics": ["x"]}, "task_id"),
    ],
)
def test_a_wrong_record_names_its_field(record: dict[str, object], field: str) -> None:
    with pytest.raises(DataError) as caught:
        task_of(record)
    assert caught.value.field == field


GOOD = '{"task_id": "g", "prompt": "p", "rubrics": ["x"]}'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f'{GOOD}\n{{"prompt": "p}}\n{GOOD}\n', "line 2, column 12"),
        (f'{GOOD}\n{{"prompt": "p",}}\n', "line 2, column"),
        (f"{GOOD} x", "line 1, column 51"),
        (f"{GOOD}{GOOD}", "line 1, column 50"),
        (f"[{GOOD}", "line 1, column 51"),
        (f"[{GOOD},\n]", "line 2, column 1"),
        (f"[{GOOD}\n{GOOD}]", "line 2, column 1"),
        (f"[{GOOD}]\n\nrest", "line 3, column 1"),
        (f"{GOOD}\n[1]", "line 2, column 1"),
        (f'[{GOOD},\n {{"prompt": "p" "rubrics": []}}]', "line 2, column 17"),
        ('{"prompt": "a", "prompt": "b"}', "line 1, column 1: in this record: the key 'prompt'"),
        ('{"prompt": NaN}', "line 1, column 1: in this record: NaN"),
        ("[" * 100_000, "nested too deeply"),
        ('{"prompt": "\\x"}', "line 1, column 13"),
        (f'{GOOD}\n{{"prompt": 3}}', "line 2: a text is needed"),
        (f"{GOOD}\n\n{GOOD}", "line 3: this task is already at line 1"),
        ("", "no task"),
        ('{"prompt": "p", "rubrics": []}', "no task"),
    ],
)
def test_other_damage_is_reported_with_its_place(text: str, where: str) -> None:
    with pytest.raises(DataError) as caught:
        read_text(text.encode(), "made.jsonl")
    assert where in str(caught.value)


def test_bytes_that_are_no_text_are_located() -> None:
    with pytest.raises(DataError, match="line 2, column 3: not UTF-8"):
        read_text(b'{"a":\n12\xff', "made.json")


def test_records_without_rubrics_are_counted() -> None:
    found = read_text(f'{GOOD}\n{{"prompt": "p", "rubric - 1. criterion": " "}}'.encode(), "m")
    assert (len(found.tasks), found.without_rubrics) == (1, 1)


def test_a_file_of_another_kind_or_none_is_a_wrong_setting(tmp_path: Path) -> None:
    other = tmp_path / "t.xml"
    for absent in (other, tmp_path / "t.json"):
        with pytest.raises(ConfigError, match="field: data_path = "):
            read_dataset(absent)
    other.write_text("<t/>")
    with pytest.raises(ConfigError, match=r"\.jsonl"):
        read_dataset(other)
    broken = tmp_path / "t.parquet"
    broken.write_bytes(b"no table")
    with pytest.raises(DataError, match=r"t\.parquet"):
        read_dataset(broken)


@given(st.binary(max_size=80) | st.text(alphabet='[]{}",:\\ \n\tapromt1', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^any\.json"):
        read_text(data, "any.json")


@pytest.mark.skipif(not REAL.is_file(), reason="the real data are not beside this checkout")
def test_all_real_tasks_are_read() -> None:
    found = read_dataset(REAL)
    assert (len(found.tasks), found.rubric_count) == (100, 2314)
    assert (found.control_characters, found.without_rubrics) == (0, 0)
    assert {len(task.rubrics) for task in found.tasks} <= set(range(11, 47))
