"""pass@k by hand, by enumeration and against the product form."""

import itertools
import math

import pytest

from tinsmith.ops.passk import pass_at_k
from tinsmith.types.errors import InputError


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(n=64, c=3, k=8) == pytest.approx(0.334677, abs=5e-7)
    assert pass_at_k(n=64, c=1, k=1) == 0.015625
    assert pass_at_k(n=5, c=0, k=5) == 0.0
    assert pass_at_k(n=5, c=1, k=5) == 1.0


def test_pass_at_k_counts_the_draws_that_hold_a_correct_sample() -> None:
    for n, c in [(5, 2), (6, 1), (4, 4)]:
        for k in range(1, n + 1):
            draws = list(itertools.combinations(range(n), k))
            hits = sum(1 for draw in draws if min(draw) < c)
            assert pass_at_k(n=n, c=c, k=k) == hits / len(draws)


def test_pass_at_k_agrees_with_the_product_form() -> None:
    for c in range(1, 65):
        product = 1.0 - math.prod(1.0 - 16 / i for i in range(64 - c + 1, 65))
        assert pass_at_k(n=64, c=c, k=16) == pytest.approx(product, rel=1e-12)


@pytest.mark.parametrize(("n", "c", "k", "field"), [(4, 5, 1, "c"), (4, -1, 1, "c"), (4, 1, 0, "k"), (4, 1, 5, "k")])
def test_an_impossible_draw_is_named(n: int, c: int, k: int, field: str) -> None:
    with pytest.raises(InputError, match=f"field: {field} = "):
        pass_at_k(n=n, c=c, k=k)
