"""A report as Markdown says what the HTML page says: the same figures, and the hashes and commands of its runs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import FEW, LADDER, write_run
from markupsafe import Markup
from pages_of import compared, document_of, page_of

from command_line import command
from tinsmith.lab.page.report import markdown_report
from tinsmith.pages.document import (
    Bullets,
    ClaimTable,
    Document,
    Example,
    Fold,
    MarkedText,
    MarkedToken,
    Plate,
    Plates,
    Reply,
    Section,
    Tone,
    Words,
)
from tinsmith.pages.markdown import document_markdown, escaped, table_lines
from tinsmith.pages.page import document_html
from tinsmith.pages.tables import Cell, RowKind, Table, TableRow, absent, text

pytestmark = pytest.mark.whole


def test_every_kind_of_block_has_its_words_and_figures() -> None:
    table = Table(
        caption="",
        heads=(text("k"), text("v")),
        rows=(
            TableRow(name=text("a|b"), cells=(Cell(text="1", under="2"),)),
            TableRow(name=text("all"), kind=RowKind.GROUP),
            TableRow(name=text("c"), cells=(absent("not known"),)),
        ),
    )
    blocks = (
        Bullets(["one_two", "x < y"]),
        table,
        Plates([Plate("Reward", "a note", Markup('<svg aria-label="1 &lt; 2"><text>no</text></svg>'))]),
        Example(
            "item", [Words("asked", Tone.VERBATIM)], [Reply(title="Step 1", text="```", right=True, remark="reward 1")]
        ),
        MarkedText("tokens", [MarkedToken("a"), MarkedToken("b")]),
    )
    page = Document(kind="no", title="A & B", facts=(), sections=[Section("s", "S", blocks)])
    lines = document_markdown(page).splitlines()
    assert lines[0] == "# A & B"
    for line in (
        r"- one\_two",
        r"- x \< y",
        r"| a\|b | 1 (2) |",
        "| **all** |  |",
        "| c | not known |",
        r"- Reward: a note 1 \< 2",
        "Step 1, right, reward 1:",
        "````",
        "ab",
    ):
        assert line in lines, line


@pytest.mark.parametrize(
    ("plain", "markdown"),
    [
        *[
            ("# a", r"\# a"),
            ("- a", r"\- a"),
            ("1. a", r"1\. a"),
            ("~~a~~", r"\~\~a\~\~"),
            ("===", r"\==="),
            ("---", r"\---"),
        ],
        *[
            ("&lt;b", r"\&lt;b"),
            ("#1 a", "#1 a"),
            ("-0.5", "-0.5"),
            ("1.5", "1.5"),
            ("a & b", "a & b"),
            ("a # 1. b", "a # 1. b"),
        ],
    ],
)
def test_a_text_is_no_markup(plain: str, markdown: str) -> None:
    assert escaped(plain) == markdown


def test_a_first_line_break_of_a_verbatim_text_stays_on_the_page() -> None:
    page = Document(kind="no", title="t", facts=(), sections=[Section("s", "S", [Words("\na", Tone.VERBATIM)])])
    assert "<pre>\n\na</pre>" in document_html(page)


def test_rows_are_as_wide_as_the_head() -> None:
    assert table_lines(["a", "b"], [["1"], ["1", "2"]]).splitlines()[2:] == ["| 1 |  |", "| 1 | 2 |"]


def test_every_figure_of_the_page_is_there(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "exp6", replace(LADDER["exp6"], **FEW))
    html = page_of(folder)
    markdown = markdown_report(document_of(folder), [folder])
    body = re.sub(r"<(style|script|svg|head|nav|form|footer)\b.*?</\1>", "", html, flags=re.DOTALL)
    figures = set(re.findall(r"\d\.\d{3}", re.sub(r"<[^>]+>", " ", body)))
    assert figures
    assert figures <= set(re.findall(r"\d\.\d{3}", markdown))
    assert "| `eval/macro_f1` |" in markdown
    assert "tinsmith run remedy/exp6" in markdown
    assert "<" not in re.sub(r"\\<", "", markdown)


def test_the_same_folders_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, replace(LADDER[name], **FEW)) for name in ("exp4", "exp6")]
    once, again = (markdown_report(compared(folders).page, folders) for _ in range(2))
    assert once == again
    assert once.count("## Over the steps: ") == 2


def test_the_verb_writes_it_beside_the_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "exp6", replace(LADDER["exp6"], **FEW))
    assert command(capsys, "report", folder, "--to", "md").code == 0
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# ")
    assert not (folder / "report.html").exists()


def test_both_pages_say_the_same_of_claims_whatever_the_split_and_the_decoding(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, replace(LADDER[name], **FEW)) for name in ("exp6", "sft")]
    page = compared(folders).page
    folds = [block for section in page.sections for block in section.blocks if isinstance(block, Fold)]
    tables = [block for fold in folds for block in fold.blocks if isinstance(block, ClaimTable)]
    rows = [row for one in tables for row in one.rows]
    assert [row for row in rows if not row.allowed]
    for written in (document_html(page), document_markdown(page)):
        assert all(one.caption in Markup(written).unescape() for one in tables)
        assert written.count("It is about ") == len(rows)
