"""Tasks written from executed calls: labels, replays, ablated edges, fewer calls by brute force, and the cache."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from tinsmith.lab.user_task.dialogue import converse, score_group
from tinsmith.lab.user_task.tools import Piece
from tinsmith.studies.backchain import (
    BELIEVED,
    CITIES,
    DEEPEST,
    MOST_CALLS,
    PEOPLE,
    SHUFFLED,
    TOOLS,
    Chain,
    asked,
    backchained,
    chains,
    is_solved_sooner,
    shown,
    sooner,
)

OBSERVED = chains(240, "train")


def run_again(piece: Piece, other: tuple[int, str] | None = None) -> str:
    """Replay a piece from its tree; `other` puts another word in place of what its n-th part brought."""
    values = [run_again(one) for one in piece.parts]
    if other is not None:
        values[other[0]] = other[1]
    tool = piece.call.partition("(")[0]
    return str(TOOLS.answer(f"{tool}({', '.join(values)})")) if piece.parts else piece.value


def test_the_world_is_the_same_whenever_it_is_asked_and_knows_nothing_of_other_words() -> None:
    assert TOOLS.answer("home(bad)") == TOOLS.answer("home(bad)")
    assert all(TOOLS.answer(f"home({one})") in CITIES for one in PEOPLE[:50])
    for wrong in ("home(bod)", "mayor(bad)", "boss(x)"):
        lines = TOOLS.answer(wrong)
        assert lines.startswith("error: nothing is known")
    assert not {*PEOPLE} & {*CITIES}


def test_every_trace_replays_to_its_answer_and_is_as_deep_as_it_should_be() -> None:
    for place, one in enumerate(OBSERVED):
        assert run_again(one.piece) == one.piece.value == one.label
        assert all(TOOLS.answer(call) == value for call, value in one.piece.calls.items())
        assert one.piece.depth == place % DEEPEST + 1 == int(one.id.split("-")[1])
        assert len(one.piece.calls) <= MOST_CALLS
    assert Counter(len(one.piece.parts) for one in OBSERVED)[2] > 5, "some tools take what two others brought"


def test_no_task_is_solved_by_fewer_calls_than_it_is_deep() -> None:
    """Every call that can be made is made, one after the other, with all that is known: brute force."""
    for one in OBSERVED[:60]:
        known = {(): {*one.piece.begins}}
        for _ in range(one.piece.depth - 1):
            longer: dict[tuple[str, ...], set[str]] = {}
            for made, values in known.items():
                for tool in TOOLS.tools.values():
                    for of in product(sorted(values), repeat=len(tool.inputs)):
                        brought = str(TOOLS.answer(f"{tool.name}({', '.join(of)})"))
                        longer[(*made, f"{tool.name}{of}")] = {*values, brought}
            known = longer
        assert not any(one.piece.value in values for values in known.values())
        assert not is_solved_sooner(one.piece)


def test_an_edge_that_is_cut_changes_the_answer() -> None:
    for one in OBSERVED:
        words = {True: PEOPLE, False: CITIES}
        for number, part in enumerate(one.piece.parts):
            known = words[part.value in PEOPLE]
            others = [known[(known.index(part.value) + step) % len(known)] for step in (1, 7, 50)]
            assert any(run_again(one.piece, (number, other)) != one.piece.value for other in others)


def test_believed_labels_err_as_often_as_can_be_computed_and_shuffled_ones_always() -> None:
    believed = chains(3_000, "held_out", BELIEVED)
    wrong = Counter[int]()
    for one in believed:
        wrong[len(one.piece.calls)] += one.label != one.piece.value
    many = Counter(len(one.piece.calls) for one in believed)
    for calls in (1, 2, 3):
        assert wrong[calls] / many[calls] == pytest.approx(1 - 0.8**calls, abs=0.05)
    assert [one.piece for one in chains(240, "train", BELIEVED)] == [one.piece for one in OBSERVED]
    shuffled = chains(240, "train", SHUFFLED)
    assert sum(one.label == one.piece.value for one in shuffled) <= 3
    assert sorted(one.label for one in shuffled) == sorted(one.label for one in OBSERVED)


def test_the_sides_begin_with_other_people() -> None:
    begins = [
        {name for one in chains(count, side) for name in one.piece.begins}
        for side, count in (("train", 240), ("held_out", 48), ("base", 100))
    ]
    assert not begins[0] & begins[1]
    assert not (begins[0] | begins[1]) & begins[2]


def test_a_cache_brings_what_the_tools_bring_and_flags_the_rest() -> None:
    record = {call: value for one in OBSERVED for call, value in (sooner(one.piece) | one.piece.calls).items()}
    cached = TOOLS.replayed(record)
    assert all(cached.answer(call) == TOOLS.answer(call) == value for call, value in record.items())
    others = [f"home({name})" for name in PEOPLE if f"home({name})" not in record]
    assert cached.missed([*record, *others, "answer bad"]) == others


def test_the_task_asks_in_words_and_rewards_the_label() -> None:
    joined = next(one for one in OBSERVED if len(one.piece.parts) == 2)
    first, second = joined.piece.parts
    assert asked(joined.piece) == f"({asked(first)} and {asked(second)})'s middle"
    task = backchained()
    talk = converse(task, joined)
    for call, value in joined.piece.calls.items():
        assert talk.say(call) == value
    assert talk.say(f"answer {joined.label}") is None
    (found,) = score_group(task, joined, [talk.replies])
    assert found.total == 1.0  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
    assert "home(person: Person) -> City" in str(backchained(explain=True).prompt(joined))  # type: ignore[operator]  # pyright: ignore[reportCallIssue]


def test_the_base_is_shown_right_calls_that_often_end_too_early() -> None:
    deep: list[Chain] = [one for one in OBSERVED if one.piece.depth == DEEPEST]
    text = [shown(one, Random(number)) for number, one in enumerate(deep)]
    assert all(reply in one.piece.calls for one, replies in zip(deep, text, strict=True) for reply in replies[:-1])
    ends = sum(replies[-1] == f"answer {one.label}" for one, replies in zip(deep, text, strict=True)) / len(deep)
    assert ends == pytest.approx(0.6**2, abs=0.12)
