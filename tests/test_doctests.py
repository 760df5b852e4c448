"""The examples in the docstrings of the package hold.

Only modules that have some are imported: most of these need no torch.
"""

import doctest
import importlib
from pathlib import Path

import pytest

import tinsmith

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
