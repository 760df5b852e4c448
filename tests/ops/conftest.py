"""State that any test of operations may change, and finds as it was."""

from collections.abc import Iterator

import pytest

from tinsmith.ops.extension import module
from tinsmith.ops.native import NativeKernels


@pytest.fixture(autouse=True)
def native_as_before() -> Iterator[None]:
    """Put back the native library's threads and instruction set."""
    native = module()
    threads, isa = native.num_threads(), native.isa()
    yield
    native.set_num_threads(threads)
    native.use_isa(isa)


@pytest.fixture(params=(1, 2))
def kernels(request: pytest.FixtureRequest) -> NativeKernels:
    """Kernels on one thread, and on two."""
    native = NativeKernels()
    native.set_threads(request.param)
    return native
