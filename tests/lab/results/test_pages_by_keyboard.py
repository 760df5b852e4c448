"""A run's page by keyboard alone, in headless Chromium: rows, folds and filters; and tables and figures taken along."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from driven import Driven, driven
from fake_rubric_runs import RubricStory, with_copies, write_rubric_run
from headless import needs_browser
from pages_of import report_of

from tinsmith.lab.page.run_page import compared
from tinsmith.lab.runs.reader import read_run, read_task_run

pytestmark = [needs_browser, pytest.mark.whole, pytest.mark.pictures]

ITEMS = 64
HERE = "document.activeElement"
FORMULAS = ('=HYPERLINK("http://a","b")', "+1+1", "-2 apples", "@SUM(A1)", "-0.5", "+7", "1,000", "two, three\nfour")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged run of 64 items, of which 40 gain; the answers to the first ones would be formulas."""
    made = with_copies(write_rubric_run(tmp_path_factory.mktemp("run") / "run", RubricStory(learned=5)), 8)
    file, texts = made / "rollouts.jsonl", dict[str, str]()
    lines: list[str] = []
    for line in file.read_text("utf-8").splitlines():
        one = json.loads(line)
        if one["split"] == "eval" and one["step"] > 0 and len(texts) < len(FORMULAS):
            one["text"] = texts.setdefault(one["prompt_id"], FORMULAS[len(texts)])
        lines.append(json.dumps(one))
    file.write_text("\n".join(lines) + "\n", "utf-8")
    report_of(made)
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    with driven(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def page(browser: Driven, folder: Path) -> Driven:
    browser.open(folder / "report.html")
    return browser


def tab_to(page: Driven, condition: str) -> None:
    """Press tab until the focus is where `condition` holds."""
    for _ in range(200):
        page.press("Tab")
        if page.says(f"Boolean({HERE}.matches({json.dumps(condition)}))"):
            return
    raise AssertionError(f"tab never comes to {condition}")


def row(page: Driven) -> str:
    return page.says(f"{HERE}.closest('tr')?.cells[0].textContent ?? ''")


def shown_rows(page: Driven) -> list[str]:
    return page.says("[...document.querySelectorAll('[data-filters] tbody th')].map((e) => e.textContent)")


def taken(page: Driven, kind: str, place: str) -> tuple[str, str]:
    """Focus the first button of a kind in a section, press enter, and return the file."""
    page.says(f"[...document.querySelectorAll('{place} .take button')].find((e) => e.textContent === '{kind}').focus()")
    page.press("Enter")
    return page.downloaded()


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_arrows_go_through_the_rows_and_pages_turn(page: Driven) -> None:
    tab_to(page, "[data-filters] tbody tr")
    first = shown_rows(page)
    assert len(first) == 25
    assert row(page) == first[0]
    page.press("ArrowDown", "ArrowDown", "ArrowUp")
    assert row(page) == first[1]
    page.press("End", "ArrowDown")
    assert row(page) == first[-1]
    page.press("Home", "ArrowUp")
    assert row(page) == first[0]
    page.press("PageDown")
    second = shown_rows(page)
    assert not set(first) & set(second)
    assert row(page) == second[0]
    page.press("ArrowDown", "PageUp")
    assert row(page) == first[0]
    # One stop for the whole list: tab leaves it, and comes back to the row that was left.
    page.press("ArrowDown", "Tab")
    assert page.says(f"{HERE}.textContent") == "CSV"
    page.press("Tab", shift=True)
    assert row(page) == first[1]


def test_the_pager_keeps_the_focus_at_its_ends(page: Driven) -> None:
    tab_to(page, ".pager button")
    assert page.says(f"{HERE}.textContent") == "Next"  # nothing is before the first page
    page.press("Enter", "Space")
    assert page.says(f"{HERE}.textContent") == "Previous"  # the last page: there is no next one
    assert len(shown_rows(page)) == ITEMS - 50


def test_search_and_filter_work_by_keyboard(page: Driven) -> None:
    tab_to(page, "[name=result]")
    page.press("ArrowDown")
    assert page.says(f"{HERE}.value") == "better"
    assert page.says("document.querySelector('[role=status]').textContent") == "1 to 25 of 40 rows"
    name = shown_rows(page)[3]
    page.press("Tab")
    page.types(name.upper())
    assert shown_rows(page) == [name]
    page.press("Enter")  # sends nothing
    assert shown_rows(page) == [name]
    page.press("Tab", "Enter")
    assert page.says(f"{HERE}.textContent") == "Clear"
    assert page.says(
        "new Promise((done) => setTimeout(() => done(document.querySelector('[role=status]').textContent)))"
    ) == ("1 to 25 of 64 rows")


def test_folds_open_and_close_by_enter_and_space(page: Driven) -> None:
    tab_to(page, "details:not([open]) > summary")
    page.press("Enter")
    assert page.says(f"{HERE}.parentElement.open") is True
    page.press("Space")
    assert page.says(f"{HERE}.parentElement.open") is False


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_stop_of_the_keyboard_is_seen(page: Driven, folder: Path, dark: bool) -> None:
    page.open(folder / "report.html", dark=dark)
    stops = page.says("[...document.querySelectorAll('a, button, input, select, summary, [tabindex=\"0\"]')].length")
    names: set[str] = set()
    for _ in range(stops):
        page.press("Tab")
        name, width, style, color, back = page.says(
            f"(() => {{ const s = getComputedStyle({HERE}); const b = getComputedStyle(document.body);"
            f"return [{HERE}.tagName, s.outlineWidth, s.outlineStyle, s.outlineColor, b.backgroundColor]; }})()"
        )
        if name == "BODY":  # the end of the page
            break
        names.add(name)
        assert (width, style) == ("2px", "solid"), name
        assert color != back
    assert {"A", "BUTTON", "SELECT", "INPUT", "TR", "SUMMARY", "DIV"} <= names


def test_a_tables_figures_are_taken_in_full(page: Driven, folder: Path) -> None:
    gain = compared(read_task_run(read_run(folder)))[0]
    name, text = taken(page, "CSV", "#gains")
    assert name.endswith("-gains-1.csv")
    (first, *_) = table(text)
    difference = "difference, 95 % interval"
    assert (float(first[f"{difference}: low"]), float(first[difference]), float(first[f"{difference}: high"])) == (
        gain.delta.low,
        gain.delta.value,
        gain.delta.high,
    )
    assert float(first["from"]) == gain.first.mean()
    assert first["from"] != f"{gain.first.mean():.3f}"


def test_what_a_model_wrote_is_no_formula_in_a_spreadsheet(page: Driven) -> None:
    _, text = taken(page, "CSV", "#answers")
    after = [one["After, step 4"] for one in table(text)]
    assert len(after) == ITEMS
    wanted = ["'" + one if one[0] in "=+-@" and one not in ("-0.5", "+7") else one for one in FORMULAS]
    assert set(wanted) <= set(after)
    assert not set(FORMULAS) - set(wanted) & set(after)


def test_a_filtered_table_is_taken_as_it_is_filtered(page: Driven) -> None:
    page.says("document.querySelector('[name=result]').focus()")
    page.press("ArrowDown")
    _, text = taken(page, "CSV", "#answers")
    assert {one["Result"] for one in table(text)} == {"better"}
    assert len(table(text)) == 40


def test_a_figure_stands_alone_in_the_colours_of_the_light_scheme(page: Driven, folder: Path) -> None:
    light = taken(page, "SVG", "#summary")[1]
    page.open(folder / "report.html", dark=True)
    name, dark = taken(page, "SVG", "#summary")
    assert name.endswith("-summary-1.svg")
    assert dark == light
    assert "var(" not in light
    root = ElementTree.fromstring(light)
    assert root.tag.endswith("svg")
    assert float(root.attrib["width"]) > float(root.attrib["height"]) > 0


def test_every_button_says_what_it_gives(page: Driven) -> None:
    names = page.says("[...document.querySelectorAll('.take button')].map((e) => e.ariaLabel)")
    assert len(names) == page.says("document.querySelectorAll('main table, svg.figure').length")
    assert all(one.startswith(("CSV of: ", "SVG of: ")) and len(one) > 10 for one in names)


def test_without_the_script_and_on_paper_there_are_no_buttons(page: Driven, folder: Path) -> None:
    html = (folder / "report.html").read_text("utf-8").partition("<script>")[0]
    assert not any(tag in html for tag in ("<button", "<form", "<select"))
    assert html.partition(" data-filters=")[2].count("<tr>") >= ITEMS
    page.call("Emulation.setEmulatedMedia", media="print")
    shown = page.says(
        "[...document.querySelectorAll('button, select, input')].filter((e) => e.checkVisibility()).length"
    )
    page.call("Emulation.setEmulatedMedia", media="")
    assert shown == 0
