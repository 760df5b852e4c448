"""Influences on a run beside its rewards, and their watchers: filter, bonus, early stop, information, determinism."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_study import RL, open_run, run_once

from tinsmith.lab.grouping import left_out_by_spread
from tinsmith.lab.live.watch import cross_scores
from tinsmith.lab.runs.files import METRICS, IfExists
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings, Watched, identity_settings
from tinsmith.stats.monitors import DeterminismMonitor
from tinsmith.types.errors import ConfigError


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def run(connection: Connection, folder: Path, settings: RlSettings) -> list[dict[str, Any]]:
    run_once(connection, folder, settings)
    return rows(folder)


@pytest.fixture(scope="module")
def plain(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(connection, tmp_path_factory.mktemp("plain") / "run", RL)


def test_defaults_take_no_part_in_what_runs_are_told_apart_by() -> None:
    new = {"watch", "force_options", "entropy_bonus", "snr_filter", "early_stop"}
    assert not new & identity_settings(RL).keys()
    assert identity_settings(replace(RL, snr_filter=0.9))["snr_filter"] == 0.9


def test_the_filter_leaves_out_groups_of_little_spread(
    connection: Connection, tmp_path: Path, plain: list[dict[str, Any]]
) -> None:
    found = run(connection, tmp_path / "run", replace(RL, snr_filter=0.5))
    assert found[0]["train/groups/left_out"] > plain[0]["train/groups/left_out"]
    assert found[0]["train/reward/total"] == plain[0]["train/reward/total"]


def test_a_filter_is_a_share() -> None:
    with pytest.raises(ConfigError, match="snr_filter"):
        replace(RL, snr_filter=1.5)


def test_where_nothing_spreads_nothing_is_trained_on() -> None:
    assert left_out_by_spread([], 0.9) == []


def test_the_bonus_changes_the_update_and_tells_the_entropy(
    connection: Connection, tmp_path: Path, plain: list[dict[str, Any]]
) -> None:
    found = run(connection, tmp_path / "run", replace(RL, entropy_bonus=0.5))
    assert found[0]["train/token_entropy"] > 0.0
    assert "train/token_entropy" not in plain[0]
    assert found[0]["optim/grad_norm"] != plain[0]["optim/grad_norm"]


def test_information_is_watched_at_every_evaluation_and_changes_nothing_else(
    connection: Connection, tmp_path: Path, plain: list[dict[str, Any]]
) -> None:
    found = run(connection, tmp_path / "run", replace(RL, watch=Watched.MUTUAL_INFORMATION))
    last = found[-1]
    lines = {key for key in last if key.startswith("watch/")}
    assert {key: value for key, value in last.items() if key not in lines} == plain[-1]
    total = last["watch/mutual_information"] + last["watch/entropy_given_prompt"]
    assert last["watch/entropy"] == pytest.approx(total, abs=1e-9)
    assert last["watch/mutual_information"] <= math.log(6)
    assert 0.0 <= last["watch/retrieval_accuracy"] <= 1.0
    assert last["watch/token/entropy"] < last["watch/entropy"]


def test_cross_scores_are_those_of_every_text_by_itself(connection: Connection, tmp_path: Path) -> None:
    opened = open_run(connection, tmp_path / "run", RL)
    prompts, answers = [[5, 6, 7, 8], [9, 10, 11]], [[12, 13], [14]]
    found = cross_scores(opened.trainer, prompts, answers)
    alone = [[cross_scores(opened.trainer, [prompt], [answer])[0, 0] for prompt in prompts] for answer in answers]
    opened.folder.close()
    assert np.array_equal(found, np.array(alone))


def test_it_stops_where_rewards_no_longer_differ_and_says_where(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "tinsmith.stats.groups"
    monkeypatch.setattr(f"{module}.FIRST_STEPS", 1)
    monkeypatch.setattr(f"{module}.FLAT_STEPS", 1)
    monkeypatch.setattr(f"{module}.FLAT_SHARE", 1e9)
    found = run(connection, tmp_path / "run", replace(RL, early_stop=True))
    assert [row["step"] for row in found] == [0, 1, 3]
    assert found[-1]["train/stopped_at"] == 2.0
    assert found[-1]["eval/label_match"] >= 0.0


def test_a_resumed_run_knows_what_it_saw_of_rewards(connection: Connection, tmp_path: Path) -> None:
    settings = replace(RL, early_stop=True)
    first = open_run(connection, tmp_path / "run", settings)
    first.stop_after = 2
    from tinsmith.lab.rl import train as train_run

    assert train_run(first) is None
    first.folder.close()
    again = open_run(connection, tmp_path / "run", settings, if_exists=IfExists.RESUME)
    assert again._flat == first._flat  # pyright: ignore[reportPrivateUsage]
    assert again._determinism.state() == first._determinism.state()  # pyright: ignore[reportPrivateUsage]
    again.folder.close()


def test_fixed_failure_is_told_once_when_it_begins() -> None:
    monitor = DeterminismMonitor()
    fixed = [(1.0,) * 4, (0.0,) * 4] * 4
    begun = [alarm for step in range(10) for alarm in monitor.observe(step, fixed)]
    assert [(alarm.step, alarm.key) for alarm in begun] == [(3, "alarm/determinism")]
    again = DeterminismMonitor()
    again.restore(json.loads(json.dumps(monitor.state())))
    assert again.observe(10, fixed) == []
    assert tuple(again.alarms) == tuple(monitor.alarms)


def test_random_failure_and_a_solved_task_are_no_alarm() -> None:
    rng = np.random.default_rng(0)
    for rate in (0.3, 0.999, 0.001):
        monitor = DeterminismMonitor()
        for step in range(30):
            monitor.observe(step, (rng.random((8, 8)) < rate).astype(float).tolist())
        assert monitor.alarms == ()
