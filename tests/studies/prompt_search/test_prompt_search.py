"""`prompt_search` from made-up runs and searches on a made-up base: what it says, what it claims, what it is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_searches import Maker, searched

from tinsmith.cli.registered import STUDIES, source_of
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.prompt_search.searching import Found, halves
from tinsmith.studies.prompt_search.settings import PromptSettings, ProposedBy, prompt_settings
from tinsmith.studies.prompt_search.study import SearchOn, run_prompt_search
from tinsmith.types.errors import ConfigError

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
LOW = {"rl": 0.5, "rl_shuffled": 0.4}
HIGH = {"rl": 1.0, "rl_shuffled": 0.4}


def _silent(message: str) -> None:
    del message


def asked(**given: str) -> PromptSettings:
    return prompt_settings(given, source_of)


def found(out: Path, after: Mapping[str, float], search: SearchOn = searched, **given: str) -> dict[str, Any]:
    run_prompt_search(
        {"out": str(out), **given}, _silent, open_source=source_of, run=Maker(after), search=search, draws=DRAWS
    )
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
    values = found(tmp_path / "out", HIGH, search_steps="1")
    assert unmet(values) == [1]
    assert "RL" in values["sentences"][1]


def test_a_control_that_gains_too_is_told(tmp_path: Path) -> None:
    def by_right_answers(settings: PromptSettings, cell: Cell, file: Path, say: Say) -> Found:
        overrides = {key: one for key, one in cell.overrides.items() if key != "shuffle_labels"}
        return searched(settings, replace(cell, overrides=overrides), file, say)

    assert 3 in unmet(found(tmp_path / "out", LOW, by_right_answers))


def test_gains_are_those_of_the_searches_and_none_ends_lower_on_selection(study: Path) -> None:
    values = json.loads((study / "study.json").read_text())
    gains = {one["name"]: one["gain"] for one in values["gains"]}
    assert gains["prompt"]["low"] > 0.1
    assert abs(gains["prompt_shuffled"]["value"]) < 0.15
    assert all(one["after"] >= one["before"] for one in values["searches"])
    assert all(one["again"] == 0 for one in values["searches"])
    assert values["same_before"] is True
    assert len(values["files"]) == 10


def test_nothing_is_claimed_of_shuffled_answers(study: Path) -> None:
    values = json.loads((study / "study.json").read_text())
    (control,) = values["controls"]
    assert any(check["finding"] != "passed" for check in control["checks"])
    learned = next(one for one in values["learned"] if one["first"] == "prompt searched")
    assert all(check["finding"] == "passed" for check in learned["checks"])


def test_the_page_shows_prompts_and_every_step(study: Path) -> None:
    shown = (study / "study.md").read_text()
    assert "| prompt searched, seed 1 |" in shown
    assert shown.count("| Step | proposed |") == 10


def test_sizes_and_places_say_what_is_run() -> None:
    smallest = asked(size="smallest")
    assert smallest.study.seeds == (1,)
    assert smallest.search.steps == 3
    assert asked().study.seeds == (1, 2, 3, 4, 5)
    assert asked(search_steps="7", gate="9").search.gate == 9
    small = asked(at="small", proposer="model")
    assert (small.task.written, small.proposer) == ((), ProposedBy.MODEL)
    assert small.deciding()["task"] == "instructions"


@pytest.mark.parametrize(
    "given",
    [
        {"size": "large"},
        {"proposer": "nobody"},
        {"task": "sandbagger"},
        {"gate": "0"},
        {"most_edits": "none"},
        {"learning_rate": "1e-3"},
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        asked(**given)


def test_a_task_of_one_item_cannot_be_halved() -> None:
    with pytest.raises(ConfigError, match="too few"):
        halves((), 0)


def test_it_is_registered() -> None:
    assert STUDIES["prompt_search"].all_keys().default("proposer") == "grammar"
