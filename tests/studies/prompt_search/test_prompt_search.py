"""`prompt_search` from made-up runs and searches on a made-up base: its expectations, its gains, its refusals."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from made_searches import Maker, searched

from tinsmith.cli.registered import source_of
from tinsmith.lab.prompt_search import halves_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.record import Draws
from tinsmith.lab.user_task.task import Task
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.prompt_search.study import SearchOn, with_arms
from tinsmith.studies.prompt_search.study import study as prompt_search
from tinsmith.studies.prompt_search.task import (
    BANK,
    BEST,
    DOORS,
    RIGHT,
    SIGNS,
    WAYS,
    WRITTEN,
    answer,
    answer_by,
    asked,
    done_under,
    door_of,
    held_out,
    items,
    kind_of,
    line_of,
    read_items,
    right,
    sorted_rightly,
)
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
LOW = {"rl": 0.5, "rl_shuffled": 0.4}
HIGH = {"rl": 1.0, "rl_shuffled": 0.4}


def found(out: Path, after: Mapping[str, float], search: SearchOn = searched, **given: str) -> dict[str, Any]:
    one = replace(prompt_search, complete=partial(with_arms, search=search))
    given = {"out": str(out), **given}
    run_study(one, given, unsaid, open_source=source_of, run=Maker(after), draws=DRAWS)
    return json.loads((out / "study.json").read_text())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "out"
    found(out, LOW)
    return out


def unmet(values: dict[str, Any]) -> list[int]:
    return [place for place, one in enumerate(values["expectations"]) if not one["met"]]


def test_every_expectation_is_met_where_the_search_goes_beyond_rl(study: Path) -> None:
    values = json.loads((study / "study.json").read_text())
    assert (len(values["expectations"]), unmet(values)) == (7, [])


def test_rl_that_goes_further_is_not_reached(tmp_path: Path) -> None:
    values = found(tmp_path / "out", HIGH, search_steps="2")
    assert unmet(values) == [1]
    assert "RL" in values["sentences"][1].partition("not met")[2]


def test_a_control_that_gains_too_is_not_met(tmp_path: Path) -> None:
    assert 3 in unmet(found(tmp_path / "out", LOW, partial(searched, shuffled=False)))


def test_gains_are_those_of_the_searches_and_none_ends_lower_on_selection(study: Path) -> None:
    values = json.loads((study / "study.json").read_text())
    gains = {one["name"]: one["gain"] for one in values["gains"]}
    assert gains["prompt"]["low"] > 0.1
    assert abs(gains["prompt_shuffled"]["value"]) < 0.15
    rows = [cells for _, cells in values["tables"][0]["rows"][1:]]
    assert all(after["value"] >= before["value"] and not again["value"] for before, after, *_, again, _, _ in rows)
    assert len(values["hashes"]) == 20


def test_nothing_is_claimed_of_shuffled_answers(study: Path) -> None:
    values = json.loads((study / "study.json").read_text())
    learned = {one["first"]: one["checks"] for one in values["learned"]}
    assert any(check["finding"] != "passed" for check in learned["prompt searched, shuffled answers"])
    assert all(check["finding"] == "passed" for check in learned["prompt searched"])


def test_the_page_shows_prompts_and_every_step(study: Path) -> None:
    shown = (study / "study.md").read_text()
    assert "| prompt searched, seed 1 |" in shown
    assert shown.count("step 11") == 10


def test_sizes_say_what_is_run_and_how_is_searched(tmp_path: Path) -> None:
    values = found(tmp_path / "out", LOW, size="smallest", gate="9")
    settings = values["settings"]
    assert values["seeds"] == [1]
    assert (settings["prompt.steps"], settings["prompt.gate"], settings["prompt.proposer"]) == ("3", "9", "grammar")
    assert settings["rl.base_steps"] == "200"


def test_a_task_of_one_item_cannot_be_halved() -> None:
    with pytest.raises(ConfigError, match="too few"):
        halves_of({}, 0)


EVERY = [sign for signs in SIGNS.values() for sign in signs]


def task() -> Task:
    source = source_of("handbook", {})
    return source.make({key.name: key.read(None) for key in source.keys})


def earned(lines: tuple[str, ...]) -> float:
    """Return what an answer that follows a handbook earns."""
    values = [right(item, done_under(lines, item["sign"], Random(place))) for place, item in enumerate(items() * 5)]
    return sum(values) / len(values)


def test_the_three_ways_lead_a_sign_to_three_doors() -> None:
    for sign in EVERY:
        assert len({door_of(sign, way) for way in WAYS[kind_of(sign)]}) == 3


def test_under_the_best_handbook_all_is_right_and_under_the_written_one_less_than_half_is() -> None:
    assert earned(BEST) == 1.0
    assert earned(()) == pytest.approx(1 / 3, abs=0.04)
    assert earned(WRITTEN) == pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 3) / 4, abs=0.05)


@pytest.mark.parametrize("apart", [False, True])
def test_no_letter_pays(apart: bool) -> None:
    doors = Counter(answer(item) for item in items() if held_out(item) is apart)
    assert set(doors) == set(DOORS)
    assert len(set(doors.values())) == 1


def test_it_says_which_way_was_taken() -> None:
    item = items()[0]
    by_way = [answer_by("oak", way) for way in WAYS["plant"]]
    assert [sorted_rightly(item, words) for words in by_way] == [0.0, 0.0, 1.0]
    assert [right(item, words) for words in by_way] == [0.0, 0.0, 1.0]
    assert right(item, answer(item)) == 1.0
    assert sorted_rightly(item, answer(item)) == 0.0


def test_where_two_lines_speak_of_a_kind_either_is_followed() -> None:
    both = (line_of("plant", "leaf"), line_of("plant", "bark"))
    text = {done_under(both, "oak", Random(seed)) for seed in range(40)}
    assert text == {answer_by("oak", "leaf"), answer_by("oak", "bark")}


def test_demonstrations_take_every_way_as_often() -> None:
    one = task()
    assert one.demonstrate is not None
    lines_read = [line for item in read_items() for line in item["lines"]]
    ways = [lines_read.count(line_of(kind, way)) for kind in WAYS for way in WAYS[kind]]
    assert max(ways) < 1.2 * min(ways)
    assert all(line_of(kind, way) in BANK for kind, way in RIGHT.items())


def test_signs_are_held_out_whole() -> None:
    apart = {item["sign"] for item in items() if held_out(item)}
    assert len(apart) == 8
    assert not apart & {item["sign"] for item in items() if not held_out(item)}


def test_a_prompt_begins_with_the_written_handbook_unless_an_item_has_its_own() -> None:
    one, item = task(), items()[0]
    assert callable(one.prompt)
    assert one.prompt(item) == asked(WRITTEN, item)
    assert one.prompt({**item, "lines": ["be kind"]}) == asked(["be kind"], item)
    assert one.answer(item) == answer(item)
