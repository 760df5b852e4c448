"""Runs on two labels: the same twice, the same resumed, each label's figures, and the page; what they refuse."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from label_runs import manifest
from own_task import lines
from pages_of import page_of
from small_study import connect_to

from command_line import command, keys_in
from tinsmith.cli.registered import find
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.settings import Caps, Task
from tinsmith.data.slices.splits import Split
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.labels.task import Paper, items_of, make_joint_task
from tinsmith.lab.nano_base import cached_base
from tinsmith.lab.papers.worlds import PaperBaseRecipe, WorldRecipe, paper_conversations, world_slice
from tinsmith.lab.results.arms import TITLES, label_arms, members_of
from tinsmith.lab.results.label_page import compare_labels, page_of_labels
from tinsmith.lab.results.label_tables import last_of_both
from tinsmith.lab.runs.files import CHECKPOINTS, METRICS, ROLLOUTS
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Split as Answers
from tinsmith.lab.service.connect import Connection
from tinsmith.pages.page import document_html
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

NAME = "joint/disruption_novelty"
TASKS = ("disruption", "novelty")
WORLD = WorldRecipe(preset=Preset.TINY, task=Task.JOINT, per_class=20, caps=Caps(train=90, validation=9, test=9))
BASE = PaperBaseRecipe(num_layers=1, vocab_size=512, steps=80, batch_size=8, warm_up=5, reading_every=0)
"""Of abstracts' beginnings only: it learns the form of the answer in seconds."""
KEYS = keys_in(
    "steps=2 groups_per_batch=3 group_size=2 lora_rank=4 eval_every=2 save_every=1 eval_items=6 max_tokens=64 "
    "learning_rate=2e-3 quiet=true"
)


@dataclass(frozen=True)
class Place:
    """A slice with both labels, and a server with a base that has read it."""

    source: Slice
    connection: Connection

    def plan(self, folder: Path, name: str = NAME, **changes: str) -> Plan:
        where = {
            "base_url": str(self.connection.base_url),
            "model_name": "base",
            "data": str(self.source.folder),
            "log_path": str(folder),
        }
        return make_plan(find(name), {**KEYS, **where, **changes})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(tmp_path_factory.mktemp("home")))
    source = world_slice(WORLD, unsaid)
    task = make_joint_task(prompt="brief")
    items = items_of(source.rows(Split.TRAIN), task)
    brief = [replace(item, paper=_beginning(item.paper)) for item in items]
    base = cached_base(BASE, paper_conversations(BASE, task, brief), unsaid)
    connection = connect_to(base, tmp_path_factory.mktemp("state"))
    patch.setenv("TINKER_API_KEY", str(connection.key))
    yield Place(source, connection)
    connection.close()
    patch.undo()


def _beginning(paper: Paper) -> Paper:
    return replace(paper, abstract=" ".join(paper.abstract.split()[:12]))


@pytest.fixture(scope="module")
def whole(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    conduct(place.plan(folder), say=unsaid)
    return folder


def test_a_resumed_run_ends_the_same(place: Place, whole: Path, tmp_path: Path) -> None:
    conduct(place.plan(tmp_path / "parts", stop_after="1"), say=unsaid)
    (kept,) = lines(tmp_path / "parts", CHECKPOINTS)
    assert set(kept["kept"]["course"]["subject"]) == set(TASKS)
    assert set(kept["kept"]["course"]["watch"]) == set(TASKS)
    conduct(place.plan(tmp_path / "parts", behavior_if_log_dir_exists="resume"), say=unsaid)
    assert manifest(whole)["hashes"] == manifest(tmp_path / "parts")["hashes"]


def test_every_labels_figures_are_told(whole: Path) -> None:
    first, *_, last = lines(whole, METRICS)
    assert first["optim/kl_sample_train"] == first["optim/unequal_logprob_bits"] == 0.0
    for prefix in ("eval", "eval_greedy", "test", "test_greedy", "test_last"):
        for task in TASKS:
            assert 0.0 <= last[f"{prefix}/{task}/label_match"] <= 1.0
            assert f"{prefix}/{task}/macro_f1" in last
        assert f"{prefix}/exact_match" in last
        mean = (last[f"{prefix}/disruption/macro_f1"] + last[f"{prefix}/novelty/macro_f1"]) / 2
        assert last[f"{prefix}/macro_f1"] == pytest.approx(mean)
    assert {f"eval/{task}/label_mi" for task in TASKS} < set(first)
    assert {f"reward/{task}/ema_macro_f1" for task in TASKS} < set(first)
    assert first["train/reward/total"] == pytest.approx(
        first["train/reward/parse"]
        + first["train/reward/contract"]
        + (first["train/reward/disruption"] + first["train/reward/novelty"]) / 2
        + first["train/reward/think"]
    )


def test_rollouts_have_gold_and_predicted_of_both_labels(whole: Path, place: Place) -> None:
    rows = {row.openalex_id: row for split in Split for row in place.source.rows(split)}
    rollouts = lines(whole, ROLLOUTS)
    for line in rollouts:
        row = rows[line["prompt_id"]]
        assert line["gold"] == {"disruption": row.disruption_label, "novelty": row.novelty_label}
        assert (line["outcome"] == "ok") == (line["predicted"] is not None)
    assert any(line["predicted"] for line in rollouts if line["split"] == "train")
    tested = [line["prompt_id"] for line in rollouts if line["split"] == "test"]
    assert tested == [row.openalex_id for row in place.source.rows(Split.TEST)]
    alarms = manifest(whole)["alarms"]
    assert all(alarm["task"] in TASKS for alarm in alarms)
    assert all(alarm["message"].startswith(alarm["task"]) for alarm in alarms)


def test_the_page_has_both_labels_beside_their_baselines(whole: Path) -> None:
    page = page_of(whole)
    members = members_of(read_run(whole))
    assert all(one.run.notes == one.notes == () for one in members.values())
    tested = last_of_both(members, Answers.TEST)
    last = lines(whole, METRICS)[-1]
    assert tested.exact_match == last["test/exact_match"]
    assert f'<td class="number" data-exact="{tested.exact_match}' in page
    for name, alone in members.items():
        assert alone.run.baselines.target == name
        text = next(one for one in alone.run.baselines.scores if one.baseline == "text")
        assert f"{text.macro_f1.value:.3f}" in page
        assert alone.run.metrics[2]["test/macro_f1"] == last[f"test/{name}/macro_f1"]
    for words in ("if independent", "Best constant pair", "Prior"):
        assert words in page


def test_runs_on_both_labels_are_compared_for_one_of_them(
    place: Place, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, shuffled, alone = (tmp_path / name for name in ("other", "shuffled", "alone"))
    conduct(place.plan(other, seed="1"), say=unsaid)
    conduct(place.plan(shuffled, "joint/shuffled_labels"), say=unsaid)
    conduct(place.plan(alone, "remedy/exp6", task="novelty"), say=unsaid)
    folders = [whole, other, shuffled, alone]
    compared = compare_labels(folders, Subject.NOVELTY)
    arms = {arm.config.name: arm for arm in label_arms(compared.results).values()}
    assert arms[NAME].reads[0].two_labels
    assert [run.config.seed for run in arms[NAME].runs] == [0, 1]
    answers = arms[NAME].answers_on()
    assert answers.labels == Subject.NOVELTY.labels
    last = lines(whole, METRICS)[-1]
    assert answers.confusions()[0].score(Metric.MACRO_F1) == last["test/novelty/macro_f1"]
    # Two labels are held against one, the control against its parent; the control is that of both labels.
    held = {(one.first, one.second) for one in compared.results.beats}
    pairs = {(NAME, "remedy/exp6"), ("joint/shuffled_labels", NAME)}
    assert held == {(TITLES[first], TITLES[second]) for first, second in pairs}
    assert not any(f"that of {TITLES['remedy/exp6']}" in note for note in compared.record.notes)
    html = document_html(page_of_labels(compared))
    assert "joint/disruption_novelty@1" in html

    with pytest.raises(ConfigError, match="--task disruption or novelty"):
        compare_labels([whole, other])
    with pytest.raises(ConfigError, match="another label"):
        compare_labels(folders, Subject.DISRUPTION)
    without_one = compare_labels([whole, other, shuffled], Subject.DISRUPTION)
    without = list(label_arms(without_one.results).values())
    report = without[0].first.baselines
    assert report.target == "disruption"
    assert not any("nothing on the task" in note for note in without_one.record.notes)
    failed = {arm.name: arm.reads[0].failures for arm in without}
    assert failed[arms[NAME].name] == members_of(read_run(whole))["novelty"].failures
    for arguments in ([str(whole), "--task", "novelty"], [*map(str, folders), "--task", "cd"]):
        refused = command(capsys, "report", *arguments, code=2)
        assert "field: --task" in refused.err
    assert command(capsys, "report", *folders, "--task", "novelty", "--out", tmp_path / "c.html").code == 0
    assert (tmp_path / "c.html").read_text() == html


def test_shuffling_keeps_pairs_of_labels_together(place: Place, tmp_path: Path) -> None:
    plain, shuffled = (
        plan.experiment.subject.run_data(plan, unsaid)
        for plan in (place.plan(tmp_path), place.plan(tmp_path, "joint/shuffled_labels"))
    )
    golds = [[item.golds for item in one.papers.train] for one in (plain, shuffled)]
    assert golds[0] != golds[1]
    assert sorted(golds[0]) == sorted(golds[1])
    assert [one.paper for one in plain.papers.train] == [one.paper for one in shuffled.papers.train]
    assert plain.papers.test == shuffled.papers.test
    assert plain.identity()["data"] == shuffled.identity()["data"]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("select_by", "label_match", "macro_f1, balanced_accuracy, min_class_recall, last"),
        ("gradient", "exact", "does not use this key"),
        ("sft_steps", "1", "does not use this key"),
        ("task", "novelty", "does not use this key"),
        ("contract", "two_key", "five_key, three_key"),
        ("reward", "exp9", "there is no such reward"),
        ("reward.tau", "0.3", "no such setting"),
        ("kind", "rl", "cannot answer its question"),
    ],
)
def test_what_means_nothing_here_is_refused(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_plan(find(NAME), {key: value})


def test_a_slice_for_one_label_is_refused_where_a_paper_lacks_the_other(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = place.source.rows

    def without(self: Slice, split: Split) -> Iterator[PaperRow]:
        del self
        yield from (msgspec.structs.replace(row, novelty_label=None) for row in rows(split))

    monkeypatch.setattr(Slice, "rows", without)
    plan = place.plan(tmp_path)
    with pytest.raises(DataError, match="--task joint"):
        plan.experiment.subject.run_data(plan, unsaid)
