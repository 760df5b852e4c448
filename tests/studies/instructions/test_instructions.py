"""Checkable instructions: drawn from a seed, split by request or by kind, checked strictly and loosely."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tinsmith.lab.user_task.task import Answered, Task
from tinsmith.studies.instructions.draws import Suite, followed, kinds_of
from tinsmith.studies.instructions.task import instructions


def made(**changes: Any) -> Task:
    return instructions(**{"items": 120, "held_out_items": 40, **changes})


def sides(task: Task) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    assert isinstance(task.items, list)
    assert isinstance(task.held_out, list)
    return task.items, task.held_out


def kinds(items: list[dict[str, Any]]) -> set[str]:
    return {kind for one in items for kind in one["kinds"]}


@pytest.mark.parametrize("suite", list(Suite))
@pytest.mark.parametrize("held_out", ["prompts", "kinds"])
def test_what_is_held_out_is_never_trained_on(suite: Suite, held_out: str) -> None:
    train, apart = sides(made(suite=suite.value, held_out=held_out))
    assert sides(made(suite=suite.value, held_out=held_out)) == (train, apart)
    assert {one["request"] for one in train}.isdisjoint(one["request"] for one in apart)
    assert len({one["prompt"] for one in train + apart}) == 160
    assert kinds(train + apart) <= set(kinds_of(suite))
    assert kinds(train).isdisjoint(kinds(apart)) == (held_out == "kinds")
    other = sides(made(suite=suite.value, held_out=held_out, draw_seed=1))
    assert other != (train, apart)


def test_instructions_of_a_prompt_go_together_and_are_in_it() -> None:
    for one in sides(made(suite="both", fewest=2, most=3))[0]:
        assert 2 <= len(one["kinds"]) <= 3 or len(kinds([one])) == 1
        assert len(set(one["kinds"])) == len(one["kinds"]) == len(one["kwargs"])
        assert one["prompt"].startswith(one["request"])
        for kwargs in one["kwargs"]:
            for word in kwargs.get("keywords", []):
                assert word in one["prompt"]
    cases = [one["kinds"] for one in sides(made(suite="both", fewest=3, most=3))[0]]
    both = {"change_case:english_capital", "change_case:english_lowercase"}
    assert not any(both <= set(each) for each in cases)


def test_every_kind_can_be_drawn_said_and_checked() -> None:
    """Without any data of nltk's: those kinds that need some are not among them."""
    items = sides(made(suite="both", fewest=1, most=1, items=900))[0]
    assert kinds(items) == set(kinds_of(Suite.BOTH))
    for one in items[:300]:
        found = followed(one["prompt"], one["kinds"], one["kwargs"], "A boat.\n\n* One\n* Two, 3!")
        assert len(found.strict) == len(found.loose) == 1
        assert found.loose[0] >= found.strict[0]


def checked(task: Task, item: dict[str, Any], text: str) -> dict[str, float]:
    named: dict[str, Callable[..., float]] = {**task.rewards, **task.metrics}  # type: ignore[dict-item]
    return {name: float(function(item, text)) for name, function in named.items()}


def test_strict_and_loose_are_terms_and_metrics() -> None:
    task = made(strict=2.0, loose=0.5)
    assert list(task.rewards) == ["strict", "loose"]
    item = {
        "request": "Write of tea.",
        "prompt": "Write of tea.",
        "kinds": ["punctuation:no_comma", "detectable_format:title"],
        "kwargs": [{}, {}],
    }
    assert checked(task, item, "<<Tea>>\nIt is hot.") == {
        **{"strict": 2.0, "loose": 0.5},
        **dict.fromkeys(("instruction_strict", "instruction_loose"), 1.0),
        **dict.fromkeys(("prompt_strict", "prompt_loose"), 1.0),
    }
    half = checked(task, item, "Well, here it is:\n<<Tea>>\nIt is hot.")  # the first line may go
    assert (half["instruction_strict"], half["instruction_loose"]) == (0.5, 1.0)
    assert (half["strict"], half["prompt_strict"], half["prompt_loose"]) == (1.0, 0.0, 1.0)
    assert set(checked(task, item, "  ").values()) == {0.0}


def test_a_language_is_told_the_same_each_time() -> None:
    requests = (["language:response_language"], [{"language": "de"}])
    texts = [
        "Das alte Boot liegt seit vielen Jahren am Ufer und niemand kümmert sich darum.",
        "tea",
        "no",
        "Haus am See 12",
        "die man in was",
    ]
    first = [followed("", *requests, text) for text in texts]
    assert all([followed("", *requests, text) for text in texts] == first for _ in range(3))
    assert first[0].strict == (True,)


def test_an_answer_without_a_language_is_written_to_no_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    followed("", ["language:response_language"], [{"language": "de"}], "\x1b]0;123\x07 ***")
    assert logging.getLogger().handlers == []
    assert capsys.readouterr() == ("", "")


def test_the_page_says_how_often_each_kind_was_followed() -> None:
    task = made()
    one = sides(task)[1][0]
    answer = Answered(item=one, prompt=one["prompt"], replies=("x",), terms={}, metrics={}, total=0.0)
    rows = task.sections["By kind of instruction"]([answer, answer])
    assert {str(row["kind"]) for row in rows} == set(one["kinds"])  # type: ignore[index]
    assert all(row["times asked"] == 2 for row in rows)  # type: ignore[index]


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    from tinsmith.studies.instructions import draws

    def downloads(*_args: object, **_kwargs: object) -> bool:
        raise AssertionError("a download")

    monkeypatch.setattr(nltk, "download", downloads)
    for name in [each for each in sys.modules if each.startswith("if_verifiable.ifbench")]:
        monkeypatch.delitem(sys.modules, name)
    draws._checkers.cache_clear()
    assert draws.described("format:emoji", {})
    assert nltk.download is downloads
