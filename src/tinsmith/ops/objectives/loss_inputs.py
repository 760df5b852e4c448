"""Check that the inputs of a loss are finite numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.errors import InputError


def require_finite(values: NDArray[np.generic], field: str) -> None:
    """Reject an input that is not an array of finite numbers, naming its first invalid element.

    Raises:
        InputError: naming `field`, the element and its value.
    """
    if values.dtype.kind not in "iufb":
        raise InputError(
            "a loss input must be numbers", field=field, value=str(values.dtype), allowed="float32 or int64"
        )
    finite = np.isfinite(values.astype(np.float64))
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        raise InputError(
            "a loss input is not finite",
            field=field + "".join(f"[{int(i)}]" for i in at),
            value=float(values[at]),
            allowed="finite numbers",
        )
