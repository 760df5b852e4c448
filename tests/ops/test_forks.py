"""Turn-level advantages: by hand, ragged, and unbiased against the enumerated gradient of a tiny policy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.ops.advantages import Advantage
from tinsmith.ops.forks import turn_advantages
from tinsmith.types.errors import InputError


def test_by_hand() -> None:
    found = turn_advantages(np.array([[1.2, -1.0], [1.2, 1.2], [-1.0, -1.0]]))
    np.testing.assert_allclose(found.second_FK[0], [1.1, -1.1], rtol=1e-15)
    assert not found.second_FK[1].any()
    assert not found.second_FK[2].any()
    np.testing.assert_allclose(found.first_F, [0.1 - 0.1, 1.2 - 0.1, -1.0 - 0.1], atol=1e-15)
    loo = turn_advantages(np.array([[1.0, 0.0], [1.0, 1.0]]), Advantage.RLOO)
    np.testing.assert_allclose(loo.second_FK, [[1.0, -1.0], [0.0, 0.0]])
    np.testing.assert_allclose(loo.first_F, [-0.5, 0.5])


def test_rows_of_different_lengths_and_groups_of_one() -> None:
    found = turn_advantages([np.array([0.1, 0.1, 0.1]), np.array([0.1])], Advantage.RLOO)
    assert found.first_F.tolist() == [0.0, 0.0]  # equal means are equal bits
    assert [row.tolist() for row in found.second_FK] == [[0.0, 0.0, 0.0], [0.0]]
    alone = turn_advantages(np.array([[1.0, 0.0]]))
    assert alone.first_F.tolist() == [0.0]


@pytest.mark.parametrize(
    "bad", [[], [np.array([])], [np.array([[1.0]])], [np.array([np.nan])], [np.array([1.0, np.inf])]]
)
def test_what_is_no_table_of_returns(bad: list[np.ndarray]) -> None:
    with pytest.raises(InputError):
        turn_advantages(bad)


RETURNS = st.lists(st.floats(-2, 2, width=32), min_size=2, max_size=4)


@given(st.lists(RETURNS, min_size=2, max_size=4))
def test_order_changes_no_bit_and_everything_is_centred(rows: list[list[float]]) -> None:
    found = turn_advantages([np.array(row) for row in rows])
    turned = turn_advantages([np.array(row[::-1]) for row in rows[::-1]])
    assert found.first_F.tobytes() == turned.first_F[::-1].tobytes()
    for row, other in zip(found.second_FK, turned.second_FK[::-1], strict=True):
        assert row.tobytes() == other[::-1].tobytes()
        assert row.sum() == pytest.approx(0.0, abs=1e-12)
    assert found.first_F.sum() == pytest.approx(0.0, abs=1e-12)


# A policy of two turns with two choices each: p = P(first = 1), q[first] = P(second = 1 | first).
P, Q = 0.3, (0.6, 0.2)
R = ((0.5, -1.0), (1.2, -0.3))
"""By first and second choice."""


def expected(rule: Advantage, g1: int, g2: int) -> tuple[float, np.ndarray]:
    """E of mean A1 dlog p and of mean A2 dlog q, by the logits, over every table of g1 x g2 draws."""
    of_first, of_second = 0.0, np.zeros(2)
    rows = list(product((0, 1), product((0, 1), repeat=g2)))
    for drawn in product(rows, repeat=g1):
        chance = 1.0
        for first, seconds in drawn:
            chance *= P if first else 1 - P
            for second in seconds:
                chance *= Q[first] if second else 1 - Q[first]
        table = np.array([[R[first][second] for second in seconds] for first, seconds in drawn])
        found = turn_advantages(table, rule)
        for i, (first, seconds) in enumerate(drawn):
            of_first += chance * found.first_F[i] * (first - P) / g1
            for j, second in enumerate(seconds):
                of_second[first] += chance * found.second_FK[i][j] * (second - Q[first]) / (g1 * g2)
    return of_first, of_second


def truth() -> tuple[float, np.ndarray]:
    """The gradient of E[R] by the logits of p, q[0] and q[1]."""
    value = [Q[a] * R[a][1] + (1 - Q[a]) * R[a][0] for a in (0, 1)]
    of_first = P * (1 - P) * (value[1] - value[0])
    of_second = [w * Q[a] * (1 - Q[a]) * (R[a][1] - R[a][0]) for a, w in ((0, 1 - P), (1, P))]
    return of_first, np.array(of_second)


@pytest.mark.parametrize(("g1", "g2"), [(2, 2), (3, 2), (2, 3)])
def test_leave_one_out_is_unbiased_and_centring_only_shortens(g1: int, g2: int) -> None:
    first, second = truth()
    found = expected(Advantage.RLOO, g1, g2)
    assert found[0] == pytest.approx(first, rel=1e-12)
    np.testing.assert_allclose(found[1], second, rtol=1e-12)
    centred = expected(Advantage.CENTER, g1, g2)
    assert centred[0] == pytest.approx(first * (g1 - 1) / g1, rel=1e-12)
    np.testing.assert_allclose(centred[1], second * (g2 - 1) / g2, rtol=1e-12)
