"""`exploration` from made-up runs whose figures are known: what it says first, what it claims, what it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_houses import MadeArm, Maker

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.exploration.settings import ARMS, RATIOS, exploration_study
from tinsmith.studies.exploration.study import run_exploration
from tinsmith.types.errors import ConfigError

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
EXPLORES = MadeArm(coverage=0.8, success=0.8, recovery=0.5, repeated=0.1)
AS_PUBLISHED = {
    "none": MadeArm(),
    "10-1": MadeArm(coverage=0.5, recovery=0.3),
    "5-1": EXPLORES,
    "2-1": EXPLORES,
    "1-1": EXPLORES,
    "chance": MadeArm(),
}


def _silent(message: str) -> None:
    del message


def found(out: Path, arms: Mapping[str, MadeArm], **given: str) -> dict[str, Any]:
    keys = {"out": str(out), "seeds": "1,2", "steps": "66", **given}
    run_exploration(keys, _silent, run=Maker(arms), draws=DRAWS)
    return json.loads((out / "study.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "out"
    found(out, AS_PUBLISHED)
    return out


@pytest.fixture(scope="module")
def study(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "study.json").read_text())


def test_all_signs_of_what_was_made_come_out(study: dict[str, Any]) -> None:
    assert [one["came_out"] for one in study["signs"]] == [True] * 5
    assert study["sentences"][0].startswith("All 5 signs that were expected came out: 5:1 covers")
    assert study["control_flat"]


def test_the_overhead_is_counted(study: dict[str, Any]) -> None:
    counted = {one["arm"]: (one["aside"], one["rollouts"]) for one in study["arms"]}
    assert counted["none"] == (0, 264)
    assert counted["5-1"] == counted["chance"] == (44, 264)
    assert counted["10-1"] == (24, 264)
    assert counted["1-1"] == (132, 264)
    assert "44 of 264, 16.7%" in study["signs"][3]["told"]


def test_figures_are_those_that_were_made(study: dict[str, Any]) -> None:
    arms = {one["arm"]: one for one in study["arms"]}
    assert arms["5-1"]["coverage"]["after"]["value"] == pytest.approx(0.8, abs=0.01)
    assert arms["5-1"]["coverage"]["gap"]["value"] == pytest.approx(0.5, abs=0.02)
    assert arms["5-1"]["coverage"]["before"]["value"] == pytest.approx(0.2, abs=0.01)
    assert arms["none"]["recovery"]["after"]["value"] == pytest.approx(0.2, abs=0.1)
    assert arms["none"]["coverage"]["gap"]["low"] is None


def test_claims_are_of_coverage_and_recovery_beside_the_task_alone(study: dict[str, Any]) -> None:
    allowed = {(one["first"], one["metric"]) for one in study["beats"] if _allowed(one)}
    assert ("explores 5:1", "coverage") in allowed
    assert ("explores 5:1", "recovery") in allowed
    assert {one["second"] for one in study["beats"]} == {"task alone"}
    assert len(study["beats"]) == 2 * len(RATIOS)
    assert all(_allowed(one) for one in study["learned"])


def _allowed(claim: Mapping[str, Any]) -> bool:
    return all(check["finding"] == "passed" for check in claim["checks"])


def test_what_does_not_come_out_is_said_first(tmp_path: Path) -> None:
    worse = MadeArm(coverage=0.35, success=0.3, recovery=0.2, repeated=0.5)
    told = found(tmp_path / "out", {**AS_PUBLISHED, "5-1": worse, "chance": EXPLORES})
    assert [one["came_out"] for one in told["signs"]] == [False, False, False, True, False]
    first = told["sentences"][0]
    assert first.startswith("Of 5 signs that were expected 4 did not come out: 5:1 covers 1.3")
    assert first.index("success at the task") < first.index("Came out: exploration at 5:1")
    assert not told["control_flat"]
    assert "is not flat" in told["sentences"][1]
    assert not all(_allowed(one) for one in told["learned"])


def test_the_page_and_its_tables_stand_beside_the_values(folder: Path) -> None:
    html = (folder / "index.html").read_text()
    assert "Exploration between the batches of a task" in html
    tables = (folder / "study.md").read_text()
    assert "| explores 5:1 | 16.7%" in tables
    assert "nan" not in tables


def test_sizes_and_places_say_what_is_run() -> None:
    smallest = exploration_study({"size": "smallest"})
    assert smallest.seeds == (1,)
    nano = exploration_study({})
    assert nano.seeds == (1, 2, 3, 4, 5)
    assert [arm.name for arm in nano.arms] == [arm.name for arm in ARMS]
    assert nano.arms[2].keys["interleave"] == "5:1"
    small = exploration_study({"at": "small"}).arms[0].opened
    assert small is not None
    assert small.keys["explain"] == "true"
    assert int(nano.shared["steps"]) % 66 == 0, "whole rounds of every ratio"
    assert int(smallest.shared["steps"]) % 6 == 0, "whole rounds of 5:1"


@pytest.mark.parametrize(
    "given", [{"size": "large"}, {"learning_rate": "1e-3"}, {"interleave": "3:1"}, {"pays": "chance"}]
)
def test_what_it_sets_itself_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        exploration_study(given)


def test_it_is_registered() -> None:
    assert STUDIES["exploration"].keys.default("size") == "nano"
