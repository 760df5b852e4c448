"""`dead_groups` from made-up runs whose figures are known: what it says, what it claims, and what it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_doors import MadeArm, Maker

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.dead_groups.settings import dead_settings
from tinsmith.studies.dead_groups.study import run_dead_groups
from tinsmith.types.errors import ConfigError

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
AS_PUBLISHED = {
    "always": MadeArm(0.25, 0.25, fixed=True),
    "chance": MadeArm(0.25, 0.9),
    "hotter": MadeArm(0.25, 0.25),
    "forced": MadeArm(0.25, 0.95, fixed=True),
    "examples": MadeArm(0.25, 0.95, fixed=True),
    "shuffled": MadeArm(0.25, 0.25),
}


def _silent(message: str) -> None:
    del message


def found(out: Path, arms: Mapping[str, MadeArm], **given: str) -> dict[str, Any]:
    keys = {"out": str(out), "seeds": "1,2", "steps": "10", **given}
    run_dead_groups(keys, _silent, run=Maker(arms), draws=DRAWS)
    return json.loads((out / "study.json").read_text())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found(tmp_path_factory.mktemp("study") / "out", AS_PUBLISHED)


def test_it_says_first_that_fixed_failure_is_not_mended_and_random_failure_is(
    study: dict[str, Any], tmp_path: Path
) -> None:
    arms = {**AS_PUBLISHED, "always": MadeArm(0.25, 0.25, fixed=True)}
    first = study["sentences"][0]
    assert "mends one that fails by chance" in first
    again = found(tmp_path / "out", {**arms, "chance": MadeArm(0.25, 0.25)})["sentences"][0]
    assert "is not shown to mend one that fails by chance" in again


def test_its_first_sentence_names_the_remedies_that_did_not_help_and_a_control_that_learned(
    study: dict[str, Any], tmp_path: Path
) -> None:
    missed = study["sentences"][0].partition("did not come out: ")[2]
    assert missed == "a higher end with a remedy (temperature 3)."
    arms = {**AS_PUBLISHED, "shuffled": MadeArm(0.25, 0.9), "hotter": MadeArm(0.25, 0.95)}
    learned = found(tmp_path / "out", arms)["sentences"][0].partition("did not come out: ")[2]
    assert "temperature" not in learned
    assert "control" in learned


def test_the_index_is_one_for_fixed_failure_and_near_zero_for_random(study: dict[str, Any]) -> None:
    mixed = study["mixed"]
    assert mixed["always"]["index"] == 1.0
    assert mixed["always"]["observed"]["value"] == 0.0
    assert abs(mixed["chance"]["index"]) < 0.1
    assert mixed["chance"]["expected"] == pytest.approx(0.9, abs=0.05)
    assert (mixed["always"]["alarms"], mixed["chance"]["alarms"]) == (2, 0)


def test_gains_and_claims_are_those_that_were_made(study: dict[str, Any]) -> None:
    gains = {one["name"]: one for one in study["gains"]}
    assert gains["chance"]["gain"]["value"] == pytest.approx(0.65, abs=0.06)
    assert abs(gains["shuffled"]["gain"]["value"]) < 0.06
    allowed = {one["first"] for one in study["beats"] if _allowed(one)}
    assert "fails by chance" in allowed
    assert "always fails, temperature 3" not in allowed
    learned = {one["first"] for one in study["learned"] if _allowed(one)}
    assert "fails by chance" in learned
    assert "always fails" not in learned


def _allowed(claim: Mapping[str, Any]) -> bool:
    return all(check["finding"] == "passed" for check in claim["checks"])


def test_the_page_stands_beside_the_values(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found(out, AS_PUBLISHED)
    html = (out / "index.html").read_text()
    assert "Dead groups" in html
    assert "informative" in html
    assert "| always fails |" in (out / "study.md").read_text()


def test_sizes_and_places_say_what_is_run() -> None:
    smallest = dead_settings({"size": "smallest"}).study
    assert smallest.seeds == (1,)
    assert smallest.shared["steps"] == "12"
    assert dead_settings({}).study.seeds == (1, 2, 3, 4, 5)
    assert dead_settings({}).study.shared["split_seed"] == "0", "all seeds hold out the same items"
    small = dead_settings({"at": "small"})
    assert [arm.name for arm in small.study.arms] == ["always", "chance", "forced", "shuffled"]
    assert dead_settings({"steps": "9", "size": "smallest"}).study.shared["steps"] == "9"


@pytest.mark.parametrize("given", [{"size": "large"}, {"learning_rate": "1e-3"}, {"at": "small", "seed": "1"}])
def test_what_it_sets_itself_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        dead_settings(given)


def test_it_is_registered() -> None:
    assert STUDIES["dead_groups"].keys.default("size") == "nano"


def test_where_every_answer_is_right_there_is_no_index_and_the_page_says_so(tmp_path: Path) -> None:
    solved = {**AS_PUBLISHED, "chance": MadeArm(1.0, 1.0), "always": MadeArm(1.0, 1.0, fixed=True)}
    mixed = found(tmp_path / "out", solved)["mixed"]
    assert mixed["chance"]["index"] is None
    assert mixed["chance"]["expected"] == 0.0
    assert "none expected" in (tmp_path / "out" / "study.md").read_text()
