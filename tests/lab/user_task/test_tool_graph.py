"""Pieces of a graph of tools: depth, order of calls, what can be reached, against all sequences of calls there are."""

from collections.abc import Iterator
from random import Random
from typing import NewType

import pytest

from tinsmith import tools_of
from tinsmith.lab.user_task.tools import Piece, executed, reached
from tinsmith.types.errors import DataError

Plant, Metal, Sum = NewType("Plant", str), NewType("Metal", str), NewType("Sum", int)
BEGINS = {Plant: ["fern", "moss"]}


def ash(plant: Plant) -> Metal:
    return Metal(f"{plant[:1]}-ash")


def alloy(first: Metal, second: Metal) -> Metal:
    return Metal(f"{first}+{second}")


def weight(metal: Metal) -> Sum:
    return Sum(len(metal))


def spare(amount: Sum) -> str:
    return f"{amount} left"


TOOLS = tools_of(ash, alloy, weight, spare)


def tool(piece: Piece) -> str:
    return piece.call.partition("(")[0]


def every_value(calls: int, known: dict[object, set[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the results of every sequence of so many calls: by brute force, one call after the other."""
    if calls == 0:
        yield ()
        return
    for tool in TOOLS.tools.values():
        kinds = list(tool.inputs.values())
        firsts = [(one,) for one in sorted(known.get(kinds[0], ()))]
        more = firsts if len(kinds) == 1 else [(*a, b) for a in firsts for b in sorted(known.get(kinds[1], ()))]
        for of in more:
            value = str(TOOLS.answer(f"{tool.name}({', '.join(of)})"))
            left = {**known, tool.output: {*known.get(tool.output, ()), value}}
            yield from ((value, *rest) for rest in every_value(calls - 1, left))


def test_a_piece_has_the_depth_that_is_asked_for_and_its_calls_bring_its_value_in_order() -> None:
    for seed in range(40):
        for depth in (1, 2, 3):
            piece = executed(TOOLS, BEGINS, depth, Random(seed))
            assert piece.depth == depth
            assert set(piece.begins) <= {"fern", "moss"}
            assert piece == executed(TOOLS, BEGINS, depth, Random(seed))
            known = set(piece.begins)
            for call, value in piece.calls.items():
                assert set(call.partition("(")[2].rstrip(")").split(", ")) <= known
                assert TOOLS.answer(call) == value
                known.add(value)
            assert piece.value == [*piece.calls.values()][-1]


def test_what_is_reached_is_what_some_sequence_of_calls_brings() -> None:
    begins = {Plant: ["fern"]}
    one_round, two = reached(TOOLS, begins, 1), reached(TOOLS, begins, 2)
    assert one_round == {"ash(fern)": "f-ash"}
    assert two == {**one_round, "alloy(f-ash, f-ash)": "f-ash+f-ash", "weight(f-ash)": "5"}
    brute = {value for some in every_value(2, {Plant: {"fern"}}) for value in some}
    assert set(two.values()) == brute
    assert reached(TOOLS, begins, 0) == {}
    assert {value for some in every_value(3, {Plant: {"fern"}}) for value in some} <= set(
        reached(TOOLS, begins, 3).values()
    )


def test_a_value_that_is_known_at_first_is_no_call_and_what_cannot_follow_is_refused() -> None:
    assert (Piece("fern").depth, Piece("fern").calls, Piece("fern").begins) == (0, {}, ("fern",))
    assert {tool(executed(TOOLS, BEGINS, 1, Random(seed))) for seed in range(20)} == {"ash"}
    assert {tool(executed(TOOLS, BEGINS, 3, Random(seed))) for seed in range(60)} == {"alloy", "weight", "spare"}
    with pytest.raises(DataError, match="depth"):
        executed(tools_of(ash, spare), BEGINS, 2, Random(0))


City, Place = NewType("City", str), NewType("Place", str)


def place(city: City) -> Place:
    if city == "nowhere":
        raise LookupError(city)
    return Place(f"at {city}")


def test_a_value_with_a_comma_is_one_argument_and_an_error_is_no_value() -> None:
    tools = tools_of(place)
    piece = executed(tools, {City: ["Paris, Texas"]}, 1, Random(0))
    assert (piece.value, tools.answer(piece.call)) == ("at Paris, Texas", "at Paris, Texas")
    assert list(reached(tools, {City: ["nowhere", "Rome"]}, 1).values()) == ["at Rome"]
    with pytest.raises(DataError) as refused:
        executed(tools, {City: ["nowhere"]}, 1, Random(0))
    assert refused.value.field == "begins"
