"""Sampler against trainer at a temperature other than 1: on the same few texts, or not at all."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tinker import types

from tinsmith.lab.grouping import Scored, ScoredGroup
from tinsmith.lab.policy import AGREEMENT_PROBED, update_policy
from tinsmith.lab.rollouts import Rollout, Turn
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.types.errors import BackendError

AT_ONE, DRAWN = -0.5, -0.25  # Log-probability of any token at temperature 1, and at that of the rollouts.
BITS, KL = "optim/unequal_logprob_bits", "optim/kl_sample_train"


class Trainer:
    """Stand-in for a training client: each token after the first has the log-probability of temperature 1."""

    def forward_backward(self, datums: Sequence[types.Datum], loss: str) -> Any:
        del loss
        logprobs = [np.full(one.model_input.length, AT_ONE, np.float32) for one in datums]
        found = SimpleNamespace(loss_fn_outputs=[{"logprobs": each} for each in logprobs], metrics={})
        return SimpleNamespace(result=lambda _: found)

    def optim_step(self, params: object) -> Any:
        del params
        return SimpleNamespace(result=lambda _: SimpleNamespace(metrics={}))


class Sampler:
    """Stand-in for a sampling client that scores texts, the last token of each with `off` added."""

    def __init__(self, off: float = 0.0) -> None:
        self.off, self.texts = off, list[list[int]]()

    def compute_logprobs(self, text: types.ModelInput) -> Any:
        self.texts.append(text.to_ints())
        found = [None, *[AT_ONE] * (text.length - 2), AT_ONE + self.off]
        return SimpleNamespace(result=lambda _: found)


class Silent(Sampler):
    """Stand-in for one of a server that scores no text."""

    def compute_logprobs(self, text: types.ModelInput) -> Any:
        raise BackendError(f"{text.length} log-probabilities are not told")


def compared(sampler: Sampler | None, temperature: float = 0.5) -> dict[str, float]:
    turns = [(Turn(observation=(1, place), tokens=(4, 5), logprobs=(DRAWN, DRAWN), text="one"),) for place in range(20)]
    scored = [
        Scored(
            rollout=Rollout(item=None, sample=0, turns=each, answer=None),
            terms=NamedTerms(values={}, total=0.0),
            advantage=1.0,
        )
        for each in turns
    ]
    groups = [ScoredGroup(item=None, scored=(one,), failures=(), informative=True) for one in scored]
    settings = RlSettings(steps=1, learning_rate=1e-3, temperature=temperature, groups_per_batch=20)
    trainer, client = (Trainer(), sampler)
    return update_policy(trainer, groups, settings, 0, None, sampler=client)  # pyright: ignore[reportArgumentType]


def test_one_model_agrees_at_any_temperature_on_a_few_of_the_rollouts() -> None:
    sampler = Sampler()
    found = compared(sampler)
    assert found[BITS] == found[KL] == 0.0
    assert 1 < len(sampler.texts) <= AGREEMENT_PROBED
    assert sampler.texts[0] == [1, 0, 4, 5]


def test_two_models_differ() -> None:
    sampler = Sampler(0.5)
    found = compared(sampler)
    assert found[BITS] == len(sampler.texts)
    assert found[KL] == pytest.approx(0.25)


@pytest.mark.parametrize("sampler", [None, Silent()])
def test_nothing_is_compared_where_no_text_is_scored(sampler: Sampler | None) -> None:
    assert not {BITS, KL} & set(compared(sampler))


def test_at_temperature_one_no_text_is_scored_and_every_rollout_compared() -> None:
    sampler = Sampler()
    assert compared(sampler, 1.0)[BITS] == 2 * 20
    assert sampler.texts == []
