"""Answers of before and after side by side, as the page's HTML has them."""

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_rubric_runs import NASTY, RubricStory, with_copies, write_rubric_run
from pages_of import document_of, page_of

from tinsmith.lab.page.examples import SHOWN
from tinsmith.pages.markdown import document_markdown

pytestmark = pytest.mark.whole


class Rows(HTMLParser):
    """The cells of a page's browser of rows, each as the pieces of text in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.heads: list[list[str]] = []
        self.rows: list[list[list[str]]] = []
        self.exact: list[str] = []
        self.filters: str | None = None
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if "data-filters" in known:
            self._inside, self.filters = True, known["data-filters"]
        elif self._inside and tag == "tr":
            self.rows.append([])
        elif self._inside and tag in ("th", "td"):
            self.rows[-1].append([])
            self.exact += [known["data-exact"] or ""] if "data-exact" in known else []

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead" and self._inside:
            self.heads = self.rows.pop()
        self._inside = self._inside and tag != "table"

    def handle_data(self, data: str) -> None:
        if self._inside and self.rows and self.rows[-1] and data.strip():
            self.rows[-1][-1].append(data)

    @property
    def results(self) -> Counter[str]:
        return Counter(row[-1][0] for row in self.rows)


def changed(folder: Path, item: str, step: int, **fields: object) -> None:
    """Change every sampled answer to an item at a step."""
    file = folder / "rollouts.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for one in lines:
        if (one["prompt_id"], one["step"], one["split"]) == (item, step, "eval"):
            one.update(fields)
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")


def test_each_item_has_its_prompt_both_answers_both_scores_and_what_came_of_it(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory(learned=6))
    holds = [{"passed": True, "rationale": ""}] * 3
    changed(folder, "nickel", 0, verdicts=holds)
    changed(folder, "lead", 4, failure={"where": "sample", "what": "TimeoutError: <i>late</i>"})
    found = Rows(page_of(folder))
    assert found.filters == "Result"
    assert [" ".join(one) for one in found.heads] == [
        "Item", "Prompt", "Before step 0", "pass rate before", "After step 4", "pass rate after", "Result",
    ]  # fmt: skip
    rows = {row[0][0]: row[1:] for row in found.rows}
    prompt, before, scored, after, ended, result = rows["tin"]
    assert (prompt, before[0], scored, after[0], ended) == (["Say tin."], "no 0.", ["0.667"], "tin 0.", ["1.000"])
    assert "fails: rule: contains word 'tin'" in before[1]
    assert result == ["better", "+0.333"]
    assert found.exact.count(repr(2 / 3)) >= 7
    assert rows["copper"][-1] == ["same"]
    assert rows["nickel"][-1] == ["worse", "-0.333"]
    assert rows["lead"][-3:] == [["sample: TimeoutError: <i>late</i>"], ["failed"], ["failed"]]
    assert found.results == {"better": 5, "same": 1, "worse": 1, "failed": 1}


def test_a_page_holds_so_many_items_rare_results_whole(tmp_path: Path) -> None:
    folder = with_copies(write_rubric_run(tmp_path / "run", RubricStory()), 30)
    changed(folder, "tin-3", 4, failure={"where": "sample", "what": "late"})
    html = page_of(folder)
    found = Rows(html)
    assert len(found.rows) == SHOWN
    assert found.results == {"better": SHOWN - 1, "failed": 1}
    assert f"{SHOWN} of 240 evaluated items are here" in html
    assert [row[0][0] for row in found.rows] == sorted(row[0][0] for row in found.rows)
    assert len(html.encode()) < 400_000


def test_a_long_text_is_cut_and_no_text_becomes_markup(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory(nasty=True))
    changed(folder, "tin", 4, text="<b>" + 10_000 * "x")
    html = page_of(folder)
    rows = {row[0][0]: row for row in Rows(html).rows}
    assert rows["tin"][4][0] == "<b>" + 1497 * "x" + " [cut]"
    assert rows["lead"][1] == [f"Say lead.{NASTY}"]
    assert "<img" not in html


def test_one_evaluation_has_answers_and_no_result(tmp_path: Path) -> None:
    found = Rows(page_of(write_rubric_run(tmp_path / "run", RubricStory(examined=[4]))))
    assert found.filters == ""
    assert [one[0] for one in found.heads] == ["Item", "Prompt", "Answer", "pass rate"]
    assert len(found.rows) == 8


def test_markdown_has_the_first_rows(tmp_path: Path) -> None:
    text = document_markdown(document_of(write_rubric_run(tmp_path / "run", RubricStory())))
    answers = text.partition("## Answers")[2].partition("\n## ")[0]
    assert [line.split(" | ")[0] for line in answers.splitlines() if line.startswith("| ")] == [
        "| Item", "| ---", "| copper", "| gold", "| iron", "| lead", "| nickel", "| silver",
    ]  # fmt: skip
