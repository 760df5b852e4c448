"""The exact label gradient: its weights, what its rollouts still teach, and the two ways to score labels."""

import dataclasses
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from own_task import lines
from small_study import PAPERS, RL, TASK, open_run, run_once, study_of

from tinsmith.lab.grouping import score_groups
from tinsmith.lab.labels.contracts import Answer, Confidence
from tinsmith.lab.labels.labelled_papers import (
    LabelGradient,
    LabelledPapers,
    label_logprobs,
    label_probabilities,
    label_weights,
    trained_label_logprobs,
)
from tinsmith.lab.labels.rewards import make_reward
from tinsmith.lab.labels.task import Item
from tinsmith.lab.policy import adam
from tinsmith.lab.rl import train
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Rollout
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import Gradient, RlSettings
from tinsmith.ops.advantages import Advantage, center_within_group
from tinsmith.types.errors import ConfigError

EXACT = dataclasses.replace(RL, steps=2, learning_rate=5e-3, save_every=0, gradient=Gradient.EXACT)


def trained(connection: Connection, folder: Path, settings: RlSettings, reward: str = "strong") -> list[dict[str, Any]]:
    run_once(connection, folder, settings, reward)
    return lines(folder, METRICS)


@pytest.fixture(scope="module")
def folder(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exact") / "run"
    trained(connection, out, EXACT)
    return out


def test_the_weights_are_the_gradient_of_the_expected_reward() -> None:
    logits = np.array([[0.3, -1.1, 0.4], [2.0, 0.0, -0.5]])
    paid = np.array([[1.05, -0.55, -0.55], [-0.55, 3.05, -0.55]])

    def expected(at: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        return float((label_probabilities(at) * paid).sum())

    weights = label_weights(label_probabilities(logits), paid)
    for place in np.ndindex(*logits.shape):
        moved = np.zeros_like(logits)
        moved[place] = 1e-5
        slope = (expected(logits + moved) - expected(logits - moved)) / 2e-5
        assert weights[place] == pytest.approx(slope, abs=1e-9)


def test_a_group_with_every_label_at_its_share_gives_the_same_gradient() -> None:
    pi, paid = np.array([[0.5, 0.25, 0.25]]), np.array([[1.0, -0.6, -0.6]])
    group = np.array([1.0] * 4 + [-0.6] * 4)  # eight rollouts: four of the first label
    advantages = center_within_group(group)
    of_label = [advantages[:4].sum(), advantages[4:6].sum(), advantages[6:].sum()]
    assert np.allclose(8 * label_weights(pi, paid), [of_label], atol=1e-12)


def test_a_reward_that_is_the_same_for_all_labels_teaches_nothing() -> None:
    pi = np.array([[0.5, 0.25, 0.25]])
    assert not label_weights(pi, np.full((1, 3), 0.75)).any()


def test_one_call_of_the_trainer_scores_labels_with_the_samplers_bits(connection: Connection, tmp_path: Path) -> None:
    run = open_run(connection, tmp_path / "run", EXACT)
    rewarded = LabelGradient(study=study_of(run), paid=make_reward("exp5", TASK).per_label(), group_size=4)
    for _ in range(2):  # the adapter begins at zero: the second time it says something
        sampler = run.trainer.save_weights_and_get_sampling_client().result(WAIT_SECONDS)
        one = label_logprobs(sampler, study_of(run), PAPERS.validation[:4])
        other = trained_label_logprobs(run.trainer, study_of(run), PAPERS.validation[:4])
        assert one.shape == (4, 3)
        assert (one.view(np.int64) == other.view(np.int64)).all()
        datums = rewarded.datums(run.trainer, PAPERS.train[:4])
        run.trainer.forward_backward(datums, "cross_entropy")
        run.trainer.optim_step(adam(EXACT, 0)).result(WAIT_SECONDS)
    run.folder.close()


def test_what_all_labels_begin_with_has_no_weight(connection: Connection, tmp_path: Path) -> None:
    run = open_run(connection, tmp_path / "run", EXACT)
    paid = make_reward("strong", TASK).per_label()
    gradient = LabelGradient(study=study_of(run), paid=paid, group_size=4)
    datums = gradient.datums(run.trainer, PAPERS.train[:1])
    openings = [study_of(run).label_tokens(label) for label in TASK.labels]
    prompt = len(study_of(run).prompt(PAPERS.train[0]))
    assert len(datums) == 3
    assert len({opening[0] for opening in openings}) == 1
    firsts: list[float] = []
    for datum, opening in zip(datums, openings, strict=True):
        weights = datum.loss_fn_inputs["weights"].tolist()
        assert len(weights) == prompt + len(opening) - 1
        taught = [weight for weight in weights if weight]
        assert 0 < len(taught) < len(opening)
        assert len(set(taught)) == 1
        firsts.append(taught[0])
    assert sum(firsts) == pytest.approx(0.0, abs=1e-6)
    assert firsts[TASK.labels.index(PAPERS.train[0].gold)] > 0
    run.folder.close()


def test_rollouts_beside_it_are_all_there_and_teach_all_but_the_task_term(folder: Path) -> None:
    metrics = lines(folder, METRICS)
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for line in lines(folder, ROLLOUTS):
        if line["split"] == "train":
            groups.setdefault((line["step"], line["prompt_id"]), []).append(line)
    assert sum(len(group) for group in groups.values()) == 2 * 4 * 4
    learned = [group for group in groups.values() if group[0]["advantage"] is not None]
    for group in learned:
        rest = np.array([line["total"] - line["terms"]["task"] for line in group])
        found = [line["advantage"] for line in group]
        assert np.allclose(found, rest - rest.mean(), atol=1e-9)
    assert any(one["advantage"] for group in learned for one in group)
    for line in metrics[:-1]:
        assert line["optim/kl_sample_train"] == 0.0
        assert line["optim/unequal_logprob_bits"] == 0
        assert {"train/parse_ok", "train/format_strict_ok", "train/groups/informative", "train/reward/task"} <= set(
            line
        )


def test_it_teaches_labels_where_every_group_is_left_out(connection: Connection, tmp_path: Path) -> None:
    # One token opens an answer and is none: all rollouts earn the same.
    metrics = trained(connection, tmp_path / "run", dataclasses.replace(EXACT, max_tokens=1))
    for line in metrics[:-1]:
        assert line["train/groups/left_out"] == 4
        assert "optim/skipped" not in line
        assert line["optim/grad_norm"] > 0
        assert "optim/unequal_logprob_bits" not in line
    assert metrics[-1]["eval/kl_base"] != 0.0


def test_substeps_and_the_penalty_for_leaving_the_base_reach_the_weights(
    connection: Connection, folder: Path, tmp_path: Path
) -> None:
    plain = lines(folder, METRICS)
    penalised = dataclasses.replace(EXACT, kl_penalty_coef=1.0)
    split = dataclasses.replace(EXACT, num_substeps=2)
    others = [
        trained(connection, tmp_path / name, settings)
        for name, settings in (("penalised", penalised), ("split", split))
    ]
    assert others[0][1]["kl/base"] != 0.0
    drifts = {metrics[-1]["eval/kl_base"] for metrics in (plain, *others)}
    assert len(drifts) == 3


def test_a_reward_that_reacts_pays_by_its_state_before_the_step_and_remembers_the_answers(
    connection: Connection, tmp_path: Path
) -> None:
    run = open_run(connection, tmp_path / "run", EXACT, reward="macro_f1")
    train(run)
    run.folder.close()
    reward = study_of(run).reward
    state = reward.rewards[0].state()
    assert state.batches == EXACT.steps
    again = make_reward("macro_f1", TASK)
    trained_on = [one for one in lines(tmp_path / "run", ROLLOUTS) if one["split"] == "train"]
    for step in range(EXACT.steps):
        mine = [line for line in trained_on if line["step"] == step]
        answers = [TASK.contract.parse(line["text"]) for line in mine]
        golds = [line["gold"] for line in mine]
        assert [one.total for one in again.score(golds, answers)] == [one["total"] for one in mine]
        again.update(golds, answers)
    assert again.state() == state


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"advantage": Advantage.STD}, "advantage"),
        ({"advantage": Advantage.STD_DDOF1}, "advantage"),
        ({"group_size": 1}, "group_size"),
    ],
)
def test_settings_without_a_meaning_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        dataclasses.replace(EXACT, **changes)


def test_a_group_that_failed_whole_still_knows_its_paper() -> None:
    paper = PAPERS.train[0]
    failed: list[Rollout[Item, Answer] | Failure[Item]] = [
        Failure(item=paper, sample=each, where="sample", what="lost") for each in range(2)
    ]
    reward = make_reward("strong", TASK)
    (group,) = score_groups(
        [failed],
        lambda ones: reward.score([one.item.gold for one in ones], [one.answer for one in ones]),
        advantage=Advantage.CENTER,
        zero_variance_filter=True,
    )
    assert group.item == paper
    assert not group.learned


def test_rollouts_and_answers_of_a_look_are_counted_by_the_same_forms() -> None:
    texts = [TASK.contract.answer_text(("neutral",), Confidence.LOW), '{"disruption_label": "neutral"}', "[1]", "none"]
    first, reward = PAPERS.train[0], make_reward("strong", TASK)
    items = [dataclasses.replace(first, paper=dataclasses.replace(first.paper, id=f"W{n}")) for n in range(len(texts))]
    answers = [
        Rollout(item=item, sample=0, turns=(), answer=TASK.contract.parse(text))
        for item, text in zip(items, texts, strict=True)
    ]
    study = LabelledPapers(task=TASK, papers=PAPERS, renderer=cast(Any, None), tokenizer=cast(Any, None))
    scored = score_groups(
        [[one] for one in answers],
        lambda ones: reward.score([one.item.gold for one in ones], [one.answer for one in ones]),
        advantage=Advantage.CENTER,
        zero_variance_filter=True,
    )
    trained_on, looked_at = study.train_figures(scored), study.evaluations([answers]).metrics("eval")
    for key, share in {"parse_ok": 0.75, "format_strict_ok": 0.25}.items():
        assert trained_on[f"train/{key}"] == looked_at[f"eval/{key}"] == share
