"""Compilation of the kernels' sources by NVRTC, with a cache under TINSMITH_HOME by the sha256 of all inputs.

No compiler is needed at install time: the library comes with torch's CUDA wheels. Compiling needs no GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tinsmith.ops.extension import native
from tinsmith.types.errors import BackendError
from tinsmith.types.home import home
from tinsmith.types.source import PACKAGE

FLAGS: Final = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
"""Compiler flags: multiplication and addition fuse only in explicit fma calls; division and root are IEEE's."""

PROGRAMS: Final = ("products", "products_bf16", "products_nf4", "attention", "rows", "vocabulary", "state")
"""Sources compiled separately, each when one of its kernels is first launched."""

HEADERS: Final = ("canon.h", "args.h", "grid.cuh", "products.cuh")


def source(name: str) -> bytes:
    """Return one of the kernels' sources: from the checkout, or as installed beside the extension."""
    checkout, installed = PACKAGE.parent.parent / "native", Path(str(getattr(native, "__file__", PACKAGE))).parent
    folders = (checkout / "cuda", checkout, installed / "cuda_sources")
    return next(folder / name for folder in folders if (folder / name).is_file()).read_bytes()


@dataclass(frozen=True, slots=True)
class Compiler:
    """Loaded NVRTC library."""

    library: ctypes.CDLL
    version: str

    def compile(self, program: str, arch: str, *, kind: str = "CUBIN", flags: tuple[str, ...] = FLAGS) -> bytes:
        """Return a program's cubin (or its PTX) for an architecture such as "sm_90" (or "compute_90").

        Raises:
            BackendError: it does not compile; with the compiler's message.
        """
        rtc, handle = self.library, ctypes.c_void_p()
        text, name = source(f"{program}.cu"), f"{program}.cu".encode()
        headers = (ctypes.c_char_p * len(HEADERS))(*(source(each) for each in HEADERS))
        names = (ctypes.c_char_p * len(HEADERS))(*(each.encode() for each in HEADERS))
        self._check(rtc.nvrtcCreateProgram(ctypes.byref(handle), text, name, len(HEADERS), headers, names))
        try:
            options = [f"--gpu-architecture={arch}", *flags]
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if rtc.nvrtcCompileProgram(handle, len(options), given):
                raise BackendError(f"{program}.cu does not compile for {arch}: {self._read('ProgramLog', handle)!r}")
            return self._read(kind, handle)
        finally:
            rtc.nvrtcDestroyProgram(ctypes.byref(handle))

    def cubin(self, program: str, arch: str) -> tuple[bytes, str]:
        """Return a program's cubin, cached or compiled now, and its sha256."""
        digest = hashlib.sha256("\0".join((*FLAGS, self.version, arch, program)).encode())
        for name in (f"{program}.cu", *HEADERS):
            digest.update(hashlib.sha256(source(name)).digest())
        file = home() / "cuda" / f"{program}-{arch}-{digest.hexdigest()}.cubin"
        with suppress(OSError):
            stored = file.read_bytes()
            sha256, image = stored[:64].decode(errors="replace"), stored[64:]
            if hashlib.sha256(image).hexdigest() == sha256:
                return image, sha256
        image = self.compile(program, arch)
        sha256 = hashlib.sha256(image).hexdigest()
        with suppress(OSError):  # without a writable cache it is compiled again next time
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
            part.write_bytes(sha256.encode() + image)
            os.replace(part, file)
        return image, sha256

    def _read(self, kind: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._check(self.library[f"nvrtcGet{kind}Size"](handle, ctypes.byref(size)))
        out = ctypes.create_string_buffer(size.value)
        self._check(self.library[f"nvrtcGet{kind}"](handle, out))
        return out.raw

    def _check(self, code: int) -> None:
        if code:
            self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise BackendError(f"NVRTC: {self.library.nvrtcGetErrorString(code).decode()}")


@cache
def compiler() -> Compiler:
    """Load NVRTC.

    Raises:
        BackendError: it is not installed; one line.
    """
    library = _library()
    if library is None:
        raise BackendError("NVRTC is not here: install a CUDA build of torch, or 'pip install nvidia-cuda-nvrtc'")
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return Compiler(library, f"{major.value}.{minor.value}")


def _library() -> ctypes.CDLL | None:
    roots = [Path(entry) / "nvidia" for entry in sys.path if entry]
    found = sorted(lib for root in roots for lib in root.glob("*/lib/libnvrtc.so.1?"))
    for path in [*found, "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]:
        with suppress(OSError):
            for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)  # NVRTC opens it by name: preload it
            return ctypes.CDLL(str(path))
    return None
