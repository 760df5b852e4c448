"""Ridge regression in a fixed order of sums, with the same bits on every machine, unlike BLAS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over rows x with labels u: of their weights, of x x^T, and of u x."""

    weight: float
    outer_DD: Floats
    labelled_D: Floats

    @classmethod
    def none(cls, width: int) -> Moments:
        """Return the sums over no rows."""
        return cls(0.0, np.zeros((width, width)), np.zeros(width))

    def with_rows(self, x_ND: Floats, u_N: Floats, decay: float = 1.0) -> Moments:
        """Add rows to the sums, with the earlier sums multiplied by `decay`."""
        outer, labelled = decay * self.outer_DD, decay * self.labelled_D
        for x, u in zip(x_ND, u_N, strict=True):
            outer += x[:, None] * x[None, :]
            labelled += u * x
        return Moments(decay * self.weight + len(x_ND), outer, labelled)

    def hessian(self, ridge: float) -> Floats:
        """Return E[x x^T] + ridge I, the Hessian of the mean of (phi x - u)^2 / 2 plus ridge |phi|^2 / 2."""
        matrix = self.outer_DD / self.weight
        matrix[np.diag_indices_from(matrix)] += ridge
        return matrix

    def fitted(self, ridge: float) -> Floats:
        """Return the weights phi that minimise that loss."""
        return solve(self.hessian(ridge), self.labelled_D / self.weight)


def solve(matrix_DD: Floats, right_D: Floats) -> Floats:
    """Solve A x = b for a positive definite A, by Cholesky's L L^T."""
    left, x, width = matrix_DD.copy(), right_D.copy(), len(right_D)
    for j in range(width):
        if not left[j, j] > 0.0:
            raise DataError("this matrix is not positive definite", field="matrix", value=float(left[j, j]))
        left[j:, j] /= np.sqrt(left[j, j])
        left[j + 1 :, j + 1 :] -= left[j + 1 :, j, None] * left[None, j + 1 :, j]
        x[j] /= left[j, j]
        x[j + 1 :] -= x[j] * left[j + 1 :, j]
    for j in reversed(range(width)):
        x[j] /= left[j, j]
        x[:j] -= x[j] * left[j, :j]
    return x


def dots(x_ND: Floats, w_D: Floats) -> Floats:
    """Return x w for each row."""
    total = np.zeros(len(x_ND))
    for column, w in zip(x_ND.T, w_D, strict=True):
        total += column * w
    return total
