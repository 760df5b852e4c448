"""The notebooks of examples/ run at their smallest size, show their results as HTML, and ask nothing of a network."""

import ast
import asyncio
import json
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from tinsmith.lab.papers.worlds import LoadedSlice
from tinsmith.lab.user_task.run import TaskRun

pytestmark = pytest.mark.whole

EXAMPLES = Path(__file__).parents[1] / "examples"


def shown(notebook: str) -> list[Any]:
    """Run a notebook's cells in order, on an event loop as kernels do; return the values that cells end with."""

    async def on_a_loop() -> list[Any]:
        return _run(notebook)

    return asyncio.run(on_a_loop())


def _run(notebook: str) -> list[Any]:
    cells = json.loads((EXAMPLES / notebook).read_text("utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells), "notebooks are kept without what they printed"
    names: dict[str, Any] = {"__name__": "__main__"}
    values: list[Any] = []
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        name, source = f"<{notebook} {number}>", "".join(cell["source"])
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name  # as kernels do
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            values.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
    return [value for value in values if value is not None]  # as kernels show them


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and home, no address but this machine's, and the module that tells a kernel."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def page_of(value: Any) -> str:
    html = value._repr_html_()
    assert html.startswith('<iframe srcdoc="')
    assert "http" not in html.split("srcdoc=")[0]
    return html


def test_a_task_of_ones_own_is_run_and_shown(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    done, metrics, rollouts = shown("own_task.ipynb")
    assert isinstance(done, TaskRun)
    assert "Does it learn to answer in letters?" in page_of(done)
    assert metrics["step"].to_list() == [0, 1, 2, 3, 4]
    assert metrics.columns[0] == "step"
    assert "train/reward/total" in done.plot().svg
    assert rollouts.height == 8
    assert done.rollouts.filter(pl.col("split") == "train").height == 4 * 4 * 2
    bar = [line for line in capfd.readouterr().err.split("\n") if line.count("\r") > 1]
    assert len(bar) == 1, "one line that is written anew"
    assert "step 4/4" in bar[0].split("\r")[-1]
    assert "async" not in caplog.text, "the SDK warns of nothing"


def test_a_corpus_of_ones_own_records_is_labelled_and_shown() -> None:
    record, papers, table = shown("labelled_corpus.ipynb")
    assert record["id"] == "https://openalex.org/W100"
    assert isinstance(papers, LoadedSlice)
    assert "card" in page_of(papers).lower()
    assert len(papers.train) + len(papers.validation) + len(papers.test) == 90
    assert set(table["label"]) <= {"disruptive", "consolidating", "neutral"}
