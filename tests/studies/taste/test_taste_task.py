"""The task: its items, rewards, baselines, sections counted by hand, and what it refuses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from taste_corpora import world, write

from command_line import command
from tinsmith.cli.registered import source_of
from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.lab.user_task.task import Answered, Task
from tinsmith.studies.taste.task import CARD, SECTIONS, taste
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

Make = Callable[..., Task]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("taste") / "corpus", world()).folder


@pytest.fixture
def make(corpus: Path) -> Make:
    def make(**changes: Any) -> Task:
        return taste(str(corpus), **{"validation_pairs": 6, **changes})

    return make


def items(side: Any) -> list[dict[str, Any]]:
    return list(side)


def earned(task: Task, item: object, text: str) -> Earned:
    found = score_group(task, item, [[text]])[0]
    assert isinstance(found, Earned)
    return found


def test_both_sides_can_be_evaluated_and_training_stays_the_same(make: Make) -> None:
    validation, test = make(), make(evaluate="test")
    train = items(validation.items)
    assert items(test.items) == train
    papers = [
        {name for one in side for name in one["pair"].split("-p")}
        for side in (train, items(validation.held_out), items(test.held_out))
    ]
    assert papers[0].isdisjoint(papers[1] | papers[2])
    assert papers[1].isdisjoint(papers[2])
    assert {one["order"] for one in items(test.held_out)} == {"ab", "ba"}
    assert len(items(validation.held_out)) == 12


def test_what_answers_earn(make: Make) -> None:
    task = make(contract=0.2)
    item = items(task.items)[0]
    right, wrong = ("A", "B") if item["answer"] == "A" else ("B", "A")
    assert dict(earned(task, item, right).terms) == {"right": 1.0, "contract": 0.2}
    assert dict(earned(task, item, f"{right}.").terms) == {"right": 1.0, "contract": 0.0}
    assert dict(earned(task, item, wrong).terms) == {"right": 0.0, "contract": 0.2}
    mute = earned(task, item, "who knows")
    assert dict(mute.terms) == {"right": 0.0, "contract": 0.0}
    assert (mute.readable, mute.metrics["valid"], mute.metrics["first"]) == (False, 0.0, 0.0)
    assert earned(task, item, "A").metrics["first"] == 1.0
    assert earned(task, item, "B").metrics["first"] == 0.0


@pytest.mark.parametrize("answers", ["letter", "json"])
def test_right_answers_and_demonstrations_are_in_form(make: Make, answers: str) -> None:
    task = make(answers=answers)
    shown: set[str] = set()
    for item in items(task.items):
        assert earned(task, item, str(task.answer(item))).total == 1.1
        words = str(task.demonstrate(item, Random(item["id"])))
        shown.add(words)
        assert earned(task, item, words).terms["contract"] == 0.1
    assert len(shown) == 2


def test_baselines_name_one_paper_in_both_orders(make: Make) -> None:
    task = make(evaluate="test")
    held_out = items(task.held_out)
    for name, baseline in task.baselines.items():
        sentence = [str(baseline(item)) for item in held_out]
        right = [earned(task, item, text).terms["right"] for item, text in zip(held_out, sentence, strict=True)]
        assert right[::2] == right[1::2], name
        assert set(sentence) == {"A", "B"}
    assert all(earned(task, one, str(task.baselines["TF-IDF"](one))).terms["right"] for one in held_out)


def answered(pair: str, order: str, answer: str, text: str, **more: Any) -> Answered:
    metrics = {"right": float(text == answer), "valid": float(text != ""), "first": float(text == "A")}
    item = {"pair": pair, "order": order, "answer": answer, "gap": 3, "year": 1999, "field": None}
    return Answered(item={**item, **more}, prompt="", replies=(text,), terms={}, metrics=metrics, total=0.0)


def test_swapping_by_hand() -> None:
    answers = [
        *(answered("both", "ab", "A", "A"), answered("both", "ba", "B", "B")),
        *(answered("other", "ab", "A", "B"), answered("other", "ba", "B", "A")),
        *(answered("first", "ab", "A", "A"), answered("first", "ba", "B", "A")),
        *(answered("second", "ab", "A", "B"), answered("second", "ba", "B", "B")),
        *(answered("again", "ab", "B", "B"), answered("again", "ba", "A", "A")),
        *(answered("mute", "ab", "A", "A"), answered("mute", "ba", "B", "")),
        answered("alone", "ab", "A", "A"),
    ]
    rows = rows_of("Under swapping", answers)
    assert rows == rows_of("Under swapping", answers[::-1])
    assert [row["answers"] for row in rows] == [2, 3, 1, 1, 1]
    assert rows[1]["share"] == "0.500"
    sampled = [answered("both", *both, text) for text in "AAB" for both in (("ab", "A"), ("ba", "A"))]
    assert [row["answers"] for row in rows_of("Under swapping", sampled)] == [2, 3, 2, 1, 0]
    assert isinstance(SECTIONS["Under swapping"](answers[-1:]), str)


def rows_of(title: str, answers: Sequence[Answered]) -> list[dict[str, Any]]:
    rows = SECTIONS[title](answers)
    assert not isinstance(rows, str)
    return [dict(row) for row in rows]


def test_shares_by_gap_year_and_field() -> None:
    answers = [
        answered("a", "ab", "A", "A", gap=4, year=2000, field="x"),
        answered("b", "ab", "A", "B", gap=5, year=2000, field="y"),
        answered("c", "ab", "A", "A", gap=9, year=1999, field="x"),
        answered("d", "ab", "A", "A", gap=500, year=1999),
    ]
    assert [(row["gap"], row["right"]) for row in rows_of("By gap", answers)] == [
        ("1 to 4", "1.000"),
        ("5 to 9", "0.500"),
        ("50 or more", "1.000"),
    ]
    assert [(row["year"], row["answers"]) for row in rows_of("By year", answers)] == [("1999", 2), ("2000", 2)]
    assert [(row["field"], row["answers"]) for row in rows_of("By field", answers)] == [("x", 2), ("y", 1)]
    assert isinstance(SECTIONS["By field"](answers[-1:]), str)


def test_the_corpus_is_part_of_the_identity(corpus: Path, make: Make) -> None:
    assert make().identity["corpus"] == file_sha256(corpus / CARD)


@pytest.mark.parametrize(("preset", "key"), [("shuffled", "preference"), ("by_length", "length")])
def test_controls_are_presets_that_change_one_key(corpus: Path, preset: str, key: str) -> None:
    source = source_of(f"taste/{preset}", {"data": str(corpus)})
    plain = source_of("taste", {"data": str(corpus)})
    defaults = {one.name: one.default for one in source.keys}
    changed = {one.name for one in plain.keys if one.default != defaults[one.name]}
    assert changed == {key}


def test_nothing_to_evaluate_is_refused(make: Make) -> None:
    with pytest.raises(ConfigError) as refused:
        items(make(validation_pairs=0).held_out)
    assert refused.value.field == "evaluate"
    with pytest.raises(ConfigError) as refused:
        make(train_before=2006, test_from=2005)
    assert refused.value.field == "train_before"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("taste", "dry_run=true"), "field: data"),
        (("taste", "data=nowhere"), "field: data"),
        (("taste:rest",), "field: taste"),
        (("taste/probe", "gap=2"), "field: data"),
        (("taste/probe", "validation_pairs=0"), "field: validation_pairs"),
        (("taste/probe", "gab=2"), "perhaps gap"),
    ],
)
def test_a_mistake_takes_five_lines_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = command(capsys, "run", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
