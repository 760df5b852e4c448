"""A bridge between two frozen models: texts, closed gates, what is trained, and equal values of equal runs."""

import json
from pathlib import Path

import pytest
import torch

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.measured import MeasuredSize
from tinsmith.studies.nets.blocks import causal_mask
from tinsmith.studies.nets.bridge import ANSWER, DIGITS, SIZES, TOKENS, bridge_between, coupled, frozen, learned, sums
from tinsmith.types.waits import unsaid

AMOUNTS = SIZES[MeasuredSize.SMALLEST]


def _pairs(texts: torch.Tensor) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for text in texts.tolist():
        digits = "".join(map(str, text[: 2 * DIGITS]))
        total = int("".join(map(str, text[: -ANSWER - 1 : -1])))
        found.append((int(digits[:DIGITS]), int(digits[DIGITS:]), total))
    return found


def test_an_answer_is_the_sum_with_its_last_digit_first_and_held_out_pairs_are_never_trained_on() -> None:
    held, train = _pairs(sums(200, 1, held_out=True)), _pairs(sums(4000, 2))
    assert len(held) == 200
    assert all(first + second == total for first, second, total in held + train)
    assert not {frozenset(one[:2]) for one in held} & {frozenset(one[:2]) for one in train}


def test_held_out_sums_are_all_different_and_their_numbers_stand_in_both_orders() -> None:
    held = _pairs(sums(512, 1, held_out=True))
    assert len({frozenset(one[:2]) for one in held}) == 512
    assert 200 < sum(first < second for first, second, _ in held) < 312


def test_the_asker_learns_from_sums_without_a_carry() -> None:
    plain = _pairs(sums(500, 3, carry=False))
    assert len(plain) == 500
    assert all(first % 10 + second % 10 < 10 and total < 100 for first, second, total in plain)


@pytest.mark.parametrize("around", [False, True])
def test_gates_at_zero_give_back_the_asker_to_the_last_bit(around: bool) -> None:
    models, parts = frozen(1, AMOUNTS), bridge_between(AMOUNTS.asker_width, AMOUNTS.adder_width)
    tokens = sums(8, 1)[:, :-1]
    alone = models[0](tokens, causal_mask(TOKENS))
    assert torch.equal(coupled(models, parts, tokens, opening=0.0, around=around), alone)
    assert not torch.equal(coupled(models, parts, tokens, around=around), alone)


def test_a_bridge_tells_the_adder_nothing_of_later_tokens() -> None:
    models, parts = frozen(1, AMOUNTS), bridge_between(AMOUNTS.asker_width, AMOUNTS.adder_width)
    tokens = sums(1, 1)[:, :-1]
    changed = tokens.clone()
    changed[0, 3] = (changed[0, 3] + 1) % 10
    moved = (coupled(models, parts, tokens) - coupled(models, parts, changed)).abs().amax(-1)[0] > 0
    assert moved.tolist() == [False] * 3 + [True] * (TOKENS - 3)


def test_only_the_bridge_is_trained() -> None:
    models = frozen(2, AMOUNTS)
    before = [one.clone() for model in models for one in model.parameters()]
    learned("bridge", 2, AMOUNTS)
    assert all(
        torch.equal(one, other) for one, other in zip(before, (p for m in models for p in m.parameters()), strict=True)
    )


def test_a_smallest_run_and_what_is_made_again_of_it_have_equal_values(tmp_path: Path) -> None:
    kept: list[dict[str, object]] = []
    for _ in range(2):
        frozen.cache_clear()
        learned.cache_clear()
        folder = STUDIES["bridge"].run({"size": "smallest", "seeds": "1", "out": str(tmp_path / "out")}, unsaid)
        kept.append(json.loads((folder / "study.json").read_text()))
        for file in sorted((folder / "cells").glob("*"))[::2]:
            file.unlink()
    assert kept[0] == kept[1]
