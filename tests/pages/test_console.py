import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import FEW, LADDER, write_run
from rich.console import Console
from rich.table import Table

from sentences import missing
from tinsmith.cli import main
from tinsmith.lab.results.label_page import compare_labels
from tinsmith.lab.results.label_page import console as table_of_labels
from tinsmith.pages.console import VisibleConsole

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("without_pictures")]


def run(*arguments: str) -> int:
    """Run the command line; return its exit code."""
    with pytest.raises(SystemExit) as caught:
        main(["report", *arguments])
    code = caught.value.code
    return code if isinstance(code, int) else 0


def test_the_table_fits_80_columns_and_has_the_baselines_below(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / key, LADDER[key]) for key in ("exp4", "exp5", "sft")]
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table_of_labels(compare_labels(folders)))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for words in ("RL (weighted)", "disruptive 9", "Metadata only", "210 papers"):
        assert words in text, words
    assert "..." not in text
    assert "\u2026" not in text


def test_one_run_is_reported_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", LADDER["sft"])
    assert run(str(folder)) == 0
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    verdict, claims, page = capsys.readouterr().out.splitlines()
    assert verdict.startswith("result: Better than guessing, ")
    assert missing(verdict, "macro-F1", "chance 0.333", "best baseline TF-IDF 0.425") == []
    assert claims.startswith("may be claimed: ")
    assert page == f"page: {(folder / 'report.html').as_uri()}"


def test_several_runs_are_compared_where_one_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [str(write_run(tmp_path / key, replace(LADDER[key], **FEW))) for key in ("exp4", "sft")]
    monkeypatch.chdir(tmp_path)
    assert run(*folders) == 0
    assert (tmp_path / "compare.html").exists()
    out = capsys.readouterr().out
    assert missing(out, "shuffled labels", "RL (accuracy)") == []
    assert out.endswith(f"page: {(tmp_path / 'compare.html').as_uri()}\n")


def test_a_mistake_is_few_lines_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", replace(LADDER["sft"], **FEW))
    assert run(str(tmp_path)) == 2
    assert run(str(folder), "--out", str(tmp_path / "no" / "page.html")) == 2
    error = capsys.readouterr().err
    assert missing(error, "folder", tmp_path, "--out", tmp_path / "no" / "page.html") == []
    assert error.count("\n") <= 10
    assert len(error.splitlines()) <= 10


def test_no_text_of_a_table_or_a_line_acts_on_the_terminal() -> None:
    out = io.StringIO()
    console = VisibleConsole(file=out, force_terminal=True, width=60, highlight=False, markup=False)
    table = Table("la\x1b]0;ownedbel\x07", title="\x9b2J")
    table.add_row("\x1b[31mred[/bold]\u202e")
    console.print(table)
    console.print("a \x1b[2J line", soft_wrap=True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # the console's own colours
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "\\u001b[2J line" in shown
    assert "[/bold]" in shown
