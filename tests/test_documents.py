"""Documents beside the code: links, files and imports are there, the site is whole, findings are short."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import tinsmith
from tinsmith.cli.registered import STUDIES
from tinsmith.lab.results.arms import TITLES
from tinsmith.lab.study.study import Study
from tinsmith.server import runs, samplers
from tinsmith.server.access.limits import MOST_BYTES
from tinsmith.server.access.turns import ROOM
from tinsmith.server.futures import KEEP_BYTES, KEEP_IN_ALL, KEEP_PER_OWNER
from tinsmith.server.presence import MOST_SESSIONS
from tinsmith.types.version import VERSION

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_LINES = 12
"""Of a finding in LOG.md."""


FOREIGN = frozenset({"FILE.py", "my_study.py", "my_task.py", "tinker_disruption_env.py"})
"""Files that pages name and that lie elsewhere."""


_FOLDERS = ("tests", "bench", "scripts", "lab", "studies", "stats", "engine", "ops", "models", "server")
"""Folders of source files; a page for users names none of their files."""


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


NUMBERS = [
    ("server.md", f"A sampling gap is given up after {samplers.GAP_SECONDS:g} s"),
    ("server.md", f"A training gap is given up after {runs.GAP_SECONDS:g} s"),
    ("server.md", f"number that does not come within {samplers.GAP_SECONDS:g} s"),
    ("server.md", f"has all the room alone) | {ROOM >> 20} MiB |"),
    ("server.md", f"| {KEEP_PER_OWNER:,}; {KEEP_IN_ALL:,}; {KEEP_BYTES >> 30} GiB |"),
    ("server.md", f"| {MOST_SESSIONS:,}; {samplers.MOST_OPEN:,}; {samplers.MOST_OPEN:,} |"),
    ("serving-others.md", f"{ROOM >> 20} MiB of bodies that are being read, and {ROOM >> 20} MiB of those"),
    ("serving-others.md", f"{MOST_BYTES >> 30} GiB where nothing is said"),
]
"""Limits of the server as its pages say them."""


@pytest.mark.parametrize(("page", "words"), NUMBERS)
def test_limits_are_said_as_they_are(page: str, words: str) -> None:
    assert words in (DOCS / page).read_text(encoding="utf-8")


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


def test_pages_for_users_name_no_source_file() -> None:
    listed, _, _ = (ROOT / "mkdocs.yml").read_text("utf-8").partition('"For users: results"')
    pages = re.findall(r"([\w-]+\.md)$", listed, re.MULTILINE)
    assert len(pages) > 40
    spans = {page: re.findall(r"`([^`\n]+)`", _prose(DOCS / page)) for page in pages}
    source = re.compile(rf"(?:{'|'.join(_FOLDERS)})/[\w./]+|[\w./]+\.(?:py|[ch]pp|sh)")
    named = {(page, name) for page, each in spans.items() for span in each for name in source.findall(span)}
    ours = [(page, name) for page, name in named if name.rstrip("/") in TAILS and not name.startswith("examples/")]
    assert sorted(ours) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_examples_import_is_there(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for node in [node for block in blocks for node in ast.walk(ast.parse(block))]:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tinsmith"):
            missing = {alias.name for alias in node.names} - _names_of(str(node.module))
            assert not missing, (node.module, missing)


def test_studies_without_a_smallest_size_are_named() -> None:
    page = (DOCS / "which-size.md").read_text("utf-8")
    (sentence,) = re.findall(r"[^.]* have no `smallest`", page)
    values = {name: study.value() for name, study in STUDIES.items()}
    has_size = {name: "size" in inspect.signature(one).parameters for name, one in values.items() if callable(one)}
    has_smallest = {name: "smallest" in one.sizes for name, one in values.items() if isinstance(one, Study)} | has_size
    assert set(re.findall(r"`([\w/]+)`", sentence)) - {"smallest"} == {n for n, has in has_smallest.items() if not has}


def test_titles_of_experiments_are_those_of_their_pages() -> None:
    page = (DOCS / "labels.md").read_text("utf-8")
    rows = re.findall(r"^\| `((?:ladder|remedy|control)/\w+)` \| (.+?) \|$", page, re.MULTILINE)
    assert {"ladder/exp4", "ladder/exp5", "remedy/exp6"} <= {name for name, _ in rows}
    assert all(TITLES[name] == title for name, title in rows)


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    page = set(re.findall(r"^::: tinsmith\.(\w+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE))
    assert set(tinsmith.__all__) - {"__version__"} <= page


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
    """Return the names in a module; enough to see that an example is of yesterday."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    names = set[str]()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def _links(page: Path) -> list[str]:
    return re.findall(r"(?<!\\)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", _prose(page)))


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


PACKAGE = Path(tinsmith.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    assert found.attempted > 0, "an example that is skipped shows nothing"


def test_there_are_examples() -> None:
    assert len(MODULES) > 20


SCRIPTS = sorted(file for folder in ("examples", "bench", "scripts") for file in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_imported_from_the_package_is_there(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tinsmith":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_a_docstring_that_begins_with_a_question_word_is_refused_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    questions = importlib.import_module("check_sizes").questions
    source = (
        '"""Whether a module."""\nSIZE = 1\n"""Number of items."""\nclass A:\n    """\n    What it is."""\n'
        '    size: int\n    """How many."""\n    def f(self):\n        """Return the size."""\n'
        '        return """Where it is."""\n'
    )
    assert [problem.split(":")[0] for problem in questions(source)] == ["1", "5", "8"]


SCRIPT = Path(__file__).parents[1] / "scripts" / "newest_sdk.py"


def test_the_installed_sdk_is_the_recorded_one() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--installed"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 0 new, 0 gone, 0 unknown " in done.stdout


def _toml(name: str) -> Any:
    return tomllib.loads((ROOT / name).read_text("utf-8"))


def _of_project() -> Any:
    (project,) = [each for each in _toml("uv.lock")["package"] if each["name"] == "tinsmith"]
    return project


def test_the_lock_names_the_public_index_alone() -> None:
    hosts = set(re.findall(r'"https?://([^/"]+)', (ROOT / "uv.lock").read_text("utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    assert not re.search(r'(registry|path|url) = "(file:)?/', (ROOT / "uv.lock").read_text("utf-8"))


def test_the_lock_is_of_these_dependencies() -> None:
    project = _toml("pyproject.toml")["project"]
    requests = {(each.name, str(each.specifier)) for each in map(Requirement, project["dependencies"])}
    for extra in project["optional-dependencies"].values():
        requests |= {(each.name, str(each.specifier)) for each in map(Requirement, extra) if each.name != "tinsmith"}
    locked = {
        (each["name"], str(Requirement(f"x{each.get('specifier', '')}").specifier))
        for each in _of_project()["metadata"]["requires-dist"]
        if each["name"] != "tinsmith"
    }
    assert locked == requests


def test_there_is_one_version() -> None:
    assert _toml("pyproject.toml")["project"]["version"] == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "pyright", "lint-imports", "python scripts/"])
def test_what_make_check_runs_is_run_before_a_commit(command: str) -> None:
    makefile = re.search(r"^check:.*?\n\n", (ROOT / "Makefile").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert f"$(BIN)/{command}" in makefile[0]
    assert f"entry: .venv/bin/{command}" in (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert makefile[0].count("$(BIN)/") == 5


PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.whole
def test_the_engines_example_runs_and_trains() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [each for each in blocks if "Engine(" in each]
    names: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    session = names["session"]
    assert session.optimizer.step_count == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert len(names["result"].sequences) == 4  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("page", ["kept-tasks", "labels", "stats", "your-study", "your-task"])
def test_a_page_s_examples_run_as_they_stand(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.with_stem(page).read_text(encoding="utf-8"), flags=re.DOTALL)
    by_themselves = [block for block in blocks if "run(" not in block]  # a run has tests of its own
    assert by_themselves
    for block in by_themselves:
        exec(compile(block, page, "exec"), {"__name__": page})
