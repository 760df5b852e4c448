"""`adversarial/...` as runs: the same again gives the same hashes, a model as challenger, and what is refused."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from label_runs import manifest
from own_task import lines
from safetensors.torch import load_file, save_file
from small_slice import Made
from small_study import connect_to

from command_line import keys_in
from tinsmith.cli.registered import plan_of
from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.page.comparison import compared_tasks, study_of_runs
from tinsmith.lab.page.run_page import page_of_run
from tinsmith.lab.papers.worlds import papers_of
from tinsmith.lab.runs.files import METRICS, ROLLOUTS, SECTIONS
from tinsmith.lab.runs.reader import read_run, read_task_run
from tinsmith.lab.service.connect import Connection
from tinsmith.pages.markdown import document_markdown
from tinsmith.studies.debate.challenge import load_script
from tinsmith.studies.debate.planted_debates import DebateBaseRecipe, debate_conversations
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

RECIPE = DebateBaseRecipe(num_layers=1, vocab_size=512, max_positions=640, steps=12, batch_size=6, warm_up=3)
KEYS = keys_in(
    "contract=two_key steps=1 group_size=2 groups_per_batch=3 lora_rank=2 max_tokens=14 eval_every=0 save_every=0 "
    "eval_items=3 test_items=4 learning_rate=2e-3 quiet=true"
)


MORE = {"forked": {"steps": "2"}}
"""Of the one that is stopped after its first step."""


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
    connection = connect_to(where / "base", where / "state")
    patch = pytest.MonkeyPatch()
    patch.setenv("TINKER_API_KEY", str(connection.key))
    yield Place(made.data, where / "base", connection)
    patch.undo()
    connection.close()


@pytest.fixture(scope="module")
def finished(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs that several tests look at, by name; each is run once."""
    out, done = tmp_path_factory.mktemp("finished"), dict[str, Path]()

    def by_name(name: str) -> Path:
        if name not in done:
            done[name] = run(f"adversarial/{name}", place.keys(out / name, **MORE.get(name, {})))
        return done[name]

    return by_name


def run(name: str, keys: dict[str, str]) -> Path:
    return conduct(plan_of(name, keys), say=unsaid).folder


@pytest.mark.parametrize("name", ["seed", "gated", "forked", "evidence_free", "alone"])
def test_each_experiment_runs_as_it_is_described(
    place: Place, finished: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    first = finished(name)
    hashes = manifest(first)["hashes"]
    if name == "forked":
        again = place.keys(tmp_path / "again", save_every="1", behavior_if_log_dir_exists="resume", **MORE[name])
        run(f"adversarial/{name}", {**again, "stop_after": "1"})
        assert hashes == manifest(run(f"adversarial/{name}", again))["hashes"]
    assert all(hashes.values())
    assert manifest(first)["status"] == "finished"
    rollouts = lines(first, ROLLOUTS)
    assert len([line for line in rollouts if line["split"] == "train"]) == (24 if name == "forked" else 6)
    challenged = [line.get("challenge") for line in rollouts if "failure" not in line]
    assert all(challenged) is (name != "alone")
    if name == "evidence_free":
        assert not any(challenge["evidence"] for challenge in challenged)
    splits = {line["split"] for line in rollouts}
    assert ("test_no_evidence" in splits) is (name != "alone")
    for line in lines(first, METRICS):
        assert line.get("optim/kl_sample_train", 0.0) == 0.0
        assert line.get("optim/unequal_logprob_bits", 0.0) == 0.0


def test_a_page_has_the_figures_of_the_test_by_arm_and_those_of_its_control(finished: Callable[[str], Path]) -> None:
    folder = finished("gated")
    sections = {one["title"]: one for one in json.loads((folder / SECTIONS).read_text())["sections"]}
    by_arm = sections["By arm"]
    splits = {row[0] for row in by_arm["rows"]}
    assert splits == {"test", "test_greedy", "test_no_evidence", "test_no_evidence_greedy"}
    metrics = lines(folder, METRICS)[-1]
    place = by_arm["columns"].index("first right")
    (every,) = (row for row in by_arm["rows"] if row[:2] == ["test", "all conversations"])
    assert every[place].split()[0] == f"{metrics['test/accuracy_first']:.3f}"
    read = read_task_run(read_run(folder))
    assert set(read.tests) == splits
    right = read.tests["test"].by_item("metric/right_first")
    assert float(sum(right.values()) / len(right)) == pytest.approx(metrics["test/accuracy_first"])
    assert document_markdown(page_of_run(read_run(folder)))


def test_experiments_are_arms_of_one_comparison(finished: Callable[[str], Path]) -> None:
    folders = [finished(name) for name in ("seed", "gated", "alone")]
    compared = study_of_runs(folders)
    assert len(compared.results.arms) == 3
    figures = [lines(folder, METRICS)[-1]["test/accuracy_first"] for folder in folders]
    for arm, value in zip(compared.results.arms.values(), figures, strict=True):
        tested = arm.reads[0].tests["test"].by_item("metric/right_first")
        assert float(sum(tested.values()) / len(tested)) == pytest.approx(value)
    text = document_markdown(compared_tasks(folders).page)
    assert "adversarial/seed" in text
    assert "J beyond, bare label" in text


def test_the_frozen_base_challenges_on_the_runs_own_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base").mkdir()  # a folder of that name, here, is not who is meant
    monkeypatch.chdir(tmp_path)
    keys = place.keys(tmp_path / "run", opponent="base", script="plain", opponent_max_tokens="6")
    del keys["base_url"]
    folder = run("adversarial/gated", {**keys, "model_name": str(place.base)})
    rollouts = lines(folder, ROLLOUTS)
    whole = [line for line in rollouts if "failure" not in line]
    assert whole
    assert all(line["challenge"]["grounded"] is None for line in whole)
    assert not any(line["challenge"]["evidence"] for line in whole), "six tokens of it quote nothing"
    for line in rollouts:
        if "failure" in line:
            assert "total" not in line
    assert manifest(folder)["identity"]["own_keys"]["opponent"] == "base"


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
    assert identity["own_keys"]["opponent"] == "opponent"
    assert identity["beside"]["opponent"]["fingerprint"] == identity["model"]["fingerprint"]
    on = {**keys, "behavior_if_log_dir_exists": "resume"}
    with pytest.raises(ConfigError, match="the opponent is not the one") as caught:
        run("adversarial/gated", {**on, "opponent": str(trained)})
    assert caught.value.field == "opponent"
    run("adversarial/gated", {**on, "opponent": str(moved)})
    assert manifest(folder)["status"] == "finished"


def test_what_cannot_challenge_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no words to ask a model with") as caught:
        plan_of("adversarial/gated", {**KEYS, "opponent": "base"})
    assert caught.value.field == "script"
    unknown = place.keys(tmp_path / "run", opponent="nobody-knows", script="plain")
    with pytest.raises(ConfigError, match="no such model") as caught:
        run("adversarial/gated", unknown)
    assert caught.value.field == "opponent"
    with pytest.raises(ConfigError, match="forks"):
        plan_of("adversarial/forked", {**KEYS, "forks": "1"})
