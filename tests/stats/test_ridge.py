"""Ridge regression without BLAS: what numpy's own solver gives, and matrices that it refuses."""

import numpy as np
import pytest

from tinsmith.stats.ridge import Moments, dots, solve
from tinsmith.types.errors import DataError

X = np.random.default_rng(0).normal(size=(30, 7))
U = np.random.default_rng(1).normal(size=30)


def test_a_fit_is_the_minimum_of_the_mean_squared_error_and_its_penalty() -> None:
    found = Moments.none(7).with_rows(X, U).fitted(0.1)
    assert found == pytest.approx(np.linalg.solve(X.T @ X / 30 + 0.1 * np.eye(7), X.T @ U / 30), abs=1e-12)
    assert dots(X, found) == pytest.approx(X @ found, abs=1e-12)


def test_what_was_there_before_counts_less_by_its_decay() -> None:
    one = Moments.none(7).with_rows(X, U).with_rows(X[:3], U[:3], decay=0.5)
    weights = np.concatenate([np.full(30, 0.5), np.ones(3)])
    rows, labels = np.concatenate([X, X[:3]]), np.concatenate([U, U[:3]])
    assert one.weight == 18.0
    assert one.outer_DD == pytest.approx(rows.T @ (rows * weights[:, None]), abs=1e-12)
    assert one.labelled_D == pytest.approx(rows.T @ (weights * labels), abs=1e-12)


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    with pytest.raises(DataError):
        solve(np.diag([1.0, -1.0]), np.ones(2))
