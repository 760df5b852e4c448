"""Preference pairs: the file, the built-in ones, the control's rubric, and the judge that goes by the surface."""

import json
import random
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tinsmith.lab.judge.rules import RuleJudge
from tinsmith.studies.rubrics.quality.judged_pairs import (
    BUILTIN,
    Ground,
    PreferencePair,
    builtin_pairs,
    drawn_pairs,
    foreign_rubrics,
    pair_of,
    preferred,
    read_pairs,
    read_pairs_text,
)
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of

SHA256 = "5e1ee5bc90d5c1e688bd02033db71a54963fd47af6e1e71593dfecb0af7b4325"
PAIRS = builtin_pairs()[0]


def record(**changes: Any) -> dict[str, Any]:
    plain = {"pair_id": "p1", "prompt": "Say a.", "chosen": "a", "rejected": "b"}
    return {**plain, "rubrics": ["rule: contains 'a'"], **changes}


def made(**changes: Any) -> PreferencePair:
    pair = pair_of(record(**changes))
    assert pair is not None
    return pair


def test_the_built_in_pairs_are_those_that_were_published() -> None:
    assert sha256_of(PAIRS) == SHA256


def test_a_built_in_answer_passes_all_or_fails_one_or_two() -> None:
    for pair in PAIRS:
        judge = RuleJudge(pair.task.criteria)
        assert all(one.passed for one in judge.judge(pair.chosen))
        broken = sum(not one.passed for one in judge.judge(pair.rejected))
        assert broken in (1, 2), pair.pair_id
    assert len({pair.prompt for pair in PAIRS}) == len(PAIRS) == 96


def test_by_the_surface_every_kind_is_half_right() -> None:
    right = Counter[str]()
    for pair in PAIRS:
        first, ground, _ = preferred(pair.prompt, pair.chosen, pair.rejected)
        assert ground is Ground.SURFACE
        right[pair.pair_id.split("-")[0]] += first
    assert set(right.values()) == {6}


def test_the_order_of_the_file_decides_nothing() -> None:
    stored = resources.files("tinsmith.studies.rubrics.quality").joinpath(BUILTIN).read_bytes()
    lines = stored.splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    assert read_pairs_text(b"".join(lines), "x") == builtin_pairs()


def test_rubrics_stand_in_any_form_of_a_rubric_task() -> None:
    plain = {name: value for name, value in record().items() if name != "rubrics"}
    wide = {**plain, "rubric - 1. criterion": "", "rubric - 3. criterion": "It is a."}
    pair = pair_of(wide)
    assert pair.task.criteria == ("It is a.",)
    tree = {"children": [{"criterion": "rule: contains 'a'", "critical": True}]}
    assert made(rubrics=None, rubric_tree=tree).task.tree is not None
    assert pair_of(plain) is None


def test_a_pair_without_a_name_is_named_by_all_its_content() -> None:
    names = {
        made(pair_id=None).pair_id,
        made(pair_id="", rejected="c").pair_id,
        made(pair_id=None, chosen="aa").pair_id,
    }
    assert len(names) == 3
    assert made(pair_id=None) == made(pair_id=None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chosen": "b"}, "rejected"),
        ({"chosen": None}, "chosen"),
        ({"rejected": 3}, "rejected"),
        ({"rejected": "\ud800"}, "rejected"),
        ({"prompt": " "}, "prompt"),
    ],
)
def test_what_is_no_pair_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DataError) as error:
        made(**changes)
    assert error.value.field == field


def test_a_file_says_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    other = tmp_path / "pairs.csv"
    for absent in (file, other):
        with pytest.raises(ConfigError, match="field: data_path = "):
            read_pairs(absent)
    other.write_text("prompt,chosen,rejected")
    with pytest.raises(ConfigError, match=r"allowed: \.jsonl"):
        read_pairs(other)
    file.write_text(json.dumps(record()) + "\n" + json.dumps(record(rejected="c")))
    with pytest.raises(DataError, match=r"(?s)line 2\b.*field: pair_id = 'p1'"):
        read_pairs(file)
    file.write_text(json.dumps(record()) + "\n" + json.dumps(record(pair_id="p2", chosen="b")))
    with pytest.raises(DataError, match=r"(?s)line 2\b.*field: rejected"):
        read_pairs(file)
    file.write_text(json.dumps(record(rubrics=[])))
    with pytest.raises(DataError, match=r"^pairs\.jsonl: "):
        read_pairs(file)
    file.write_text(json.dumps(record(rubrics=[])) + "\n" + json.dumps(record(pair_id="p2")))
    assert read_pairs(file)[1] == 1


def test_pairs_are_drawn_by_id_and_seed() -> None:
    some = drawn_pairs(PAIRS, 10, seed=3)
    assert some == drawn_pairs(PAIRS[::-1], 10, seed=3) != drawn_pairs(PAIRS, 10, seed=4)
    assert len(some) == 10
    assert drawn_pairs(PAIRS, None, seed=0) == PAIRS


def test_the_controls_rubric_is_of_another_prompt_and_says_something_else() -> None:
    others = foreign_rubrics(PAIRS, seed=0)
    for pair, other in zip(PAIRS, others, strict=True):
        assert other.prompt != pair.prompt
        assert set(other.task.criteria) != set(pair.task.criteria)
    assert others != foreign_rubrics(PAIRS, seed=1)
    assert Counter(one.pair_id for one in others if one is not None).most_common(1)[0][1] <= 3
    alike = (made(), made(pair_id="p2", prompt="Say a again."), made(pair_id="p3", chosen="aa"))
    assert foreign_rubrics(alike, seed=0) == (None, None, None)


@pytest.mark.parametrize(
    ("first", "second", "prefers_first", "ground"),
    [
        ("name a bird", "robin and wren and tit", True, Ground.SURFACE),
        ("robin", "robin robin", False, Ground.SURFACE),
        ("robin", "robins", False, Ground.SURFACE),
        ("wren", "lark", True, Ground.PLACE),
        ("lark", "wren", True, Ground.PLACE),
    ],
)
def test_the_surface_is_shared_words_then_words_then_characters(
    first: str, second: str, prefers_first: bool, ground: Ground
) -> None:
    assert preferred("Name a bird.", first, second) == (prefers_first, ground, None)
    if ground is Ground.SURFACE:
        assert preferred("Name a bird.", second, first)[0] is not prefers_first


def test_with_a_rubric_the_pass_rate_decides_and_the_surface_where_it_is_equal() -> None:
    task = made(rubrics=["rule: contains 'a'", "rule: contains 'z'"]).task
    assert preferred("Say a.", "b b b b", "a", task) == (False, Ground.RUBRIC, (0.0, 0.5))
    assert preferred("Say a.", "b", "e e", task) == (False, Ground.SURFACE, (0.0, 0.0))


def test_a_tree_gates() -> None:
    leaves = [
        {"criterion": "rule: contains 'a'", "critical": True},
        {"criterion": "rule: contains 'b'"},
        {"criterion": "rule: contains 'c'"},
    ]
    tree = made(rubrics=None, rubric_tree={"children": leaves}).task
    flat = made(rubrics=[leaf["criterion"] for leaf in leaves]).task
    assert preferred("Say.", "b c", "a", tree)[2] == (0.0, 0.0)
    assert preferred("Say.", "b c", "a", flat)[2] == (2 / 3, 1 / 3)
