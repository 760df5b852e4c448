"""The adversarial pair against a live server: token by token, turn by turn, and what fails is nobody's reward."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
from own_task import lines
from small_debate import SCRIPTED, SETTINGS, TASK, DebateRun, build, debated, open_debate
from small_study import PAPERS, connect_to
from tinker import types

from tinsmith.lab.grouping import score_groups
from tinsmith.lab.rl import train
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Rollout, Sampling, sample_groups
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.dialogue import Earned
from tinsmith.lab.user_task.items import UserItem, named_item
from tinsmith.lab.user_task.subject import FrozenModel
from tinsmith.lab.user_task.task import Ask, Model, Turns
from tinsmith.ops.advantages import Advantage
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.challenge import load_script

DebateRollout = Rollout[UserItem, Earned]
Groups = list[list[DebateRollout | Failure[UserItem]]]
SAMPLING = Sampling(samples=3, max_tokens=28, temperature=1.0, seed=11)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    where = tmp_path_factory.mktemp("debate")
    opened = connect_to(build(where / "base"), where / "state")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def sampler(connection: Connection) -> tinker.SamplingClient:
    return connection.client.create_sampling_client(base_model="base").result(WAIT_SECONDS)


def finish(run: DebateRun) -> None:
    assert isinstance(run.settings, RlSettings)
    train(run)
    run.folder.close()


def items(connection: Connection, count: int = 4) -> list[UserItem]:
    task = debated(connection).task
    return [named_item(task, one) for one in PAPERS.train[:count]]


def record(one: DebateRollout) -> Any:
    return one.answer.scored.record


def kept(groups: Groups) -> list[DebateRollout]:
    return [one for group in groups for one in group if isinstance(one, Rollout)]


class Recording:
    """A sampling client that keeps what it was asked."""

    def __init__(self, client: tinker.SamplingClient) -> None:
        self._client = client
        self.prompts: list[list[int]] = []

    def sample(self, prompt: types.ModelInput, samples: int, params: Any) -> Any:
        self.prompts.append(prompt.to_ints())
        return self._client.sample(prompt, samples, params)


# Tokens


@pytest.mark.parametrize("max_tokens", [5, 28])
def test_what_was_sampled_is_the_exact_prefix_of_what_is_asked_next(
    sampler: tinker.SamplingClient, connection: Connection, max_tokens: int
) -> None:
    client: Any = Recording(sampler)
    where = debated(connection)
    some = items(connection)
    groups = sample_groups(client, where, some, dataclasses.replace(SAMPLING, max_tokens=max_tokens))
    found, (end,) = kept(groups), where.stop()
    assert len(found) == 12
    requests, wanted = client.prompts[len(some) :], list[list[int]]()
    ended = 0
    for one in found:
        first, second = one.turns
        wanted.append([*first.observation, *first.tokens, *second.observation])
        challenge = Message(role=Role.USER, content=one.answer.observations[0])
        stops = first.tokens[-1] == end
        ended += stops
        # A reply that was cut off gets its end from whoever goes on, and that end is not the model's.
        closing = () if stops else (end,)
        renderer = where.renderer
        assert second.observation == closing + renderer.extend((), (end,), (challenge,))[1:]
        assert len(one.written()) == len(one.sequence())
    assert ended == 0 if max_tokens == 5 else ended > 0
    # Those of a group that say and hear the same are one request.
    assert requests == [prompt for at, prompt in enumerate(wanted) if prompt not in wanted[:at]]


# Runs


def test_substeps_and_a_penalty_go_with_conversations(connection: Connection, tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, steps=2, num_substeps=2, kl_penalty_coef=0.1, zero_variance_filter=False)
    finish(open_debate(connection, tmp_path / "run", settings))
    first, second, _ = lines(tmp_path / "run", METRICS)
    assert first["kl/base"] == 0.0
    assert second["kl/base"] != 0.0
    for line in (first, second):
        assert line["optim/kl_sample_train"] == 0.0
        assert line["optim/unequal_logprob_bits"] == 0
    assert {len(line["turns"]) for line in lines(tmp_path / "run", ROLLOUTS)} == {3}


# Forks


def test_forks_share_the_first_reply_and_each_turn_is_trained_with_its_own_advantage(
    connection: Connection, tmp_path: Path
) -> None:
    sent: list[tinker.Datum] = []

    def watched(run: DebateRun) -> None:
        forward_backward = run.trainer.forward_backward

        def kept(datums: list[tinker.Datum], loss: Any) -> Any:
            sent.extend(datums)
            return forward_backward(datums, loss)

        run.trainer.forward_backward = kept  # type: ignore[method-assign]

    settings = dataclasses.replace(SETTINGS, steps=1, group_size=2, groups_per_batch=4, zero_variance_filter=False)
    out = tmp_path / "forked"
    run = open_debate(connection, out, settings, reward="adversarial/forked", forks=3, changed=watched)
    finish(run)
    trained = [line for line in lines(out, ROLLOUTS) if line["split"] == "train"]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in trained:
        groups.setdefault((line["prompt_id"], line["sample"]), []).append(line)
    assert [len(group) for group in groups.values()] == [3] * 8
    for group in groups.values():
        assert [line["fork"] for line in group] == [0, 1, 2]
        firsts = {tuple(line["turns"][0]["tokens"]) for line in group}
        assert len(firsts) == 1
        size = len(firsts.pop())
        assert len({tuple(line["logprobs"][:size]) for line in group}) == 1
        assert len({line["turns"][1]["text"] for line in group}) == 1
        totals = np.array([line["total"] for line in group])
        second = [line["advantage_by_turn"][1] for line in group]
        assert second == pytest.approx((totals - totals.mean()).tolist(), abs=1e-12)
    assert any(len({line["text"] for line in group}) > 1 for group in groups.values())
    assert len(sent) == len(trained)
    by_turn: set[float] = set()
    for datum, line in zip(sent, trained, strict=True):
        advantages = np.array(datum.loss_fn_inputs["advantages"].data, dtype=np.float32)
        first, second = (len(turn["tokens"]) for turn in line["turns"] if "tokens" in turn)
        a1, a2 = np.array(line["advantage_by_turn"], dtype=np.float32).tolist()
        by_turn |= {a1, a2}
        assert advantages[-second:].tolist() == [a2] * second
        assert sorted(advantages[:-second].tolist()) == sorted(
            [a1] * first + [0.0] * (len(advantages) - first - second)
        )
    assert len(by_turn) > 2


# Challengers


def faulty(how: str) -> Turns:
    """Challenges as the script does, but for neutral papers, where it raises or says what it must not."""

    def reply(item: Any, replies: Any, seed: int) -> str | Ask:
        if item.gold != "neutral":
            return SCRIPTED.challenge(item, TASK.contract.parse(replies[0]).predicted, replies[0], seed)
        if how == "raises":
            raise RuntimeError("B is not at home")
        asking = dataclasses.replace(SCRIPTED, script=load_script("plain"), is_model=True)
        return asking.challenge(item, None, replies[0], seed)

    return Turns(reply=reply, most=2, model=Model())


class Silent:
    """A model that fails, or says what it must not."""

    def __init__(self, how: str) -> None:
        self.how = how

    def ask(self, prompt: str, seed: int) -> Any:
        del prompt, seed

        def answer() -> str:
            if self.how == "silent":
                raise TimeoutError("B says nothing")
            return "The cd_index of this paper is 0.8."

        return answer


@pytest.mark.parametrize(
    ("how", "where", "what"),
    [
        ("raises", "reply", "not at home"),
        ("silent", "environment", "says nothing"),
        ("leaks", "reply", "says more than it may"),
    ],
)
def test_a_failed_challenge_is_a_recorded_failure_and_no_reward(
    connection: Connection, tmp_path: Path, how: str, where: str, what: str
) -> None:
    request: Any = Silent(how)
    run = open_debate(connection, tmp_path / "run", turns=faulty(how), model=request)
    groups = sample_groups(run.sampler(), run.course.subject, items(connection), SAMPLING)
    for group in groups:
        failed = [isinstance(one, Failure) for one in group]
        assert failed == [group[0].item.item.gold == "neutral"] * 3
    scored = score_groups(groups, run.course.subject.score, advantage=Advantage.CENTER, zero_variance_filter=False)
    run.observe(0, scored)
    run.record(0, {})
    run.folder.close()
    failures = [line for line in lines(tmp_path / "run", ROLLOUTS) if "failure" in line]
    assert failures
    for line in failures:
        assert "total" not in line
        assert line["failure"]["where"] == where
        assert what in line["failure"]["what"]


def test_the_arm_is_the_groups_and_says_nothing_of_the_answer(
    sampler: tinker.SamplingClient, connection: Connection
) -> None:
    some = items(connection, 16)
    groups = sample_groups(sampler, debated(connection), some, SAMPLING)
    other = sample_groups(sampler, debated(connection), some, dataclasses.replace(SAMPLING, temperature=0.4))
    answers = 0
    for group, again in zip(groups, other, strict=True):
        records = [record(one) for one in kept([group, again])]
        assert len({str(one["challenge"]) for one in records}) == 1
        answers += len({one["first"]["predicted"] for one in records}) > 1
    assert answers > 4
    assert len({record(one)["challenge"]["arm"] for one in kept(groups)}) == 3


def test_a_frozen_model_challenges_and_what_it_may_not_say_is_a_failure(
    sampler: tinker.SamplingClient, connection: Connection
) -> None:
    asking = dataclasses.replace(SCRIPTED, script=load_script("plain"), is_model=True)
    renderer = debated(connection).renderer
    model = FrozenModel(client=sampler, renderer=renderer, model=Model(max_tokens=8))
    where = debated(connection, asking, model=model)
    groups = sample_groups(sampler, where, items(connection), SAMPLING)
    found = kept(groups)
    assert found
    for group in groups:
        for one in group:
            if isinstance(one, Failure):
                assert one.where in ("environment", "reply")
    assert {len(one.turns) for one in found} == {2}
    assert all(record(one)["challenge"]["grounded"] is None for one in found)
    # Equal transcripts and seeds give equal challenges, and so the same conversations.
    assert sample_groups(sampler, where, items(connection), SAMPLING) == groups
