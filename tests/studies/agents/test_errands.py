"""Words that agents put together: what a reply adds, who is right, how many there are, and equal budgets."""

from itertools import pairwise, product
from random import Random

import pytest

from tinsmith.lab.user_task.dialogue import score_group
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.ops.native import NativeKernels
from tinsmith.studies.coupled_agents import LOST, NONE, added, agents_of, errands, shown, study
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.errors import ConfigError

PAIR = {"id": "anchor-basket", "first": "anchor", "second": "basket"}


def test_a_demonstration_repeats_or_adds_by_habit_and_no_reply_adds_two_words() -> None:
    random = Random(2)
    for _ in range(200):
        words = [NONE, *shown(PAIR, random)]
        for before, after in pairwise(words):
            assert after in {before, added(before, "anchor"), added(before, "basket")}
    assert LOST in {one for _ in range(50) for one in shown(PAIR, random)}


def test_how_often_habits_are_right_by_brute_force_falls_with_the_number_of_agents() -> None:
    def chance(agents: int) -> float:
        total = 0.0
        for way in product((("", 0.4), ("anchor", 0.3), ("basket", 0.3)), repeat=agents):
            text, weight = NONE, 1.0
            for word, share in way:
                text, weight = added(text, word) if word else text, weight * share
            total += weight * (text == "anchor basket")
        return total

    assert chance(1) == 0.0
    assert chance(3) == pytest.approx(3 * 0.4 * 0.3 * 0.3)
    assert chance(7) == pytest.approx(21 * 0.4**5 * 0.3 * 0.3)


def test_only_both_words_in_their_order_are_right() -> None:
    for last, right in (("anchor basket", 1.0), ("basket anchor", 0.0), ("anchor", 0.0), (LOST, 0.0)):
        (found,) = score_group(errands(), PAIR, [["anchor", last]])
        assert found.metrics == {"right": right}


def test_agents_are_read_with_the_steps_from_which_they_are_there() -> None:
    assert agents_of("7") == {0: 7}
    assert errands(nodes="3,5@4").turns.agents_by_step == {0: 3, 4: 5}  # type: ignore[union-attr]
    alone = errands(nodes="3", adapters="one").turns
    assert (alone.most, alone.several_agents) == (3, False)
    for wrong in ("many", "3@", "5,3@4", "3@2", "3,5@x"):
        with pytest.raises(ConfigError):
            errands(nodes=wrong)


def test_all_arms_train_as_many_parameters() -> None:
    base = open_base("tinsmith/nano", seed=0)
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    trained: set[int] = set()
    for arm in study.arms:
        keys = {"nodes": "3", **arm.keys}
        by_size = keys["nodes"]
        nodes = by_size if isinstance(by_size, str) else by_size["nano"]  # type: ignore[index, call-overload]
        agents = 1 if keys.get("adapters") == "one" else max(agents_of(str(nodes)).values())
        adapter = create_adapter(decoder, AdapterSpec(rank=int(str(keys["lora_rank"]))))
        trained.add(agents * sum(weight.value.numel() for weight in adapter.weights()))
    assert len(trained) == 1
