"""The RL and SFT loops against a live server: what they leave behind, on policy to the bit, resumed, with failures."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
from own_task import lines
from small_study import PAPERS, TASK, open_run, run_once, study_of, train, train_until
from small_study import RL as SHORT_RL
from small_study import SFT as SHORT_SFT

from tinsmith.lab import rollouts as rollouts_module
from tinsmith.lab.grouping import score_groups
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.rewards import make_reward
from tinsmith.lab.labels.task import Item
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Rollout, Sampling, Turn, sample_groups
from tinsmith.lab.runs.files import CHECKPOINTS, METRICS, ROLLOUTS, IfExists
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import Order, RlLoss
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.ops.advantages import Advantage
from tinsmith.types.errors import BackendError

RL = dataclasses.replace(SHORT_RL, steps=4, eval_every=2, save_every=2)
SFT = dataclasses.replace(SHORT_SFT, eval_every=2, save_every=2, logit_offset=True)


@pytest.fixture(scope="module")
def folder(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "rl"
    run_once(connection, out, RL)
    return out


def test_every_step_has_its_metrics_and_is_on_policy_to_the_bit(folder: Path) -> None:
    metrics = lines(folder, METRICS)
    assert [line["step"] for line in metrics] == [0, 1, 2, 3, 4]
    trained = [line for line in metrics[:-1] if "optim/loss" in line]
    assert trained
    for line in trained:
        assert line["optim/kl_sample_train"] == 0.0
        assert line["optim/unequal_logprob_bits"] == 0
    assert metrics[0]["eval/kl_base"] == 0.0
    assert [line["step"] for line in metrics if "eval/macro_f1" in line] == [0, 2, 4]
    assert {"test/macro_f1", "test_greedy/macro_f1", "test_last/macro_f1"} <= set(metrics[-1])


@pytest.mark.parametrize("own", [True, False], ids=["own server", "server elsewhere"])
def test_rollouts_of_another_temperature_are_compared_at_that_of_the_trainer(
    connection: Connection, tmp_path: Path, own: bool
) -> None:
    settings = dataclasses.replace(RL, temperature=0.5, num_substeps=2, zero_variance_filter=False, eval_every=0)
    run = open_run(connection, tmp_path / "run", settings)
    run.connection = connection if own else None
    train(run)
    run.folder.close()
    for line in lines(tmp_path / "run", METRICS)[:-1]:
        assert line["optim/kl_sample_train"] == line["optim/unequal_logprob_bits"] == 0.0


def test_a_server_of_its_own_holds_only_the_policy_of_now(connection: Connection, tmp_path: Path) -> None:
    run = open_run(connection, tmp_path / "run", dataclasses.replace(RL, steps=1))
    run.connection = connection
    first = run.sampler()
    train(run)
    text = tinker.ModelInput.from_ints(list(range(20, 40)))
    base, earlier, last = (
        client.compute_logprobs(text).result(WAIT_SECONDS) for client in (run.base(), first, run.sampler())
    )
    assert earlier == last != base
    run.folder.close()


def test_every_rollout_is_written_with_its_terms(folder: Path) -> None:
    rollouts = lines(folder, ROLLOUTS)
    trained = [line for line in rollouts if line["split"] == "train"]
    assert len(trained) == RL.steps * RL.group_size * RL.groups_per_batch
    for line in trained:
        assert line["total"] == pytest.approx(sum(line["terms"].values()), abs=1e-12)
        assert line["gold"] in TASK.labels
    seen = {line["split"] for line in rollouts}
    assert {"train", "eval", "eval_greedy", "test", "test_greedy"} <= seen
    tested = [line["prompt_id"] for line in rollouts if line["split"] == "test"]
    assert tested == [item.paper.id for item in subset(PAPERS.test, RL.test_items)]


def test_looks_are_limited_to_the_same_random_part_of_a_split_every_time(
    connection: Connection, tmp_path: Path
) -> None:
    settings = dataclasses.replace(SFT, steps=2, test_items=7)
    run_once(connection, tmp_path / "limited", settings, reward=None)
    rollouts = lines(tmp_path / "limited", ROLLOUTS)
    wanted = [one.paper.id for one in subset(PAPERS.test, 7)]
    assert wanted != [one.paper.id for one in PAPERS.test[:7]]
    for split in ("test", "test_greedy", "test_offset"):
        assert [line["prompt_id"] for line in rollouts if line["split"] == split] == wanted
    assert {line["prompt_id"] for line in rollouts if line["split"] == "eval"} == {
        one.paper.id for one in subset(PAPERS.validation, SFT.eval_items)
    }


def test_a_run_killed_after_a_checkpoint_ends_as_if_nothing_had_happened(
    connection: Connection, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    run = open_run(connection, out, RL)
    train_until(run, 3)
    with (out / CHECKPOINTS).open("ab") as file:
        file.write(b'{"step": 99, "half a li')
    resumed = open_run(connection, out, RL, if_exists=IfExists.RESUME)
    assert resumed.step == 2
    train(resumed)
    resumed.folder.close()
    for name in (METRICS, ROLLOUTS):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
    assert [mark["step"] for mark in lines(out, CHECKPOINTS)] == [2, 4]


def test_supervised_training_lowers_its_loss_and_offsets_are_tested(connection: Connection, tmp_path: Path) -> None:
    run_once(connection, tmp_path / "sft", SFT, None)
    metrics = lines(tmp_path / "sft", METRICS)
    losses = [line["train/nll"] for line in metrics[:-1]]
    assert losses[-1] < losses[0]
    assert "test_offset/macro_f1" in metrics[-1]
    assert "train/reward/total" not in metrics[0]


SHORT = dataclasses.replace(RL, steps=2, eval_every=0, save_every=0)


@pytest.fixture(scope="module")
def plain(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "plain"
    run_once(connection, out, SHORT)
    return out


@pytest.mark.parametrize(
    "changes",
    [
        {"kl_penalty_coef": 0.1, "num_substeps": 2, "loss_fn": RlLoss.PPO},
        {"advantage": Advantage.RLOO, "zero_variance_filter": False, "loss_fn": RlLoss.CISPO},
    ],
)
def test_every_setting_of_the_loop_reaches_the_weights(
    connection: Connection, plain: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    changed = tmp_path / "changed"
    run_once(connection, changed, dataclasses.replace(SHORT, **changes))
    last = [lines(each, METRICS)[-1] for each in (plain, changed)]
    assert last[0]["eval/kl_base"] != last[1]["eval/kl_base"]
    if "kl_penalty_coef" in changes:
        first = lines(changed, METRICS)[0]
        assert first["kl/base"] == 0.0
        assert lines(changed, METRICS)[1]["kl/base"] != 0.0


def test_a_reward_that_reacts_is_resumed_with_its_memory(connection: Connection, tmp_path: Path) -> None:
    out = tmp_path / "reacting"
    run = open_run(connection, out, RL, reward="macro_f1")
    train_until(run, 3)
    resumed = open_run(connection, out, RL, reward="macro_f1", if_exists=IfExists.RESUME)
    reward = study_of(resumed).reward
    assert reward.rewards[0].state().batches == 2
    train(resumed)
    resumed.folder.close()
    run_once(connection, tmp_path / "whole", RL, "macro_f1")
    assert (out / METRICS).read_bytes() == (tmp_path / "whole" / METRICS).read_bytes()


class _Broken:
    """A sampling client whose every third request fails."""

    def __init__(self, client: tinker.SamplingClient, every: int) -> None:
        self._client, self._every, self._count = client, every, 0

    def sample(self, prompt: Any, samples: int, params: Any) -> Any:
        self._count += 1
        if self._count % self._every:
            return self._client.sample(prompt, samples, params)

        class Failing:
            def result(self, timeout: float) -> None:
                raise RuntimeError(f"no answer within {timeout > 0}")

        return Failing()


def test_a_failed_rollout_is_recorded_with_its_cause_and_gets_no_reward(connection: Connection, tmp_path: Path) -> None:
    run = open_run(connection, tmp_path / "failing", RL)
    client: Any = _Broken(run.sampler(), 3)
    sampling = Sampling(samples=4, max_tokens=24, temperature=1.0, seed=0)
    groups = sample_groups(client, run.course.subject, PAPERS.train[:4], sampling)
    assert [isinstance(group[0], Failure) for group in groups] == [False, False, True, False]
    scored = score_groups(groups, run.course.subject.score, advantage=Advantage.CENTER, zero_variance_filter=True)
    assert len(scored[2].failures) == 4
    assert not scored[2].scored
    assert not scored[2].learned
    run.observe(0, scored)
    run.record(0, {})
    failed = [line for line in lines(run.folder.path, ROLLOUTS) if "failure" in line]
    assert len(failed) == 4
    assert failed[0]["failure"]["what"].startswith("RuntimeError")
    assert "total" not in failed[0]
    run.folder.close()


def test_a_server_that_answers_nothing_stops_the_step(connection: Connection, tmp_path: Path) -> None:
    run = open_run(connection, tmp_path / "lost", RL)
    client: Any = _Broken(run.sampler(), 1)
    sampling = Sampling(samples=2, max_tokens=4, temperature=1.0, seed=0)
    with pytest.raises(BackendError, match="every rollout failed"):
        sample_groups(client, run.course.subject, PAPERS.train[:2], sampling)
    run.folder.close()


def test_a_groups_advantages_are_centred_and_constant_groups_are_left_out() -> None:
    def rollout(sample: int, label: str) -> Rollout[Item, Answer]:
        text = f'{{"disruption_label": "{label}", "confidence": "low"}}'
        return Rollout(
            item=PAPERS.train[0],
            sample=sample,
            turns=(Turn(observation=(1, 2), tokens=(3,), logprobs=(-0.1,), text=text),),
            answer=TASK.contract.parse(text),
        )

    gold = PAPERS.train[0].gold
    other = next(label for label in TASK.labels if label != gold)
    reward = make_reward("strong", TASK)
    mixed, constant = score_groups(
        [
            [rollout(0, gold), rollout(1, other), rollout(2, other), rollout(3, other)],
            [rollout(0, other), rollout(1, other)],
        ],
        lambda ones: reward.score([one.item.gold for one in ones], [one.answer for one in ones]),
        advantage=Advantage.CENTER,
        zero_variance_filter=True,
    )
    advantages = [one.advantage for one in mixed.scored]
    assert np.allclose(np.array(advantages, dtype=float), [1.2, -0.4, -0.4, -0.4])
    assert mixed.informative
    assert not constant.informative
    assert [one.advantage for one in constant.scored] == [None, None]
    assert rollouts_module.SEED_BITS < 32
    sums = [0.3, 0.1 + 0.2, 0.3, 0.3]
    (rounding,) = score_groups(
        [[rollout(sample, gold) for sample in range(4)]],
        lambda _: [NamedTerms(values={"right": total}, total=total) for total in sums],
        advantage=Advantage.STD,
        zero_variance_filter=True,
    )
    assert not rounding.informative


ORDERED = dataclasses.replace(SFT, steps=9, batch_size=16, eval_every=0, save_every=3, test_items=3, logit_offset=False)


@pytest.fixture(scope="module")
def by_perplexity(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Order], Path]:
    """Runs by the order of their examples; each is run once."""
    where = tmp_path_factory.mktemp("ordered")

    @cache
    def ran(order: Order) -> Path:
        run_once(connection, where / order.value, dataclasses.replace(ORDERED, order=order), None)
        return where / order.value

    return ran


@pytest.mark.parametrize(
    ("order", "epochs"), [(Order.ASCENDING, [0]), (Order.DESCENDING, [0]), (Order.RECOMPUTED, [0, 1])]
)
def test_examples_come_by_their_perplexity_again_for_each_epoch_where_it_is_recomputed(
    by_perplexity: Callable[[Order], Path], order: Order, epochs: list[int]
) -> None:
    metrics = lines(by_perplexity(order), METRICS)
    computed = [line for line in metrics if "order/sha256" in line]
    assert [line["order/epoch"] for line in computed] == epochs
    assert [line["step"] for line in computed] == [0, 7][: len(epochs)]
    for line in computed:
        assert (line["order/first_nats"] < line["order/last_nats"]) == (order is Order.ASCENDING)


def test_a_run_by_perplexity_that_was_killed_within_an_epoch_ends_as_if_nothing_had_happened(
    connection: Connection, by_perplexity: Callable[[Order], Path], tmp_path: Path
) -> None:
    settings = dataclasses.replace(ORDERED, order=Order.RECOMPUTED)
    run = open_run(connection, tmp_path / "killed", settings, reward=None)
    train_until(run, 5)
    resumed = open_run(connection, tmp_path / "killed", settings, reward=None, if_exists=IfExists.RESUME)
    assert (resumed.step, resumed.order is not None) == (3, True)
    train(resumed)
    resumed.folder.close()
    whole = by_perplexity(Order.RECOMPUTED)
    assert (tmp_path / "killed" / METRICS).read_bytes() == (whole / METRICS).read_bytes()


def test_forks_have_the_true_gradient_where_some_first_replies_end_the_conversation() -> None:
    """Over every draw of two first replies, of which the first two end and the third goes on to two forks."""
    first, second = np.exp([1.0, 1.2, -1.0]), np.exp([0.1, -0.4])
    p, q = first / first.sum(), second / second.sum()
    ended, rewards = (0.4, 0.9), (1.0, 0.0)
    turn = Turn(observation=(1,), tokens=(2,), logprobs=(-0.1,), text="")

    def forks(sample: int, draw: tuple[int, ...]) -> list[Rollout[Item, float]]:
        shared = {"item": PAPERS.train[0], "sample": sample}
        if draw[0] < 2:
            return [Rollout(**shared, turns=(turn,), answer=ended[draw[0]])]
        return [Rollout(**shared, fork=n, turns=(turn, turn), answer=rewards[at]) for n, at in enumerate(draw[1:])]

    draws = [(0,), (1,), *((2, one, other) for one in (0, 1) for other in (0, 1))]
    chances = [p[draw[0]] * math.prod(q[at] for at in draw[1:]) for draw in draws]
    found = np.zeros(3)
    for (one, chance), (other, too) in itertools.product(zip(draws, chances, strict=True), repeat=2):
        (group,) = score_groups(
            [[*forks(0, one), *forks(1, other)]],
            lambda ones: [NamedTerms(values={"right": each.answer}, total=each.answer) for each in ones],
            advantage=Advantage.RLOO,
            zero_variance_filter=True,
            forks=2,
        )
        for each in group.scored:
            moved = np.eye(3)[(one, other)[each.rollout.sample][0]] - p
            found += chance * too * (each.by_turn or (0.0,))[0] * moved / 4
    values = np.array([*ended, q @ rewards])
    np.testing.assert_allclose(found, p * (values - p @ values), atol=1e-12)
