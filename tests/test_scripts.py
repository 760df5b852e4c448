"""What examples, benchmarks and scripts import from the package is there: no other check reads them."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(file for folder in ("examples", "bench", "scripts") for file in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
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
