"""Cutting of a request into units: rows are shared exactly where tokens are, and only the request decides."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.engine.units import Unit, units_of
from tinsmith.ops.forest import Forest
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import IntArray

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=12).map(
    lambda rows: [np.array(row, np.int32) for row in rows]
)
"""Three tokens, so that most beginnings are shared."""


def of(*texts: str) -> list[IntArray]:
    return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]


def trees(sequences: list[IntArray], limit: int = 1 << 20) -> list[Unit]:
    return units_of(sequences, GradientUnit.TREE, tree_rows=limit)


def text(unit: Unit) -> str:
    return bytes(unit.tokens.astype(np.uint8)).decode()


@given(SEQUENCES, st.integers(1, 40))
def test_every_datum_is_read_back_from_the_rows_of_its_unit(sequences: list[IntArray], limit: int) -> None:
    units = trees(sequences, limit)
    assert sorted(i for unit in units for i in unit.datums) == list(range(len(sequences)))
    firsts = [unit.datums[0] for unit in units]
    assert firsts == sorted(firsts)
    forest = Forest.of([unit.nodes for unit in units])
    for begin, unit in zip(forest.units.tolist(), units, strict=False):
        for i, rows in zip(unit.datums, unit.rows_of, strict=True):
            assert unit.tokens[rows].tolist() == sequences[i].tolist()
            positions = forest.rows.positions[begin + rows].tolist()
            assert positions == list(range(len(sequences[i])))
            ends = [path for path in forest.paths if path[-1] == begin + rows[-1]]
            assert [path.tolist() for path in ends] == [(begin + rows).tolist()]


@given(SEQUENCES, st.integers(1, 40))
def test_a_unit_has_a_row_for_each_beginning_of_its_datums_and_no_other(sequences: list[IntArray], limit: int) -> None:
    for unit in trees(sequences, limit):
        own = [sequences[i] for i in unit.datums]
        assert unit.num_rows == len({tuple(s[: n + 1].tolist()) for s in own for n in range(len(s))})


@given(SEQUENCES, st.integers(1, 40))
def test_a_unit_of_several_datums_keeps_within_the_limit(sequences: list[IntArray], limit: int) -> None:
    longest = max(map(len, sequences))
    for unit in trees(sequences, limit):
        assert unit.num_rows <= max(limit, 2 * longest)


@given(SEQUENCES)
def test_what_is_not_shared_would_have_saved_little(sequences: list[IntArray]) -> None:
    beginnings = {tuple(s[: n + 1].tolist()) for s in sequences for n in range(len(s))}
    assert 7 * sum(unit.num_rows for unit in trees(sequences)) <= 8 * 3 * len(beginnings)


def test_branches_come_in_the_order_of_the_datums() -> None:
    (unit,) = trees(of("stem-b", "stem-a", "stem", "stem-b", "stem-az"))
    assert text(unit) == "stem-baz"
    assert unit.datums == (0, 1, 2, 3, 4)
    assert [tuple(node) for node in unit.nodes] == [(0, 4), (4, 1), (5, 1), (5, 1), (6, 1)]


def test_datums_of_several_stems_may_be_mixed() -> None:
    one, other = trees(of("a1", "b1", "a2", "b2"))
    assert (one.datums, text(one)) == ((0, 2), "a12")
    assert (other.datums, text(other)) == ((1, 3), "b12")


def test_a_tree_is_cut_between_branches_and_each_part_has_the_stem_again() -> None:
    sequences = of("stem-one", "stem-two", "stem-six", "stem-nil")
    assert [text(unit) for unit in trees(sequences, 17)] == ["stem-onetwosixnil"]
    assert [unit.datums for unit in trees(sequences, 16)] == [(0, 1, 2), (3,)]
    assert [text(unit) for unit in trees(sequences, 16)] == ["stem-onetwosix", "stem-nil"]


def test_a_tree_may_always_be_twice_as_large_as_its_longest_datum() -> None:
    sequences = of("a long stem: 1", "a long stem: 2", "a long stem: 3")
    assert [text(unit) for unit in trees(sequences, 1)] == ["a long stem: 123"]


def test_a_beginning_that_saves_little_is_not_shared() -> None:
    sequences = of("? one and only", "? two, who knows", "? one and again")
    assert [unit.datums for unit in trees(sequences)] == [(0, 2), (1,)]


def test_a_datum_that_begins_others_goes_with_the_first_of_them() -> None:
    sequences = of("?", "? one and only", "? two, who knows")
    assert [unit.datums for unit in trees(sequences)] == [(0, 1), (2,)]


def test_a_chain_of_beginnings_deeper_than_the_stack_of_calls() -> None:
    depth = sys.getrecursionlimit() + 100
    whole = np.arange(depth, dtype=np.int32) % 7
    (unit,) = trees([whole[: n + 1] for n in range(depth)])
    assert unit.num_rows == depth


@pytest.mark.parametrize("how", list(GradientUnit))
def test_single_datums_are_units_either_way(how: GradientUnit) -> None:
    units = units_of(of("abc", "d", "ef"), how)
    assert [(unit.datums, text(unit)) for unit in units] == [((0,), "abc"), ((1,), "d"), ((2,), "ef")]


def test_datums_by_themselves_share_nothing() -> None:
    units = units_of(of("abc", "abd", "abc"), GradientUnit.DATUM)
    assert [text(unit) for unit in units] == ["abc", "abd", "abc"]
