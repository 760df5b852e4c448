"""Parts of a release: a lock that agrees with pyproject and names the public index alone, and one version."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tinsmith.types.version import VERSION

ROOT = Path(__file__).parents[1]


def _toml(name: str) -> Any:
    return tomllib.loads((ROOT / name).read_text("utf-8"))


def _of_project() -> Any:
    (project,) = [each for each in _toml("uv.lock")["package"] if each["name"] == "tinsmith"]
    return project


def test_the_lock_names_the_public_index_alone() -> None:
    hosts = set(re.findall(r'"https?://([^/"]+)', (ROOT / "uv.lock").read_text("utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    assert not re.search(r'(registry|path|url) = "(file:)?/', (ROOT / "uv.lock").read_text("utf-8"))


def test_the_lock_is_of_these_dependencies() -> None:
    project = _toml("pyproject.toml")["project"]
    asked = {(each.name, str(each.specifier)) for each in map(Requirement, project["dependencies"])}
    for extra in project["optional-dependencies"].values():
        asked |= {(each.name, str(each.specifier)) for each in map(Requirement, extra) if each.name != "tinsmith"}
    locked = {
        (each["name"], str(Requirement(f"x{each.get('specifier', '')}").specifier))
        for each in _of_project()["metadata"]["requires-dist"]
        if each["name"] != "tinsmith"
    }
    assert locked == asked


def test_there_is_one_version() -> None:
    assert _toml("pyproject.toml")["project"]["version"] == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "pyright", "lint-imports", "python scripts/"])
def test_what_make_check_runs_is_run_before_a_commit(command: str) -> None:
    makefile = re.search(r"^check:.*?\n\n", (ROOT / "Makefile").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert makefile is not None
    assert f"$(BIN)/{command}" in makefile[0]
    assert f"entry: .venv/bin/{command}" in (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert makefile[0].count("$(BIN)/") == 5
