"""Every option in every group: with the policy's own log-probabilities, rewarded like what is sampled."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, cast

import pytest
from own_task import KEYS as SHORT
from own_task import NANO
from tinker import types

from tinsmith import Conversation, Scored, StepReward, Task, of_group
from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.grouping import score_groups
from tinsmith.lab.rollouts import Rollout, Sampling
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.subject import force_options
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.ops.advantages import Advantage
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

KEYS = {**SHORT, "steps": "1", "group_size": "2", "groups_per_batch": "3", "eval_every": "0", "model_name": NANO}


@pytest.fixture(scope="module")
def folder(server: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    patch, out = pytest.MonkeyPatch(), tmp_path_factory.mktemp("run") / "out"
    patch.setenv("TINKER_API_KEY", str(server.key))
    where = {"base_url": str(server.base_url), "log_path": str(out)}
    conduct(plan_of("sandbagger", {**KEYS, "force_options": "true", "entropy_bonus": "0.01", **where}), say=unsaid)
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


def test_figures_and_penalties_are_of_what_was_drawn(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / ROLLOUTS).read_text().splitlines()]
    drawn = [line for line in lines if line["split"] == "train" and line["sample"] < 2]
    first = json.loads((folder / METRICS).read_text().splitlines()[0])
    assert first["train/reward/total"] == fmean([line["total"] for line in drawn])
    assert first["train/tokens/answer"] == fmean([len(line["tokens"]) for line in drawn])
    surprise = [-value for line in drawn for value in line["logprobs"]]
    assert first["train/token_entropy"] == pytest.approx(fmean(surprise))


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


class Remembers(StepReward):
    """Remembers every answer of the steps before."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored]:
        self.texts = self.texts + [one.text for one in answers]
        return [Scored(terms={"reward": 0.0}) for _ in answers]

    def state(self) -> object:
        return self.texts

    def restore(self, state: object) -> None:
        self.texts = list(cast("list[str]", state))


class Done:
    """A future that is there."""

    def __init__(self, value: object) -> None:
        self.value = value

    def result(self, _: float | None = None) -> object:
        return self.value


class Client:
    """Stand-in for a sampling client: one text by the place in a group."""

    def __init__(self, renderer: Renderer, texts: str) -> None:
        self.sequences = [self.written(renderer, text) for text in texts]

    def written(self, renderer: Renderer, text: str) -> SimpleNamespace:
        messages = (Message(role=Role.USER, content="q"), Message(role=Role.ASSISTANT, content=text))
        tokens, weights = renderer.build_supervised_example(messages)
        own = [token for token, weight in zip(tokens, weights, strict=True) if weight]
        return SimpleNamespace(tokens=own, logprobs=[-1.0] * len(own), stop_reason="stop")

    def sample(self, prompt: object, count: int, *_: object, **__: object) -> Any:
        del prompt
        return Done(SimpleNamespace(sequences=self.sequences[:count]))

    def compute_logprobs(self, tokens: types.ModelInput) -> Any:
        return Done([None] + [-1.0] * (tokens.length - 1))


def forced(renderer: Renderer, texts: str, **parts: Any) -> tuple[UserSubject, list[Rollout[Any, Any]]]:
    """Return a task's subject, and the rollouts of a step: texts that are sampled, and every option."""
    task = Task(items=["q1", "q2"], prompt="{item}", held_out=0.0, **parts)
    subject = UserSubject(task=task, split=split_items(task, Path(), 0), renderer=renderer)
    client: Any = Client(renderer, texts)
    sampling = Sampling(samples=len(texts), max_tokens=5, temperature=1.0, seed=0)
    groups = force_options(client, subject, subject.split.train, sampling)
    return subject, [one for group in groups for one in group if isinstance(one, Rollout)]


def options(item: object) -> list[str]:
    del item
    return ["a", "x"]


def rare(item: object, texts: Sequence[str]) -> list[float]:
    del item
    return [1 / texts.count(text) for text in texts]


def test_a_reward_with_a_memory_enters_what_was_sampled_and_every_option(renderer: Renderer) -> None:
    subject, rollouts = forced(renderer, "abab", reward=Remembers(), options=options)
    assert subject.state() == []
    subject.score(rollouts)
    assert subject.state() == [one.text for one in rollouts] == list("ababax" * 2)


def test_a_reward_of_a_group_sees_sampled_answers_and_options_together(renderer: Renderer) -> None:
    _, rollouts = forced(renderer, "aaaa", reward=of_group(rare), options=options)
    assert [one.answer.total for one in rollouts] == ([0.2] * 5 + [1.0]) * 2


def test_metrics_of_a_step_are_of_what_was_drawn(renderer: Renderer) -> None:
    def is_option(item: object, text: str) -> float:
        del item
        return float(text == "x")

    parts: dict[str, Any] = {"reward": is_option, "metrics": {"option": is_option}, "options": options}
    subject, rollouts = forced(renderer, "aaaa", **parts)
    of_step = [rollouts[:6], rollouts[6:]]
    groups = score_groups(of_step, subject.score, advantage=Advantage.CENTER, zero_variance_filter=False)
    assert subject.train_figures(groups)["train/metric/option"] > 0.0
    assert subject.train_figures([one.drawn(4) for one in groups])["train/metric/option"] == 0.0
