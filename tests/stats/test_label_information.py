"""Mutual information of paper and label, on codes whose value is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import entropy

from tinsmith.stats.information import information, label_information
from tinsmith.types.errors import DataError


def test_a_permutation_code_tells_everything() -> None:
    assert label_information(np.eye(8)) == pytest.approx(math.log(8), abs=1e-12)


def test_one_answer_for_all_papers_tells_nothing_however_spread() -> None:
    assert label_information(np.tile([0.2, 0.5, 0.3], (50, 1))) == 0.0
    assert label_information(np.tile([1.0, 0.0, 0.0], (50, 1))) == 0.0


@settings(deadline=None)
@given(hnp.arrays(np.float64, (6, 3), elements=st.floats(0.01, 1)))
def test_it_is_the_entropy_of_the_mean_minus_the_mean_entropy(raw: np.ndarray) -> None:
    pi = raw / raw.sum(axis=1, keepdims=True)
    expected = entropy(pi.mean(axis=0)) - entropy(pi, axis=1).mean()
    assert label_information(pi) == pytest.approx(max(expected, 0.0), abs=1e-10)


def test_it_does_not_depend_on_the_order_of_the_papers() -> None:
    pi = np.random.Generator(np.random.PCG64(1)).dirichlet([1, 2, 3], 40)
    assert label_information(pi) == label_information(pi[::-1])


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(DataError, match="not a distribution"):
        label_information(np.array([[0.5, 0.6]]))
    with pytest.raises(DataError, match="shape"):
        label_information(np.zeros((0, 3)))


N = 64


def test_templates_that_do_not_depend_on_the_prompt_tell_nothing() -> None:
    each = np.log(np.random.default_rng(0).dirichlet(np.ones(8)))
    drawn = np.random.default_rng(1).integers(0, 8, N)
    found = information(np.repeat(each[drawn][:, None], N, axis=1))
    assert abs(found["mutual_information"]) < 1e-12
    assert found["retrieval_accuracy"] == 1 / N
    assert found["entropy_given_prompt"] > 1.0


def test_a_code_of_the_prompt_tells_all_of_it() -> None:
    scores = np.full((N, N), math.log(1e-9))
    np.fill_diagonal(scores, math.log(1.0 - (N - 1) * 1e-9))
    found = information(scores)
    assert found["mutual_information"] == pytest.approx(math.log(N), abs=1e-6)
    assert found["retrieval_accuracy"] == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_entropies_add_up_and_information_is_never_above_log_n(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(-20.0, 6.0, (16, 16))
    for found in (information(scores), information(scores, [3] * 16)):
        assert found["entropy"] == pytest.approx(found["mutual_information"] + found["entropy_given_prompt"], abs=1e-9)
        assert found["mutual_information"] <= math.log(16) + 1e-12


def test_it_is_the_plain_formula() -> None:
    scores = np.random.default_rng(3).normal(-5.0, 2.0, (7, 7))
    mixed = np.log(np.exp(scores).mean(axis=1))
    expected = (np.diagonal(scores) - mixed).mean()
    assert information(scores)["mutual_information"] == pytest.approx(expected, abs=1e-12)
    assert information(scores)["mi_z_score"] == pytest.approx(expected / (mixed.std() + 1e-3))


def test_by_token_every_answer_is_divided_by_its_length() -> None:
    scores = np.random.default_rng(4).normal(-9.0, 2.0, (5, 5))
    lengths = [1, 2, 3, 4, 5]
    found = information(scores, lengths)
    assert found["entropy_given_prompt"] == pytest.approx(-(np.diagonal(scores) / lengths).mean())


@pytest.mark.parametrize("scores", [np.zeros((2, 3)), np.zeros((1, 1)), np.array([[0.0, -np.inf], [0.0, 0.0]])])
def test_what_is_no_table_of_scores_is_refused(scores: np.ndarray) -> None:
    with pytest.raises(DataError):
        information(scores)


def test_an_answer_without_tokens_is_refused() -> None:
    with pytest.raises(DataError, match="lengths"):
        information(np.zeros((2, 2)), [1, 0])
