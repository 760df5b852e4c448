"""`adversarial/...` as runs: the same again gives the same hashes, a model as challenger, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from small_slice import Made

from tinsmith.cli.registered import find
from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.papers.worlds import papers_of
from tinsmith.lab.runs.files import MANIFEST, METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.studies.debate.demonstrations import DebateBaseRecipe, debate_conversations
from tinsmith.studies.debate.script import load_script
from tinsmith.types.errors import ConfigError

# The SDK leaves sockets to the garbage collector.
pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]

RECIPE = DebateBaseRecipe(num_layers=1, vocab_size=512, max_positions=640, steps=20, batch_size=8, warm_up=4)
KEYS = {
    "contract": "two_key",
    "steps": "2",
    "group_size": "2",
    "groups_per_batch": "3",
    "lora_rank": "2",
    "max_tokens": "14",
    "eval_every": "0",
    "save_every": "0",
    "eval_items": "3",
    "learning_rate": "2e-3",
    "quiet": "true",
}


@dataclass(frozen=True)
class Place:
    """A slice, a base that has read debates of its papers, and a server that all runs here share."""

    data: Path
    base: Path
    connection: Connection

    def keys(self, folder: Path, **changes: str) -> dict[str, str]:
        where = {
            "data": str(self.data),
            "base_url": str(self.connection.base_url),
            "model_name": "base",
            "cues": "planted",
            "log_path": str(folder),
        }
        return {**KEYS, **where, **changes}


@pytest.fixture(scope="module")
def place(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    where = tmp_path_factory.mktemp("debate")
    task = make_task("disruption", prompt="brief", contract="two_key")
    papers = papers_of(Slice.open(made.data), task, shuffle_seed=None)
    build_base(RECIPE, debate_conversations(RECIPE, task, load_script("brief"), papers.train), where / "base")
    settings = EmbeddedSettings(models={"base": str(where / "base")}, state=where / "state", seed=5)
    connection = open_connection(None, settings)
    patch = pytest.MonkeyPatch()
    patch.setenv("TINKER_API_KEY", str(connection.key))
    yield Place(made.data, where / "base", connection)
    patch.undo()
    connection.close()


def run(name: str, keys: dict[str, str]) -> Path:
    told: list[str] = []
    return conduct(make_plan(find(name), keys), say=told.append).folder


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_text())


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("name", ["seed", "gated", "forked", "evidence_free", "alone"])
def test_the_same_run_again_leaves_the_same_hashes(place: Place, tmp_path: Path, name: str) -> None:
    first, again = (run(f"adversarial/{name}", place.keys(tmp_path / where)) for where in ("first", "again"))
    hashes = manifest(first)["hashes"]
    assert hashes == manifest(again)["hashes"]
    assert all(hashes.values())
    assert manifest(first)["status"] == "finished"
    rollouts = lines(first, ROLLOUTS)
    assert len([line for line in rollouts if line["split"] == "train"]) == (24 if name == "forked" else 12)
    challenged = [line.get("challenge") for line in rollouts if "failure" not in line]
    assert all(challenged) is (name != "alone")
    if name == "evidence_free":
        assert not any(challenge["evidence"] for challenge in challenged)
    splits = {line["split"] for line in rollouts}
    assert ("test_no_evidence" in splits) is (name != "alone")
    for line in lines(first, METRICS):
        assert line.get("optim/kl_sample_train", 0.0) == 0.0
        assert line.get("optim/unequal_logprob_bits", 0.0) == 0.0


def test_the_frozen_base_challenges_on_the_runs_own_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base").mkdir()  # a folder of that name, here, is not who is meant
    monkeypatch.chdir(tmp_path)
    keys = place.keys(tmp_path / "run", opponent="base", script="plain", opponent_max_tokens="6")
    del keys["base_url"]
    folder = run("adversarial/gated", {**keys, "model_name": str(place.base), "steps": "1"})
    rollouts = lines(folder, ROLLOUTS)
    whole = [line for line in rollouts if "failure" not in line]
    assert whole
    assert all(line["challenge"]["grounded"] is None for line in whole)
    for line in rollouts:
        if "failure" in line:
            assert line["failure"]["where"] == "environment"
            assert "total" not in line
    assert manifest(folder)["identity"]["frame"]["opponent"] == "base"


def test_a_model_that_is_a_folder_is_served_beside_the_base(place: Place, tmp_path: Path) -> None:
    moved, trained = tmp_path / "moved", tmp_path / "trained"
    shutil.copytree(place.base, moved)
    shutil.copytree(place.base, trained)
    weights = trained / "model.safetensors"
    save_file({name: value + 1e-3 for name, value in load_file(weights).items()}, weights)
    keys = place.keys(tmp_path / "run", opponent=str(place.base), script="plain", opponent_max_tokens="6")
    del keys["base_url"]
    keys |= {"model_name": str(place.base), "steps": "2", "save_every": "1"}
    folder = run("adversarial/gated", {**keys, "stop_after": "1"})
    assert any("failure" not in line for line in lines(folder, ROLLOUTS))
    # What it is and not where it lies is part of the run.
    identity = manifest(folder)["identity"]
    assert identity["frame"]["opponent"] == "opponent"
    assert identity["beside"]["opponent"]["fingerprint"] == identity["model"]["fingerprint"]
    on = {**keys, "behavior_if_log_dir_exists": "resume"}
    with pytest.raises(ConfigError, match="the opponent is not the one") as caught:
        run("adversarial/gated", {**on, "opponent": str(trained)})
    assert caught.value.field == "opponent"
    run("adversarial/gated", {**on, "opponent": str(moved)})
    assert manifest(folder)["status"] == "finished"


def test_what_cannot_challenge_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no words to ask a model with") as caught:
        make_plan(find("adversarial/gated"), {**KEYS, "opponent": "base"})
    assert caught.value.field == "script"
    unknown = place.keys(tmp_path / "run", opponent="nobody-knows", script="plain")
    with pytest.raises(ConfigError, match="no such model") as caught:
        run("adversarial/gated", unknown)
    assert caught.value.field == "opponent"
    with pytest.raises(ConfigError, match="forks"):
        make_plan(find("adversarial/forked"), {**KEYS, "forks": "1"})
