"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tinsmith.experiments.comparing import compare
    from tinsmith.experiments.estimators import GRPO, SFT
    from tinsmith.experiments.paper_sets import load_slice
    from tinsmith.training.connect import connect

__version__ = VERSION
__all__ = ["GRPO", "SFT", "__version__", "compare", "connect", "load_slice"]

_LAZY = {
    "GRPO": "tinsmith.experiments.estimators",
    "SFT": "tinsmith.experiments.estimators",
    "compare": "tinsmith.experiments.comparing",
    "connect": "tinsmith.training.connect",
    "load_slice": "tinsmith.experiments.paper_sets",
}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")
