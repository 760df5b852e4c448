"""Confidence along the reasoning: exact probabilities, what a penalty does to advantages, and both controls."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from small_study import open_run

from tinsmith.lab.confidence import probe_replies, shared_positions
from tinsmith.lab.grouping import answer_datum
from tinsmith.lab.rl import train
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import Prefixes, RlSettings, identity_settings
from tinsmith.lab.subject import Probe
from tinsmith.ops.confidence import FRACTIONS, premature
from tinsmith.types.errors import ConfigError

RL = RlSettings(steps=2, learning_rate=2e-3, lora_rank=4, group_size=2, groups_per_batch=2, max_tokens=8, seed=1)
FIRST = Probe(
    prompt=(5, 6, 7, 8), reasoning=(9, 10, 11, 12, 13), answers=((20, 21), (20, 22), (23,)), gold=1, answered=0
)
OTHER = replace(FIRST, prompt=(5, 6, 9), reasoning=(30, 31, 32), gold=0, answered=None)


def test_defaults_take_no_part_in_what_runs_are_told_apart_by() -> None:
    new = {"confidence_penalty", "confidence_prefixes"}
    assert not new & identity_settings(RL).keys()
    assert identity_settings(replace(RL, confidence_penalty=1.0))["confidence_penalty"] == 1.0


def test_a_penalty_is_not_below_zero() -> None:
    with pytest.raises(ConfigError, match="confidence_penalty"):
        replace(RL, confidence_penalty=-1.0)


def test_probabilities_are_those_of_each_text_by_itself(connection: Connection, tmp_path: Path) -> None:
    opened = open_run(connection, tmp_path / "run", RL)
    (found,) = probe_replies(opened.trainer, [FIRST])

    def alone(cut: int, answer: tuple[int, ...]) -> float:
        start = [*FIRST.prompt, *FIRST.reasoning[:cut]]
        datum = answer_datum([*start, *answer], len(start), 1.0)
        (out,) = opened.trainer.forward([datum], "cross_entropy").result(60).loss_fn_outputs
        return math.exp(sum(out["logprobs"].tolist()[len(start) - 1 :]))

    for place, cut in enumerate((0, 1, 2, 3, 4, 5)):
        mass = [alone(cut, answer) for answer in FIRST.answers]
        assert found.gold[place] == pytest.approx(mass[1] / sum(mass), rel=1e-12)
        assert found.answered[place] == pytest.approx(mass[0] / sum(mass), rel=1e-12)
        assert found.certainty[place] >= 0.0
    opened.folder.close()


def test_controls_put_other_words_before_the_answers(connection: Connection, tmp_path: Path) -> None:
    opened = open_run(connection, tmp_path / "run", RL)
    probes = [FIRST, OTHER]
    own = probe_replies(opened.trainer, probes)
    shuffled = probe_replies(opened.trainer, probes, Prefixes.SHUFFLED, 3)
    foreign = probe_replies(opened.trainer, probes, Prefixes.FOREIGN, 3)
    exchanged = replace(FIRST, reasoning=OTHER.reasoning)
    assert sorted(shuffled[0].gold) == sorted(own[0].gold)
    assert shuffled[0].gold != own[0].gold
    assert shuffled == probe_replies(opened.trainer, probes, Prefixes.SHUFFLED, 3)
    assert foreign[0] == probe_replies(opened.trainer, [exchanged])[0]
    assert foreign[0].gold[0] == own[0].gold[0]
    opened.folder.close()


def test_what_it_costs_is_counted_with_and_without_shared_beginnings(connection: Connection, tmp_path: Path) -> None:
    opened = open_run(connection, tmp_path / "run", RL)
    (found,) = probe_replies(opened.trainer, [FIRST])
    beginnings = sum(4 + cut for cut in range(len(FRACTIONS)))
    assert found.tokens_sent == 3 * beginnings + 5 * len(FRACTIONS)
    assert found.tokens_computed == 4 + 5 + 4 * len(FRACTIONS)
    opened.folder.close()


def test_positions_of_nothing_and_of_the_same_twice() -> None:
    assert shared_positions([]) == 0
    assert shared_positions([(1, 2), (1, 2)]) == 2


def test_a_subject_without_reasoning_is_refused(connection: Connection, tmp_path: Path) -> None:
    shaped = replace(RL, confidence_penalty=1.0, zero_variance_filter=False)
    opened = open_run(connection, tmp_path / "run", shaped)
    with pytest.raises(ConfigError, match="reasoning"):
        train(opened)
    opened.folder.close()


def test_rising_confidence_raises_an_advantage() -> None:
    assert premature((0.1, 0.2, 0.3, 0.5, 0.8, 1.0)) < 0.0 < premature((1.0, 0.8, 0.5, 0.3, 0.2, 0.1))
