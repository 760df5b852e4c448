import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.data.abstracts import MAX_POSITION, from_inverted_index, to_inverted_index
from tinsmith.types.errors import DataError


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"Hello": [0, 2], "world": [1]}, "Hello world Hello"),
        ({"a": [0], "b": [2]}, "a b"),
        ({"a": [5], "b": [100]}, "a b"),
        ({"b": [1], "a": [0]}, "a b"),
        ({"$x": [1], ".": [2], "a.b": [0]}, "a.b $x ."),
        ({"first": [0], "second": [0], "third": [1]}, "first third"),
        ({"a": [0, 0, 1]}, "a a"),
        ({"": [0], "a": [1]}, " a"),
        ({"a": []}, None),
        ({}, None),
        ({"end": [MAX_POSITION - 1], "start": [0]}, "start end"),
    ],
)
def test_an_index_becomes_text(index: dict[str, list[int]], text: str | None) -> None:
    assert from_inverted_index(index) == text


@pytest.mark.parametrize("index", [{"a": [-2]}, {"Hello": [-4], "world": [1]}, {"x": [-6], "y": [1], "z": [-4]}])
def test_a_negative_position_is_never_counted_from_the_end(index: dict[str, list[int]]) -> None:
    with pytest.raises(DataError, match="position"):
        from_inverted_index(index)


@pytest.mark.parametrize("position", [-1, -2, 1.5, 1.0, 10**9, MAX_POSITION, 2**70, "1", None, [1]])
def test_impossible_positions_are_refused_without_allocating(position: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="position"):
            from_inverted_index({"a": [0], "b": [position]})  # type: ignore[list-item]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1))
def test_text_survives_the_way_there_and_back(words: list[str]) -> None:
    text = " ".join(words)
    assert from_inverted_index(to_inverted_index(text)) == " ".join(text.split())
