"""What is written beside the code: links lead somewhere, every page is in the site, findings are short."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_LINES = 12
"""Of a finding in LOG.md."""


def _pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [ROOT / name for name in listed.stdout.split() if not name.startswith("src/")]
    return [page for page in found if page.exists()]


PAGES = _pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(str(p.relative_to(DOCS)) for p in PAGES if DOCS in p.parents)


def test_findings_are_short() -> None:
    text = (ROOT / "LOG.md").read_text("utf-8")
    findings = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert findings
    for finding in findings:
        title, *lines = re.split(r"^# ", finding, flags=re.MULTILINE)[0].strip().splitlines()
        assert re.match(r"\d{4}-\d{2}-\d{2}: ", title), title
        assert len(lines) <= MOST_LINES, title


def _links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"(?<!\\)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
