"""Published pages of studies: each is rendered from its kept values, so that none can be stale."""

import importlib
from pathlib import Path

import pytest
from kept_pages import kept_markdown, kept_text, read_kept

pytestmark = pytest.mark.usefixtures("without_pictures")

RESULTS = Path(__file__).parents[1] / "docs" / "results"
KEPT = sorted((RESULTS / "values").glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_page_is_what_its_values_give(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    kept = read_kept(text)
    assert kept_text(kept) == text
    assert kept_markdown(kept) == (RESULTS / f"{file.stem}.md").read_text(encoding="utf-8")
    assert kept.provenance


def test_the_page_of_findings_is_today_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "scripts"))
    findings = importlib.import_module("findings")
    assert findings.rendered() == findings.PAGE.read_text(encoding="utf-8")
    sources = [row.source for row in findings.ROWS]
    assert len(sources) == len(set(sources)) == 21
    assert sum("[`" in findings.study_link(row, findings.DOCS) for row in findings.ROWS) == 21
    assert {row.source[:4] for row in findings.ROWS if row.lacks} == {"E007", "E009", "E019", "E082"}


def test_a_finding_without_a_page_is_not_run_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "scripts"))
    findings = importlib.import_module("findings")
    assert findings.rendered(tmp_path).count("not run yet: `tinsmith run ") == 21


def test_there_are_kept_values() -> None:
    assert KEPT
