"""Labels of papers as a task like any other: its parts, its reward, and what is refused."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from labelled import labelled_corpus
from task_cases import paper

import tinsmith
from tinsmith.cli.registered import find
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.settings import SliceSettings
from tinsmith.data.slices.settings import Task as SliceTask
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.labels.contracts import THREE_KEY, TWO_KEY, Answer, Confidence, Contract
from tinsmith.lab.labels.task import Item, make_joint_task, make_task
from tinsmith.lab.papers import worlds
from tinsmith.lab.papers.labels import label_task_of
from tinsmith.lab.user_task.entry import open_task
from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.step_reward import Conversation, Scored, StepReward
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError, DataError

GOLDS = ("neutral", "novel")


def item(*golds: str) -> Item:
    return Item(paper=paper(), golds=golds)


def scored(task: Task, *pairs: tuple[Item, Answer]) -> list[Scored]:
    assert isinstance(task.reward, StepReward)
    found = task.reward([Conversation(item=one, replies=(answer,), text="") for one, answer in pairs])
    return [one for one in found if isinstance(one, Scored)]


def said(contract: Contract, *labels: str) -> Answer:
    return contract.parse(contract.answer_text(labels, Confidence.LOW))


def test_one_label_is_a_task_with_prompt_answer_and_reward() -> None:
    task = tinsmith.Labels("disruption", prompt="brief", reward="strong")
    one = item("neutral")
    assert callable(task.prompt)
    (message,) = task.prompt(one)
    assert message["content"].startswith("Title: Gears of {tin}")
    right = task.parse(str(task.answer(one)))
    assert task.parse(str(task.demonstrate(one, Random(0)))).payload_ok
    paid = scored(task, (one, right), (one, said(TWO_KEY, "disruptive")), (one, TWO_KEY.parse("no")))
    assert [sum(each.terms.values()) for each in paid] == pytest.approx([1.05, -0.55, -1.0])
    assert paid[0].record == {"outcome": "ok", "gold": "neutral", "predicted": "neutral", "confidence": "medium"}


def test_a_slice_whose_training_papers_repeat_is_refused(tmp_path: Path) -> None:
    cut = SliceSettings(task=SliceTask.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=200, oversample=True)
    make_slice(labelled_corpus(tmp_path / "corpus", 300), cut, tmp_path / "slice")
    task = tinsmith.Labels("disruption", data=tmp_path / "slice")
    with pytest.raises(DataError, match="repeats training papers") as caught:
        split_items(task, Path(), 0)
    assert caught.value.fix == "cut it again without --oversample"


def test_two_labels_in_an_answer_earn_the_mean_of_both() -> None:
    task = tinsmith.Labels("disruption", "novelty", reward="strong")
    both = item(*GOLDS)
    paid = scored(task, (both, said(THREE_KEY, *GOLDS)), (both, said(THREE_KEY, "neutral", "balanced")))
    assert task.terms == ("parse", "contract", "disruption", "novelty", "think")
    assert [sum(each.terms.values()) for each in paid] == pytest.approx([1.05, 0.25])
    assert paid[1].record["predicted"] == {"disruption": "neutral", "novelty": "balanced"}


def test_a_reward_that_remembers_is_traced_and_restored() -> None:
    task = tinsmith.Labels("disruption", window=8.0)
    reward = task.reward
    before = reward.state()
    scored(task, *[(item("neutral"), said(TWO_KEY, "disruptive"))] * 4)
    assert reward.trace()["ema_share/disruptive"] > 1 / 3
    assert reward.state() != before
    reward.restore(before)
    assert reward.state() == before


def test_what_decides_results_is_part_of_its_identity() -> None:
    tasks = [
        tinsmith.Labels("disruption"),
        tinsmith.Labels("novelty"),
        tinsmith.Labels("disruption", prompt="checklist"),
        tinsmith.Labels("disruption", reward="strong"),
        tinsmith.Labels("disruption", window=64.0),
    ]
    assert len({tuple(sorted(task.identity.items())) for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("subjects", "settings", "field"),
    [
        (("beauty",), {}, "task"),
        (("novelty", "disruption"), {}, "subjects"),
        ((), {}, "subjects"),
        (("disruption",), {"reward": "gold"}, "reward"),
        (("disruption",), {"prompt": "none"}, "prompt"),
        (("disruption",), {"windw": 3.0}, "windw"),
    ],
)
def test_what_there_is_not_is_refused_by_its_name(
    subjects: tuple[str, ...], settings: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        tinsmith.Labels(*subjects, **settings)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_it_is_planned_as_any_task_and_its_experiments_by_their_own_kinds() -> None:
    task = replace(tinsmith.Labels("disruption"), items=[item("neutral")], held_out=0.0)
    assert open_task(task_value(task), {"steps": "3"}).frame.kind.value == "task"
    plan = make_plan(find("remedy/exp6"), {"contract": "four_key", "reward.window": "64"})
    assert plan.own["contract"] == label_task_of(plan).contract.form == "four_key"
    assert (plan.own["reward"], dict(plan.reward_settings)) == ("macro_f1", {"window": 64.0})


@pytest.mark.parametrize("subjects", [("disruption",), ("novelty",), ("disruption", "novelty")])
def test_a_synthetic_world_is_cut_for_the_labels_that_are_asked_for(
    subjects: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[worlds.WorldRecipe] = []
    monkeypatch.setattr(worlds, "world_slice", lambda recipe, _: cut.append(recipe))
    task = make_task(subjects[0]) if len(subjects) == 1 else make_joint_task()
    worlds.slice_in(None, task, lambda _: None)
    assert [recipe.task.value for recipe in cut] == [subjects[0] if len(subjects) == 1 else "joint"]
