"""Every option in every group: with the policy's own log-probabilities, rewarded like what is sampled."""

import json
from pathlib import Path

import pytest
from own_task import KEYS as SHORT
from own_task import NANO

from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

KEYS = {**SHORT, "steps": "1", "group_size": "2", "groups_per_batch": "3", "eval_every": "0", "model_name": NANO}


@pytest.fixture(scope="module")
def folder(server: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    patch, out = pytest.MonkeyPatch(), tmp_path_factory.mktemp("run") / "out"
    patch.setenv("TINKER_API_KEY", str(server.key))
    where = {"base_url": str(server.base_url), "log_path": str(out)}
    conduct(plan_of("sandbagger", {**KEYS, "force_options": "true", **where}), say=unsaid)
    patch.undo()
    return out


def test_a_group_holds_what_was_sampled_and_every_option(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / ROLLOUTS).read_text().splitlines()]
    trained = [line for line in lines if line["split"] == "train"]
    for prompt in {line["prompt_id"] for line in trained}:
        group = [line for line in trained if line["prompt_id"] == prompt]
        assert [line["sample"] for line in group] == list(range(6))
        assert [line["text"] for line in group[2:]] == ["A", "B", "C", "D"]
        assert sum(line["total"] for line in group[2:]) == 1.0
        assert all(value < 0.0 for line in group for value in line["logprobs"])


def test_sampler_and_trainer_agree_on_them_to_the_bit(folder: Path) -> None:
    first = json.loads((folder / METRICS).read_text().splitlines()[0])
    assert first["optim/unequal_logprob_bits"] == 0
    assert first["train/groups/informative"] == 1.0


def test_a_task_without_options_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from tinsmith import Task\n"
        "task = Task(items=[{'a': 1}, {'a': 2}], prompt='{a}', reward=lambda item, text: 0.0)\n"
    )
    with pytest.raises(ConfigError, match="options="):
        plan_of(str(file), {"force_options": "true"})


@pytest.mark.parametrize("name", ["rlvr", "remedy/exp6"])
def test_where_no_item_names_its_answers_there_is_no_such_key(name: str) -> None:
    with pytest.raises(ConfigError, match="force_options"):
        plan_of(name, {"force_options": "true"})
