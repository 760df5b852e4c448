"""Fails where a CUDA package was installed on a machine without a GPU: gigabytes nobody asked for."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys

COMPILER = "nvidia-cuda-nvrtc"
"""Compiler of the CUDA kernels in the tests: it needs no GPU."""


def main() -> int:
    names = sorted({(d.metadata["Name"] or "").lower() for d in importlib.metadata.distributions()})
    cuda = [name for name in names if (name.startswith("nvidia-") and name != COMPILER) or name == "triton"]
    if cuda and shutil.which("nvidia-smi") is None:
        print(f"CUDA packages on a machine without a GPU: {', '.join(cuda)}", file=sys.stderr)
        print("do: install a CPU build of torch first, then run make again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
