"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tinsmith.training.connect import connect

__version__ = VERSION
__all__ = ["__version__", "connect"]

_LAZY = {"connect": "tinsmith.training.connect"}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")
