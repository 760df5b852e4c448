"""Splits: the seeds' recorded hashes, and a native scheme that never moves a paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.data.slices.splits import (
    Split,
    id_hashes,
    ids_sha256,
    legacy_counts,
    legacy_sha256,
    legacy_splits,
    native_codes,
)


@pytest.mark.golden
def test_legacy_scheme_reproduces_the_recorded_split_of_36() -> None:
    splits = legacy_splits([f"SYNTHW{i:07d}" for i in range(1, 37)], 20260220)
    assert [len(splits[split]) for split in Split] == [29, 4, 3]
    assert legacy_sha256(splits) == ("9785f330efeb93af4f4370eb5d70bfdae9e1379b51cefee6502826b0ad962820")


@pytest.mark.golden
def test_legacy_scheme_reproduces_the_recorded_split_of_1000() -> None:
    splits = legacy_splits([f"W{i}" for i in reversed(range(1000))], 0)
    assert splits[Split.TEST][:3] == ["W567", "W905", "W393"]
    assert legacy_sha256(splits) == ("1dfd0d829a3989e080db80da1bce1faa6c03fb1448eb62d09f36170bafd04bd3")


@pytest.mark.parametrize(
    ("total", "counts"),
    [(1_972_797, (1_578_237, 197_280, 197_280)), (36, (29, 4, 3)), (10, (8, 1, 1)), (1, (1, 0, 0)), (0, (0, 0, 0))],
)
def test_largest_remainder(total: int, counts: tuple[int, ...]) -> None:
    assert legacy_counts(total) == counts


def test_500k_split_of_the_seeds() -> None:
    assert legacy_counts(393_456 + 49_182 + 49_182) == (393_456, 49_182, 49_182)


ids = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=40)


@given(ids, ids, st.integers(0, 3))
def test_adding_papers_never_moves_one(old: list[str], new: list[str], seed: int) -> None:
    alone = dict(zip(old, native_codes(id_hashes(old, seed)[0]).tolist(), strict=True))
    both = [*(one for one in new if one not in alone), *reversed(old)]
    together = dict(zip(both, native_codes(id_hashes(both, seed)[0]).tolist(), strict=True))
    assert all(together[one] == code for one, code in alone.items())


def test_native_shares_and_independence_of_the_two_hashes() -> None:
    share, rank = id_hashes([f"W{i}" for i in range(20_000)], 0)
    codes = native_codes(share)
    assert np.bincount(codes) / len(codes) == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    lowest = codes[np.argsort(rank)[:2_000]]  # what a cap takes has the same shares
    assert np.bincount(lowest) / len(lowest) == pytest.approx([0.8, 0.1, 0.1], abs=0.03)


def test_the_bounds_of_the_shares() -> None:
    words = [0, int(0.8 * 2**64) - 2**12, int(0.8 * 2**64) + 2**12, 2**64 - 1]
    assert native_codes(np.array(words, np.uint64)).tolist() == [0, 0, 1, 2]


@pytest.mark.golden
def test_native_hashes_are_fixed() -> None:
    share, rank = id_hashes(["W1", "9711200"], 0)
    assert [hex(word) for word in (*share.tolist(), *rank.tolist())] == GOLDEN_WORDS
    assert id_hashes(["W1"], 1)[0][0] != share[0]
    assert id_hashes([], 0)[0].shape == (0,)


GOLDEN_WORDS = ["0x89bd29b869048878", "0xf91274eee6f1619b", "0xb22805db55ea91de", "0xaae16ab1a91feee8"]


def test_the_hash_of_a_set_of_ids_has_no_order() -> None:
    assert ids_sha256(["b", "a"]) == ids_sha256(["a", "b"]) != ids_sha256(["a"])
