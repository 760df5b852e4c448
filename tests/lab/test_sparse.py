"""Sparse selection: which rollouts are kept, which tokens are pushed, and what a datum's weights come to."""

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import tinker

from tinsmith.lab import sft
from tinsmith.lab.grouping import Scored, ScoredGroup
from tinsmith.lab.rollouts import Rollout, Turn
from tinsmith.lab.service.served_policy import ServedPolicy, Spread
from tinsmith.lab.settings import Pushed, SparseSettings
from tinsmith.lab.sft import KL_TOKENS, Chosen, chosen_of, datum_of, gated_rollouts
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.types.errors import ConfigError

SETTINGS = SparseSettings(steps=3, learning_rate=1e-3, kept_items=2)


class Item:
    """One that is asked about."""

    def __init__(self, name: str) -> None:
        self.prompt_id = name


def rollout(name: str, length: int) -> Rollout[Item, None]:
    turn = Turn(observation=(9, 9), tokens=tuple(range(length)), logprobs=(0.0,) * length, text="said")
    return Rollout(item=Item(name), sample=0, turns=(turn,), answer=None)


def group(name: str, totals: list[float], *, length: int = 3) -> ScoredGroup[Item, None]:
    mean, spread = float(np.mean(totals)), float(np.std(totals))
    return ScoredGroup(
        item=Item(name),
        scored=tuple(
            Scored(
                rollout=rollout(name, length + place),
                terms=NamedTerms(values={"right": total}, total=total),
                advantage=(total - mean) / spread if spread else None,
            )
            for place, total in enumerate(totals)
        ),
        failures=(),
        informative=spread > 0.0,
    )


def names(kept: list[tuple[Rollout[Item, None], float]]) -> list[str]:
    return [one.item.prompt_id for one, _ in kept]


def test_items_nearest_a_half_are_kept_and_those_that_tell_nothing_are_not() -> None:
    groups = [
        group("never", [0.0, 0.0, 0.0, 0.0]),
        group("seldom", [1.0, 0.0, 0.0, 0.0]),
        group("half", [1.0, 1.0, 0.0, 0.0]),
        group("often", [1.0, 1.0, 1.0, 0.0]),
    ]
    assert set(names(chosen_of(groups, SETTINGS))) == {"half", "seldom"}


@pytest.mark.parametrize("total", [2.0, -1.0])
def test_rewards_that_no_half_lies_between_are_refused(total: float) -> None:
    with pytest.raises(ConfigError) as refused:
        chosen_of([group("half", [total, 0.0])], SETTINGS)
    assert (refused.value.field, refused.value.value) == ("reward", total)


def test_the_longest_fifth_is_dropped() -> None:
    groups = [group("half", [1.0, 0.0] * 5)]
    kept = chosen_of(groups, SETTINGS)
    assert [len(one.tokens) for one, _ in kept] == list(range(3, 11))


def test_advantages_are_cut_and_good_ones_may_stand_alone() -> None:
    groups = [group("seldom", [1.0, *[0.0] * 24])]
    both = chosen_of(groups, SETTINGS)
    assert max(advantage for _, advantage in both) == 2.5
    assert min(advantage for _, advantage in both) == pytest.approx(-1 / np.sqrt(24), rel=1e-9)
    alone = SparseSettings(steps=3, learning_rate=1e-3, pushed=Pushed.GOOD)
    assert [advantage for _, advantage in chosen_of(groups, alone)] == [2.5]


class _Base:
    """Uncertain after the third token of every text."""

    def spreads(self, texts: list[list[int]], begins: list[int]) -> list[Spread]:
        assert all(0 < begin < len(text) for begin, text in zip(begins, texts, strict=True))
        return [
            Spread(
                rank=(None, *[1] * (len(text) - 1)),
                entropy=(None, *(1.2 if at == 3 else 0.1 for at in range(1, len(text)))),
                logprob=(None, *[-0.1] * (len(text) - 1)),
                argmax=(None, *text[1:]),
            )
            for text in texts
        ]


def chosen() -> Chosen:
    (one,) = gated_rollouts(cast(ServedPolicy, _Base()), [(rollout("a", 3), -2.0)], SETTINGS)
    return one


def test_only_written_tokens_are_pushed_or_held() -> None:
    one = chosen()
    assert one.gated == (False, False, True, False)
    assert one.other == (False, True, False, True)


def test_a_datum_pushes_at_gated_tokens_and_holds_the_base_elsewhere() -> None:
    tops = [None, [(5, 0.0)], [(0, np.log(0.75)), (7, np.log(0.25))], [(3, 0.0)], [(4, 0.0)]]
    mass: list[float] = []
    made = datum_of(chosen(), tops, 0.5, 0.1, mass)
    targets, weights = (_array(made, name) for name in ("target_tokens", "weights"))
    assert targets.shape == weights.shape == (4, KL_TOKENS)
    assert weights[0].tolist() == [0.0] * KL_TOKENS
    assert (targets[1, :2].tolist(), weights[1, :2]) == ([0, 7], pytest.approx([0.075, 0.025]))
    assert (targets[2, 0], weights[2, 0]) == (1, -1.0)
    assert np.count_nonzero(weights[2]) == 1
    assert (targets[3, 0], weights[3, 0]) == (4, pytest.approx(0.1))
    assert mass == pytest.approx([1.0, 1.0])


def _array(made: tinker.Datum, name: str) -> np.ndarray:
    return made.loss_fn_inputs[name].to_numpy()


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"base_rollouts": 1}, "base_rollouts"),
        ({"asked_items": 0}, "asked_items"),
        ({"kept_items": 0}, "kept_items"),
        ({"entropy_threshold": -0.1}, "entropy_threshold"),
        ({"temperature": 0.0}, "temperature"),
    ],
)
def test_settings_out_of_range_are_told_by_their_key(values: dict[str, float], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        SparseSettings(steps=3, learning_rate=1e-3, **values)  # pyright: ignore[reportArgumentType]


class _Remembering:
    """A subject whose reward counts the answers that it scored."""

    def __init__(self) -> None:
        self.scored = 0

    def state(self) -> int:
        return self.scored

    def restore(self, state: int) -> None:
        self.scored = state

    def unit(self, item: Item) -> str:
        return item.prompt_id

    def score(self, rollouts: list[Any]) -> list[NamedTerms]:
        self.scored += len(rollouts)
        return [NamedTerms(values={}, total=float((self.scored + place) % 2)) for place in range(len(rollouts))]


def test_a_resumed_run_draws_as_its_first_step_did_and_goes_on_with_the_reward_that_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = [(rollout("a", 3), rollout("a", 4), rollout("a", 5))]
    monkeypatch.setattr(sft, "sample_groups", lambda *_: groups)
    monkeypatch.setattr(ServedPolicy, "base", lambda *_: None)
    monkeypatch.setattr(sft, "gated_rollouts", lambda _, kept, __: [_chosen_as(*one) for one in kept])
    subject = _Remembering()
    course = SimpleNamespace(subject=subject, train_items=[Item("a")])
    run: Any = SimpleNamespace(course=course, base=lambda: None, observe=lambda *_: None, connection=1, model_name="m")
    run.fresh = json.dumps(subject.state())
    first, _ = sft._drawn(run, SETTINGS, 0)
    assert subject.scored == 3
    subject.scored = 50
    assert sft._drawn(run, SETTINGS, 2)[0] == first
    assert subject.scored == 50


def _chosen_as(one: Any, advantage: float) -> Chosen:
    return Chosen(rollout=one, advantage=advantage, gated=(True,), other=(False,))
