"""Puts this folder on the path, for modules that suites share; the same examples everywhere, and long files first."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# Servers put their tokenizers there; read when huggingface_hub is imported, here and in the servers.
os.environ["HF_HUB_CACHE"] = str(Path(tempfile.gettempdir()) / "tinsmith-tests-hub")

# A busy machine is no finding, and an example that only one machine drew is none that another can look at.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take a minute first: begun last, one of them keeps a worker busy while the other waits."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
