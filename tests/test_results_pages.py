"""Published pages of studies: each is rendered from its kept values, so that none can be stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinsmith.lab.study.record import kept_text, read_kept
from tinsmith.lab.study.report import kept_markdown

RESULTS = Path(__file__).parents[1] / "docs" / "results"
KEPT = sorted((RESULTS / "values").glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_page_is_what_its_values_give(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    kept = read_kept(text)
    assert kept_text(kept) == text
    assert kept_markdown(kept) == (RESULTS / f"{file.stem}.md").read_text(encoding="utf-8")
    assert kept.provenance


def test_there_are_kept_values() -> None:
    assert KEPT
