"""Several adapters as one policy: who writes which reply, what each trains on, and how their figures become one."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tinsmith.lab.environment import Move
from tinsmith.lab.grouping import Scored, ScoredGroup
from tinsmith.lab.policy import Agents, joined, update_agents
from tinsmith.lab.rollouts import Failure, Rollout, Sampling, Trajectory, Turn, sample_groups
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.task import Turns
from tinsmith.types.errors import ConfigError


def reply(*_: Any) -> str:
    return "next"


@pytest.mark.parametrize(
    "agents", [0, 9, {0: 3, 4: 2}, {0: 2, 4: 2}, {2: 3}, {0: 0, 1: 2}], ids=lambda one: str(one).replace(" ", "")
)
def test_agents_that_are_not_there_from_the_start_or_become_fewer_are_refused(agents: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Turns(reply=reply, most=7, agents=agents)
    assert caught.value.field == "agents"


@pytest.mark.parametrize("parts", [{"forks": 2}, {"deepest": 1}])
def test_agents_neither_fork_nor_spawn(parts: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Turns(reply=reply, agents=2, **parts)
    assert caught.value.field == "agents"


def test_an_agent_begins_when_its_step_comes_and_others_stay() -> None:
    begun: list[int] = []
    first: Any = "first"

    def begin(number: int) -> Any:
        begun.append(number)
        return f"agent {number}"

    agents = Agents([first], {0: 1, 3: 3}, begin)
    assert list(agents.at(2)) == ["first"]
    assert begun == []
    assert list(agents.at(3)) == ["first", "agent 1", "agent 2"] == list(agents.at(9))
    assert begun == [1, 2]
    assert joined(["a", "b"]).split() == ["a", "b"]


@dataclass
class Client:
    """A sampling client that always writes one token, and remembers what it was asked after."""

    token: int
    asked: list[list[int]] = field(default_factory=list[list[int]])

    def sample(self, prompt: Any, count: int, _: Any) -> Any:
        self.asked.append(prompt.to_ints())
        one = SimpleNamespace(tokens=[self.token], logprobs=[-1.0])
        return SimpleNamespace(result=lambda _: SimpleNamespace(sequences=[one] * count))


class Last(Move):
    """The token that follows every reply."""

    def observation(self) -> tuple[int, ...]:
        return (7,)


@dataclass
class Talk:
    """A conversation that would never end."""

    def first(self) -> tuple[int, ...]:
        return (1,)

    def step(self, tokens: Any) -> Move:
        del tokens
        return Last()


class Talks:
    """Environments of such conversations."""

    def stop(self) -> list[int]:
        return [0]

    def environments(self, item: Any, count: int, seed: int) -> list[Talk]:
        del item, seed
        return [Talk() for _ in range(count)]

    def text(self, tokens: Any) -> str:
        return str(tokens)

    def read(self, trajectories: list[Trajectory[Any]]) -> list[str]:
        return ["" for _ in trajectories]


def test_every_agent_writes_one_reply_in_order_and_the_last_one_ends_the_conversation() -> None:
    clients: Any = [Client(11), Client(12), Client(13)]
    sampling = Sampling(samples=2, max_tokens=1, temperature=1.0, seed=0)
    (group,) = sample_groups(clients, Talks(), [SimpleNamespace(prompt_id="a")], sampling)
    for one in group:
        assert one.tokens == (11, 12, 13)
    assert [one.asked for one in clients] == [[[1]], [[1, 11, 7]], [[1, 11, 7, 12, 7]]]


class Short(Client):
    """One that is answered with a sample too few where the last token is 2."""

    def sample(self, prompt: Any, count: int, params: Any) -> Any:
        return Client.sample(self, prompt, count - (prompt.to_ints()[-1] == 2), params)


class Words(Talks):
    """Conversations of one reply, each after its item's own token."""

    def environments(self, item: Any, count: int, seed: int) -> list[Any]:
        del seed
        over = SimpleNamespace(observation=lambda: None, own_words=tuple, children=tuple)
        one = SimpleNamespace(first=lambda: (item.token,), step=lambda _: over)
        return [one] * count


def test_a_sample_too_few_fails_what_was_requested_together_and_not_the_run() -> None:
    items = [SimpleNamespace(prompt_id=str(token), token=token) for token in (1, 2)]
    sampling = Sampling(samples=2, max_tokens=1, temperature=1.0, seed=0)
    whole, short = sample_groups(cast("Any", Short(11)), cast("Any", Words()), items, sampling)
    assert [isinstance(one, Rollout) for one in whole] == [True, True]
    for one in short:
        assert isinstance(one, Failure)
        assert (one.where, "2 samples" in one.what) == ("sample", True)


class Trainer:
    """A training client that keeps the datums that it is sent."""

    def __init__(self, norm: float) -> None:
        self.norm, self.datums = norm, list[Any]()

    def forward_backward(self, datums: list[Any], _: str) -> Any:
        self.datums = datums
        outputs = [{"logprobs": one.loss_fn_inputs["logprobs"].to_numpy()} for one in datums]
        found = SimpleNamespace(loss_fn_outputs=outputs, metrics={"loss:sum": 2.0})
        return SimpleNamespace(result=lambda _: found)

    def optim_step(self, _: Any) -> Any:
        return SimpleNamespace(result=lambda _: SimpleNamespace(metrics={"grad_norm:mean": self.norm}))


def conversation(*replies: int) -> Rollout[Any, Any]:
    turns = tuple(
        Turn(observation=(1, 2) if not place else (7,), tokens=(token, 0), logprobs=(-0.5, -0.25), text="")
        for place, token in enumerate(replies)
    )
    return Rollout(item=None, sample=0, turns=turns, answer=None)


def test_each_agent_trains_on_its_own_reply_with_the_advantage_of_the_whole() -> None:
    terms: Any = SimpleNamespace(total=1.0, names=tuple)
    scored = tuple(
        Scored(rollout=one, terms=terms, advantage=value)
        for one, value in ((conversation(11, 12), 0.75), (conversation(21), -0.75))
    )
    group: ScoredGroup[Any, Any] = ScoredGroup(item=None, scored=scored, failures=(), informative=True)
    trainers: Any = [Trainer(3.0), Trainer(4.0)]
    found = update_agents(trainers, [group], RlSettings(steps=1, learning_rate=1e-3), 0, None, [None] * 2)
    first, second = (
        [(one.model_input.to_ints(), one.loss_fn_inputs["advantages"].tolist()) for one in trainer.datums]
        for trainer in trainers
    )
    assert first == [([1, 2, 11], [0.0, 0.75, 0.75]), ([1, 2, 21], [0.0, -0.75, -0.75])]
    assert second == [([1, 2, 11, 0, 7, 12], [0.0, 0.0, 0.0, 0.0, 0.75, 0.75])]
    assert found["optim/loss"] == 4.0
    assert found["optim/grad_norm"] == math.hypot(3.0, 4.0)
    assert found["train/agents"] == 2.0
    assert "optim/skipped" not in found
