"""A report as Markdown says what the HTML page says: the same figures, and the hashes and commands of its runs."""

import re
from pathlib import Path

import pytest
from fake_runs import LADDER, write_run
from pages_of import compared, page_of

from tinsmith.cli import main
from tinsmith.lab.page.markdown import markdown_of, markdown_report, table_lines
from tinsmith.pages.page import document_html

pytestmark = pytest.mark.whole


def test_tables_lists_and_headings_are_kept() -> None:
    html = (
        "<head><title>no</title></head><nav><a>no</a></nav><h1>A &amp; B</h1>"
        "<ul class='story'><li>one_two</li><li>x &lt; y</li></ul>"
        "<table><thead><tr><th>k</th><th>v</th></tr></thead><tbody><tr><th>a|b</th><td>1<small>2</small></td></tr>"
        "<tr><th colspan='2'>all</th></tr></tbody></table>"
        "<svg aria-label='from 1 to 2'><text>no</text></svg><script>no</script>"
    )
    assert markdown_of(html).splitlines() == [
        "# A & B",
        "",
        r"- one\_two",
        r"- x \< y",
        "",
        "| k | v |",
        "| --- | --- |",
        r"| a\|b | 1 (2) |",
        "| **all** |  |",
        "",
        "from 1 to 2",
    ]


def test_rows_are_as_wide_as_the_head() -> None:
    assert table_lines(["a", "b"], [["1"], ["1", "2"]])[2:] == ["| 1 |  |", "| 1 | 2 |"]


def test_every_figure_of_the_page_is_there(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "exp6", LADDER["exp6"])
    html = page_of(folder)
    markdown = markdown_report(html, [folder])
    body = re.sub(r"<(style|script|svg|head|nav|form|footer)\b.*?</\1>", "", html, flags=re.DOTALL)
    figures = set(re.findall(r"\d\.\d{3}", re.sub(r"<[^>]+>", " ", body)))
    assert figures
    assert figures <= set(re.findall(r"\d\.\d{3}", markdown))
    assert "| `eval/macro_f1` |" in markdown
    assert "tinsmith run remedy/exp6" in markdown
    assert "<" not in re.sub(r"\\<", "", markdown)


def test_the_same_folders_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, LADDER[name]) for name in ("exp4", "exp6")]
    once, again = (markdown_report(document_html(compared(folders).page), folders) for _ in range(2))
    assert once == again
    assert once.count("## Over the steps: ") == 2


def test_the_verb_writes_it_beside_the_html(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "exp6", LADDER["exp6"])
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), "--to", "md"])
    assert ended.value.code == 0
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# ")
    assert not (folder / "report.html").exists()
