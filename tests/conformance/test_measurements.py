"""Conformance of every measurement: its keys, its refusals, its values and its page."""

import json
from pathlib import Path
from typing import Any

import pytest

from golden_frozen import MEASURED, figures, measured, searched_values, values_of
from tinsmith.cli.registered import STUDIES
from tinsmith.types.errors import ConfigError

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("without_pictures")]

BY_KEYS = [name for name in MEASURED if name in STUDIES]
PAGES = {"sweep": ("sweep.html", 4), "moe/wander": ("wander.html", 4), "rubric_quality": ("report.html", 4)}
"""The page, and its tables."""


@pytest.fixture(scope="module")
def frozen() -> dict[str, Any]:
    return json.loads((Path(__file__).parents[1] / "golden" / "measurements.json").read_text())


@pytest.mark.parametrize("name", MEASURED)
def test_its_smallest_run_has_the_values_that_were_committed_and_a_page(
    name: str, frozen: dict[str, Any], tmp_path: Path
) -> None:
    folder = measured(name, tmp_path / "out")
    assert values_of(name, folder) == figures(frozen[name])
    file, tables = PAGES.get(name, ("", 0))
    if tables:
        assert (folder / file).read_text(encoding="utf-8").count("<table") >= tables
    for markdown in folder.glob("*.md"):
        assert markdown.read_text(encoding="utf-8").count("| --- |") >= tables


def test_made_up_searches_come_to_the_values_that_were_committed(frozen: dict[str, Any], tmp_path: Path) -> None:
    now = searched_values(tmp_path / "out")
    assert now == {key: frozen["prompt_search"][key] for key in now}


@pytest.mark.parametrize("name", BY_KEYS)
def test_every_key_has_words_and_what_is_no_key_is_refused(name: str) -> None:
    keys = STUDIES[name].all_keys()
    assert all(key.words for key in keys.own)
    assert {"seed", "draw_seed"} & {key.name for key in keys.own}
    for key, value in (("dry_run", "perhaps"), ("dry_rum", "true")):
        with pytest.raises(ConfigError) as refused:
            STUDIES[name].read({key: value})
        assert refused.value.field == key


@pytest.mark.parametrize("name", ["moe/wander", "rubric_quality"])
def test_a_dry_run_says_something_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    words: list[str] = []
    key = "log_path" if name == "rubric_quality" else "out"
    folder = STUDIES[name].run({**MEASURED[name], key: str(tmp_path / "out"), "dry_run": "true"}, words.append)
    assert words
    assert not folder.exists()
