"""The cookbook's environments in our loop, and ours in a loop like the cookbook's; nothing of the package is here."""

import asyncio
import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tinker
from own_task import lines
from small_study import PAPERS, RL
from tinker import types

from tinsmith.lab.cookbook.environments import TaskDataset, TaskEnv
from tinsmith.lab.cookbook.subject import CookbookItem, CookbookSubject, items_of_dataset, train
from tinsmith.lab.cookbook.types import Env, EnvGroupBuilder
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Rollout, Sampling, sample_groups
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import Gradient
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.debate.rewards import TERMS
from tinsmith.studies.debate.task import debate
from tinsmith.types.errors import BackendError, ConfigError

TASK = debate(reward="adversarial/seed")
SETTINGS = dataclasses.replace(RL, steps=2, groups_per_batch=3, save_every=0, max_tokens=10)


@pytest.fixture(scope="module")
def tokenizer(connection: Connection) -> Any:
    made = connection.client.create_lora_training_client(base_model="base", rank=1, seed=0)
    return made.result(WAIT_SECONDS).get_tokenizer()


@pytest.fixture(scope="module")
def sampler(connection: Connection) -> tinker.SamplingClient:
    return connection.client.create_sampling_client(base_model="base").result(WAIT_SECONDS)


# A game as one writes it for the cookbook


@dataclasses.dataclass
class Step:
    reward: float
    episode_done: bool
    next_observation: tinker.ModelInput
    next_stop_condition: list[int]
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    logs: dict[str, str] = dataclasses.field(default_factory=dict)


class GuessEnv:
    """Guess a number: after the first guess it is told higher or lower; the second is paid by how near it is."""

    def __init__(self, tokenizer: Any, number: int, fault: str = "") -> None:
        self.tokenizer, self.number, self.fault = tokenizer, number, fault
        self.stop = [tokenizer.eos_token_id]
        self.seen: list[int] = tokenizer.encode("report of the first case")
        self.guesses: list[int] = []
        self.reasons: list[str] = []

    async def initial_observation(self) -> Any:
        if self.fault == "begins":
            raise RuntimeError("no dice")
        if self.fault == "overflows":
            return {"reward": 0.0}
        return tinker.ModelInput.from_ints(self.seen), self.stop

    async def step(self, action: list[int], *, extra: Any = None) -> Step:
        await asyncio.sleep(0)
        self.reasons.append(extra["stop_reason"])
        if self.fault == "raises":
            raise RuntimeError("the table fell over")
        self.guesses.append(sum(action) % 10)
        over = len(self.guesses) == 2
        messages = "review" if self.guesses[-1] < self.number else "survey"
        more = [] if over else self.tokenizer.encode(f" {messages} and data")
        self.seen = [*self.seen, *action, *more]
        after = self.seen[1:] if self.fault == "rewrites" else self.seen
        chunks: list[Any] = [types.EncodedTextChunk(tokens=after)]
        if self.fault == "draws":
            chunks.append(types.ImageChunk(data=b"", format="png", expected_tokens=1))
        return Step(
            reward=-0.1 * abs(self.guesses[-1] - self.number),
            episode_done=over,
            next_observation=tinker.ModelInput(chunks=chunks),
            next_stop_condition=[0, 1] if self.fault == "stops" else self.stop,
            metrics={"distance": abs(self.guesses[-1] - self.number)},
        )


@dataclasses.dataclass
class GuessGroup:
    """Several players of one number; whoever came nearest gets one more."""

    tokenizer: Any
    number: int
    size: int = 4
    faults: tuple[str, ...] = ()
    greedy: bool = True
    cleaned: int = 0
    seen: list[Any] = dataclasses.field(default_factory=list)

    async def make_envs(self) -> Sequence[GuessEnv]:
        faults = (*self.faults, *[""] * self.size)
        return [GuessEnv(self.tokenizer, self.number, fault) for fault in faults[: self.size]]

    async def compute_group_rewards(
        self, trajectory_group: list[Any], env_group: Sequence[GuessEnv]
    ) -> list[tuple[float, dict[str, float]]]:
        if not self.greedy:
            raise ValueError("the jury is out")
        self.seen.append((trajectory_group, env_group))
        near = [abs(env.guesses[-1] - self.number) for env in env_group]
        return [(float(one == min(near)), {"nearest": float(one == min(near))}) for one in near]

    def logging_tags(self) -> list[str]:
        return ["guess"]

    async def cleanup(self) -> None:
        self.cleaned += 1


@dataclasses.dataclass
class GuessDataset:
    groups: list[GuessGroup]

    def get_batch(self, index: int) -> Sequence[GuessGroup]:
        return self.groups[3 * index : 3 * index + 3]

    def __len__(self) -> int:
        return len(self.groups) // 3


def subject(
    tokenizer: Any,
    items: Sequence[CookbookItem] = (),
    held_out: Sequence[CookbookItem] = (),
    test: Sequence[CookbookItem] = (),
) -> CookbookSubject:
    return CookbookSubject(
        decode=tokenizer.decode, stop_condition=[tokenizer.eos_token_id], train=items, held_out=held_out, test=test
    )


def trained(connection: Connection, folder: Path, tokenizer: Any) -> list[GuessGroup]:
    groups = [GuessGroup(tokenizer, number) for number in range(6)]
    items = items_of_dataset(GuessDataset(groups))
    played = subject(tokenizer, items, held_out=items[:1], test=items[1:2])
    train(connection.client, "base", played, SETTINGS, folder, quiet=True)
    return groups


# The cookbook's in our loop


def test_a_cookbook_dataset_is_trained_by_our_loop(connection: Connection, tokenizer: Any, tmp_path: Path) -> None:
    groups = trained(connection, tmp_path / "run", tokenizer)
    first, second, last = lines(tmp_path / "run", METRICS)
    for line in (first, second):
        assert line["optim/kl_sample_train"] == 0.0
        assert line["optim/unequal_logprob_bits"] == 0
        assert line["train/rollouts/failed"] == 0.0
        assert 0.0 < line["train/env/nearest"] <= 1.0
    assert {"eval/reward/total", "eval/kl_base", "test/env/distance"} <= set(last)
    rollouts = lines(tmp_path / "run", ROLLOUTS)
    assert [line["split"] for line in rollouts].count("train") == 24
    for line in rollouts:
        assert len(line["turns"]) == len(line["rewards"]) == 2
        if line["split"] == "train":
            assert line["terms"] == {"steps": pytest.approx(sum(line["rewards"])), "group": line["group_reward"]}
            assert line["total"] == pytest.approx(sum(line["rewards"]) + line["group_reward"])
    assert {line["prompt_id"] for line in rollouts} <= {f"batch-{i}-{k}" for i in (0, 1) for k in range(3)}
    requests = [one for group in groups for one in group.seen]
    assert sum(group.cleaned for group in groups) == len(requests) == 2 * 3 + 1 + 1
    for trajectories, envs in requests:
        for trajectory, env in zip(trajectories, envs, strict=True):
            one, two = trajectory.transitions
            assert (one.episode_done, two.episode_done) == (False, True)
            assert two.ob.to_ints()[: one.ob.length + len(one.ac.tokens)] == [*one.ob.to_ints(), *one.ac.tokens]
            assert len(two.ac.logprobs) == len(two.ac.tokens)
            assert [one.ac.stop_reason, two.ac.stop_reason] == env.reasons
            assert trajectory.final_ob.to_ints() == env.seen
    assert not [each for each in threading.enumerate() if each.name == "cookbook"]
    trained(connection, tmp_path / "again", tokenizer)
    for name in (METRICS, ROLLOUTS):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("begins", "no dice"),
        ("overflows", "no room"),
        ("raises", "fell over"),
        ("rewrites", "does not go on"),
        ("draws", "more than tokens"),
        ("stops", "ends otherwise"),
    ],
)
def test_what_fails_is_one_rollouts_recorded_failure(
    sampler: tinker.SamplingClient, tokenizer: Any, fault: str, what: str
) -> None:
    group = GuessGroup(tokenizer, 3, faults=("", fault))
    place = subject(tokenizer)
    sampling = Sampling(samples=4, max_tokens=8, temperature=1.0, seed=2)
    [found] = sample_groups(sampler, place, [CookbookItem("one", group)], sampling)
    place.close()
    assert [isinstance(one, Failure) for one in found] == [False, True, False, False]
    failure = found[1]
    assert failure.where == "environment"
    assert what in failure.what
    # The group is rewarded over those that came to an end.
    [(trajectories, envs)] = group.seen
    assert len(trajectories) == len(envs) == 3
    assert group.cleaned == 1


def test_a_group_that_cannot_be_rewarded_has_no_rewards(sampler: tinker.SamplingClient, tokenizer: Any) -> None:
    groups = [GuessGroup(tokenizer, 3), GuessGroup(tokenizer, 5, greedy=False)]
    place = subject(tokenizer)
    sampling = Sampling(samples=4, max_tokens=8, temperature=1.0, seed=2)
    items = [CookbookItem(str(i), group) for i, group in enumerate(groups)]
    whole, lost = sample_groups(sampler, place, items, sampling)
    place.close()
    assert all(isinstance(one, Rollout) for one in whole)
    for one in lost:
        assert (one.where, "jury" in one.what) == ("group_reward", True)


def test_a_group_of_another_size_and_one_that_fails_whole_are_refused(
    sampler: tinker.SamplingClient, tokenizer: Any
) -> None:
    group = GuessGroup(tokenizer, 3, faults=("raises",) * 4)
    place = subject(tokenizer)
    sampling = Sampling(samples=2, max_tokens=8, temperature=1.0, seed=2)
    with pytest.raises(ConfigError, match="4 environments") as caught:
        sample_groups(sampler, place, [CookbookItem("one", group)], sampling)
    assert caught.value.field == "group_size"
    with pytest.raises(BackendError, match="fell over"):
        sample_groups(sampler, place, [CookbookItem("one", group)], dataclasses.replace(sampling, samples=4))
    place.close()
    assert group.cleaned == 2


@pytest.mark.parametrize("changes", [{"gradient": Gradient.EXACT}, {"interleave": "2:1"}])
def test_settings_that_a_dataset_does_not_have_are_refused(
    changes: dict[str, Any], connection: Connection, tokenizer: Any, tmp_path: Path
) -> None:
    place = subject(tokenizer, [CookbookItem("one", GuessGroup(tokenizer, 3))])
    settings = dataclasses.replace(SETTINGS, **changes)
    with pytest.raises(ConfigError) as caught:
        train(connection.client, "base", place, settings, tmp_path / "run", quiet=True)
    assert caught.value.field == next(iter(changes))
    assert not (tmp_path / "run").exists()
    place.close()


# Ours in a loop like the cookbook's


async def single_rollout(client: tinker.SamplingClient, env: Env, seed: int) -> list[Any]:
    """Play one episode as the cookbook's do_single_rollout does."""
    begun: Any = await env.initial_observation()
    observation, stop = begun
    transitions: list[Any] = []
    while True:
        params = types.SamplingParams(max_tokens=20, temperature=1.0, seed=seed, stop=stop)
        sampled = await client.sample(observation, 1, params)
        action = list(sampled.sequences[0].tokens)
        step: Any = await env.step(action, extra={"stop_reason": "stop"})  # type: ignore[call-arg]
        transitions.append((observation, action, step))
        observation, stop = step.next_observation, step.next_stop_condition
        if step.episode_done:
            return transitions


def dataset_of(tokenizer: Any, count: int, **sizes: int) -> TaskDataset:
    return TaskDataset(task=TASK, items=PAPERS.train[:count], renderer=renderer_for(tokenizer), **sizes)


def test_our_environment_is_played_by_a_loop_like_the_cookbooks(sampler: tinker.SamplingClient, tokenizer: Any) -> None:
    dataset = dataset_of(tokenizer, 4, groups_per_batch=2, group_size=3)
    assert len(dataset) == 2
    group = dataset.get_batch(1)[0]
    assert isinstance(group, EnvGroupBuilder)
    assert group.logging_tags() == ["adversarial"]

    async def play() -> tuple[list[TaskEnv], list[list[Any]]]:
        envs = await group.make_envs()
        return envs, await asyncio.gather(*(single_rollout(sampler, env, 5 + i) for i, env in enumerate(envs)))

    envs, played = asyncio.run(play())
    for env, transitions in zip(envs, played, strict=True):
        assert isinstance(env, Env)
        (first, action, received), (second, _, last) = transitions
        assert (received.reward, received.episode_done, last.reward, last.episode_done) == (0.0, False, 0.0, True)
        assert second.to_ints()[: first.length + len(action)] == [*first.to_ints(), *action]
    rewards = asyncio.run(group.compute_group_rewards(list(played), envs))
    for total, terms in rewards:
        assert tuple(terms) == TERMS
        assert total == pytest.approx(sum(terms.values()))


def test_our_environment_goes_through_both_adapters(connection: Connection, tokenizer: Any, tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, steps=1, max_tokens=24)
    dataset = dataset_of(tokenizer, 6, groups_per_batch=3, group_size=4)
    played = subject(tokenizer, items_of_dataset(dataset, "paper"))
    train(connection.client, "base", played, settings, tmp_path / "run", quiet=True)
    rollouts = lines(tmp_path / "run", ROLLOUTS)
    assert len(rollouts) == 12
    assert all(line["total"] in (-1.0, 1.2) for line in rollouts)
    assert lines(tmp_path / "run", METRICS)[0].get("optim/kl_sample_train", 0.0) == 0.0
