"""Steps by example before steps by reward in one run: which is which, resumed on either side, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_task import lines
from pages_of import report_of
from small_study import RL, SFT, open_run, run_once, train, train_until

from tinsmith.cli.registered import SUBJECTS, find
from tinsmith.lab.experiment.experiment import make_plan, plan_fingerprint
from tinsmith.lab.results.arms import gather
from tinsmith.lab.runs.files import METRICS, ROLLOUTS, TRACE, IfExists, Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Selected
from tinsmith.lab.schedule import batch
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import CommonSettings, RlSettings, identity_settings
from tinsmith.types.errors import ConfigError

BOTH = replace(RL, steps=4, sft_steps=2, sft_learning_rate=5e-3, sft_batch_size=8)


def run(connection: Connection, folder: Path, settings: CommonSettings) -> Selected:
    return run_once(connection, folder, settings, "strong" if isinstance(settings, RlSettings) else None)


@pytest.fixture(scope="module")
def whole(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both") / "whole"
    run(connection, folder, BOTH)
    return folder


def test_the_first_steps_are_those_of_sft_and_the_others_sample(
    connection: Connection, whole: Path, tmp_path: Path
) -> None:
    metrics = lines(whole, METRICS)
    assert [line["step"] for line in metrics] == [0, 1, 2, 3, 4]
    assert ["train/nll" in line for line in metrics[:-1]] == [True, True, False, False]
    assert ["train/reward/total" in line for line in metrics[:-1]] == [False, False, True, True]
    assert {line["step"] for line in lines(whole, ROLLOUTS) if line["split"] == "train"} == {2, 3}
    # Bit for bit what SFT alone would do with these steps.
    run(connection, tmp_path / "sft", replace(SFT, steps=2))
    for first, second in zip(lines(tmp_path / "sft", METRICS)[:2], metrics[:2], strict=True):
        assert first == second


def test_rl_goes_on_with_the_papers_after_those_it_would_have_seen(whole: Path) -> None:
    seen = [line["prompt_id"] for line in lines(whole, ROLLOUTS) if line["split"] == "train"]
    numbers = batch(range(120), BOTH.groups_per_batch, 2, BOTH.seed)
    assert list(dict.fromkeys(seen))[:4] == [f"W{number}" for number in numbers]


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_run_killed_on_either_side_ends_as_if_nothing_had_happened(
    connection: Connection, whole: Path, tmp_path: Path, killed_at: int
) -> None:
    train_until(open_run(connection, tmp_path / "killed", BOTH), killed_at)
    resumed = open_run(connection, tmp_path / "killed", BOTH, if_exists=IfExists.RESUME)
    assert resumed.step == killed_at
    train(resumed)
    resumed.folder.close()
    for name in (METRICS, ROLLOUTS, TRACE):
        assert (tmp_path / "killed" / name).read_bytes() == (whole / name).read_bytes()


def test_without_steps_the_base_is_examined_and_tested(connection: Connection, tmp_path: Path) -> None:
    finished = run(connection, tmp_path / "zero", replace(SFT, steps=0, logit_offset=True))
    (line,) = lines(tmp_path / "zero", METRICS)
    assert line["step"] == finished.step == 0
    assert {"eval/macro_f1", "test/macro_f1", "test_offset/macro_f1"} <= set(line)
    assert line["eval/kl_base"] == 0.0
    assert not (tmp_path / "zero" / TRACE).read_bytes()


def test_a_report_of_both_kinds_of_steps_opens(whole: Path, tmp_path: Path) -> None:
    config = {
        "name": "remedy/sft_then_rl",
        "kind": "rl",
        "settings": {"steps": 4, "seed": 1},
        "task": {"name": "disruption", "labels": ["disruptive", "consolidating", "neutral"]},
    }
    (whole / "config.json").write_text(json.dumps(config))
    read = read_run(whole)
    assert gather(read).evaluations
    report_of(whole, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "remedy/sft_then_rl" in page


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sft_steps": 4}, "sft_steps"),
        ({"sft_steps": -1}, "sft_steps"),
        ({"sft_learning_rate": 0.0}, "sft_learning_rate"),
        ({"sft_batch_size": 0}, "sft_batch_size"),
        ({"steps": 0, "sft_steps": 0}, "steps"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replace(BOTH, **changes)
    assert caught.value.field == field


@pytest.mark.parametrize("kind", [Kind.RLVR, Kind.SFT])
def test_only_rl_on_labels_has_supervised_steps(kind: Kind) -> None:
    assert not {"sft_steps", "sft_learning_rate", "sft_batch_size"} & SUBJECTS[kind].kinds[kind].known
    assert {"sft_steps", "sft_learning_rate", "sft_batch_size"} <= SUBJECTS[Kind.RL].kinds[Kind.RL].known


def test_keys_that_are_not_used_name_no_run() -> None:
    plain = make_plan(find("remedy/exp6"), {})
    assert not any(name.startswith("sft_") for name in identity_settings(plain.settings))
    both = make_plan(find("remedy/sft_then_rl"), {})
    assert identity_settings(both.settings)["sft_steps"] == 50
    assert plan_fingerprint(both) != plan_fingerprint(plain)
