"""What is written beside the code: links, files and imports are there, the site is whole, findings are short."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_LINES = 12
"""Of a finding in LOG.md."""


FOREIGN = frozenset({"FILE.py", "my_study.py", "my_task.py", "tinker_disruption_env.py"})
"""Files that pages name and that lie elsewhere."""


def _files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(name) for name in listed.stdout.splitlines() if (ROOT / name).exists()]


FILES = _files()
TAILS = frozenset("/".join(file.parts[n:]) for file in FILES for n in range(len(file.parts)))
"""Every path in the tree, and what is left of it without its first folders."""
PAGES = [ROOT / file for file in FILES if file.suffix == ".md" and file.parts[0] != "src"]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    spans = re.findall(r"`([^`\n]+)`", page.read_text("utf-8"))
    named = {name for span in spans for name in re.findall(r"[\w./-]+\.(?:py|[ch]pp|sh)\b", span)}
    assert sorted(named - TAILS - FOREIGN) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_examples_import_is_there(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for node in [node for block in blocks for node in ast.walk(ast.parse(block))]:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tinsmith"):
            missing = {alias.name for alias in node.names} - _names_of(str(node.module))
            assert not missing, (node.module, missing)


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


def _names_of(module: str) -> set[str]:
    """What a module names somewhere; enough to see that an example is of yesterday."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    names = set[str]()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"(?<!\\)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
