"""The rewards that react: their formulas by hand, their memory, and that they go on after a restart."""

import json
import math

import msgspec
import numpy as np
import pytest
from task_cases import INVALID, THOUGHT, UNPARSED, C, D, N, said

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.objectives import MacroF1Influence, ShareTable
from tinsmith.lab.labels.rewards import REWARDS, Reward, RewardState, make_reward
from tinsmith.lab.labels.task import TASKS
from tinsmith.types.errors import CheckpointError, ConfigError

TASK = TASKS["disruption"]
REACTING = [name for name, kind in REWARDS.items() if kind.objective is not None]
EXP4_LIKE = np.array([[1, 80, 64], [2, 47, 117], [1, 38, 150]]) / 500
BALANCED = np.full((3, 3), 1 / 9)


def task_terms(name: str, confusion: np.ndarray, **settings: object) -> np.ndarray:
    """The matrix without the contract's 0.05, if its confusion were this one, with or without invalid answers."""
    whole = np.hstack([confusion, np.zeros((3, 4 - confusion.shape[1]))])
    return make_reward(name, TASK, **settings).per_label(tuple(map(tuple, whole.tolist()))) - 0.05


def macro_f1(cells: np.ndarray) -> float:
    """By its definition, with the last column of 4 as invalid answers."""
    truths, said_ = cells.sum(axis=1), cells[:, :3].sum(axis=0)
    return float(np.mean([2 * cells[k, k] / (truths[k] + said_[k]) for k in range(3)]))


# --- macro-F1 influence


def test_influence_at_a_confusion_like_exp4s() -> None:
    shares = ShareTable(tuple((*row, 0.0) for row in EXP4_LIKE.tolist()))
    assert shares.macro_f1() == pytest.approx(0.2914, abs=5e-5)
    free = MacroF1Influence(low=-100.0, high=100.0)
    slope = np.array(free.task_terms(shares)) * 2 / 3
    assert np.diag(slope) == pytest.approx([2.22, 0.864, 0.456], abs=5e-3)
    wrong = [slope[k - 1, k] for k in range(3)]
    assert wrong == pytest.approx([-0.015, -0.143, -0.185], abs=5e-4)


@pytest.mark.parametrize("seed", range(5))
def test_influence_is_the_slope_of_the_macro_f1(seed: int) -> None:
    cells = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(3, 4)
    shares = ShareTable(tuple(map(tuple, cells.tolist())))
    free = MacroF1Influence(low=-100.0, high=100.0)
    influence = np.array(free.task_terms(shares)) * 2 / 3
    step = 1e-6
    for y in range(3):
        own = shares.f1(y) / (3 * (shares.truth(y) + shares.answered(y)))
        for k in range(4):
            up, down = cells.copy(), cells.copy()
            up[y, k] += step
            down[y, k] -= step
            slope = (macro_f1(up) - macro_f1(down)) / (2 * step)
            # The part that depends on the truth alone falls out of a group's baseline.
            said_k = influence[y, k] if k < 3 else 0.0
            assert slope == pytest.approx(said_k - own, abs=1e-6)


def test_exp6_at_balance_and_for_an_abandoned_label() -> None:
    # F = .4 and R + P = 2/3 for each label: right +1.2, wrong -0.3.
    even = np.full((3, 3), 0.1) + np.eye(3) / 30
    matrix = task_terms("macro_f1", even)
    assert np.diag(matrix) == pytest.approx(1.2)
    assert matrix[0, 1] == pytest.approx(-0.3)
    collapsed = np.array([[0, 0, 1 / 3]] * 3)
    assert np.diag(task_terms("macro_f1", collapsed))[:2].tolist() == [3.0, 3.0]


def test_exp6_is_clipped_and_floored() -> None:
    rare = np.zeros((3, 3))
    rare[1, 1] = rare[2, 2] = 0.5
    assert task_terms("macro_f1", rare, high=100.0)[0, 0] == pytest.approx(2 / 0.05 / 2)
    assert task_terms("macro_f1", rare)[0, 0] == pytest.approx(3.0)
    assert task_terms("macro_f1", rare, scale=9.0)[0, 1] == pytest.approx(-1.0)
    assert task_terms("macro_f1", BALANCED, scale=0.5) == pytest.approx(0.5 * task_terms("macro_f1", BALANCED))


# --- prior matching, dual, G-mean, inverse share


def test_exp7_by_hand() -> None:
    at_prior = task_terms("prior_matching", BALANCED)
    assert at_prior == pytest.approx(1.6 * np.eye(3) - 0.6)
    tilted = np.array([[0.3, 0.02, 0.0133], [0.3, 0.02, 0.0134], [0.3, 0.02, 0.0133]])
    shares = np.array([0.9, 0.06, 0.04])
    offsets = np.log(shares * 3)
    assert task_terms("prior_matching", tilted) == pytest.approx(at_prior - offsets)
    assert task_terms("prior_matching", tilted, strength=0.25) == pytest.approx(at_prior - 0.25 * offsets)
    collapsed = np.array([[0, 0, 1 / 3]] * 3)
    assert task_terms("prior_matching", collapsed)[0, 0] == pytest.approx(1 - math.log(0.003))
    prior = {D: 0.2, C: 0.3, N: 0.5}
    unequal = task_terms("prior_matching", BALANCED, prior=prior)
    assert unequal[0, 0] == pytest.approx(1 - math.log(1 / 0.6))


def test_invalid_answers_do_not_count_among_the_shares_that_are_matched() -> None:
    half_invalid = np.hstack([BALANCED / 2, np.full((3, 1), 1 / 6)])
    for name in ("prior_matching", "inverse_share"):
        assert task_terms(name, half_invalid) == pytest.approx(task_terms(name, BALANCED))


def test_exp8_duals_grow_below_tau_and_shrink_to_zero() -> None:
    reward = make_reward("dual", TASK, window=1.0)
    assert reward.per_label()[0].tolist() == [1.05, -0.55, -0.55]
    # Window 1: the confusion is the batch's. Recall d 0, c 1, n 0.5.
    golds, answers = [D, C, N, N], [said(C), said(C), said(N), said(C)]
    for step in range(1, 4):
        reward.update(golds, answers)
        assert reward.state().duals == pytest.approx((step * 0.006, 0.0, 0.0))
        assert reward.per_label()[0, 0] == pytest.approx(1.05 + 1.6 * step * 0.006)
        assert reward.per_label()[1, 0] == -0.55
    reward.update([D], [said(D)])
    assert reward.state().duals == pytest.approx((0.018 - 0.014, 0.0, 0.0))
    for _ in range(3):
        reward.update([D], [said(D)])
    assert reward.state().duals == (0.0, 0.0, 0.0)


def test_exp8_by_hand_and_its_ceiling() -> None:
    reward = make_reward("dual", TASK, rate=100.0, window=1.0, prior={D: 0.2, C: 0.4, N: 0.4})
    reward.update([D], [said(C)])
    assert reward.state().duals == (5.0, 0.0, 0.0)
    assert reward.per_label()[0, 0] == pytest.approx(0.05 + 1.6 * (1 + 5 / 0.6) - 0.6)


def test_exp10_by_hand() -> None:
    assert np.diag(task_terms("g_mean", BALANCED)) == pytest.approx([1.6] * 3)
    assert np.diag(task_terms("g_mean", EXP4_LIKE)) == pytest.approx(
        [1.6 / 3 / 0.06, 1.6 / 3 / (47 / 166), 1.6 / 3 / (150 / 189)]
    )
    assert task_terms("g_mean", EXP4_LIKE).max() == pytest.approx(8.9, abs=0.05)
    assert task_terms("g_mean", EXP4_LIKE)[0, 1] == 0.0
    unequal = task_terms("g_mean", BALANCED, prior={D: 0.2, C: 0.4, N: 0.4})
    assert np.diag(unequal) == pytest.approx([1.6 / 0.6, 1.6 / 1.2, 1.6 / 1.2])


def test_inverse_share_by_hand() -> None:
    assert np.diag(task_terms("inverse_share", BALANCED)) == pytest.approx([1.0] * 3)
    said_ = EXP4_LIKE.sum(axis=0)
    assert np.diag(task_terms("inverse_share", EXP4_LIKE)) == pytest.approx(
        [1 / 0.3, 1 / (3 * said_[1]), 1 / (3 * said_[2])]
    )


# --- memory


def test_a_batch_enters_by_its_share_of_the_window() -> None:
    reward = make_reward("macro_f1", TASK, window=16.0, first_shares={D: 0.5, C: 0.5, N: 0.0})
    assert reward.state().confusion == ((1 / 6, 1 / 6, 0.0, 0.0),) * 3
    golds = [D, D, C, N]
    reward.update(golds, [said(D), INVALID, UNPARSED, said(N)])
    expected = 0.75 * np.array([[1 / 6, 1 / 6, 0, 0]] * 3)
    expected += 0.25 * np.array([[0.25, 0, 0, 0.25], [0, 0, 0, 0.25], [0, 0, 0.25, 0]])
    assert np.array(reward.state().confusion) == pytest.approx(expected)
    assert reward.state().batches == 1
    reward.update([], [])
    assert reward.state().batches == 1


@pytest.mark.parametrize("name", REACTING)
def test_score_uses_the_state_before_the_batch(name: str) -> None:
    reward = make_reward(name, TASK, window=8.0)
    golds, answers = [D, C, N, D], [said(D), said(D), said(D), INVALID]
    before, matrix = reward.state(), reward.per_label()
    first = reward.score(golds, answers)
    assert reward.score(golds, answers) == first
    assert reward.state() == before
    reward.update(golds, answers)
    assert reward.state() != before
    assert (reward.per_label() != matrix).any()
    reward.restore(before)
    assert reward.score(golds, answers) == first


def batches(seed: int, count: int) -> list[tuple[list[str], list[Answer]]]:
    draw = np.random.default_rng(seed)
    kinds = [said(D), said(C), said(N), INVALID, UNPARSED, THOUGHT]
    made: list[tuple[list[str], list[Answer]]] = []
    for _ in range(count):
        size = int(draw.integers(1, 40))
        golds = [TASK.labels[i] for i in draw.integers(0, 3, size)]
        made.append((golds, [kinds[i] for i in draw.integers(0, len(kinds), size)]))
    return made


def driven(reward: Reward, steps: list[tuple[list[str], list[Answer]]]) -> list[object]:
    seen: list[object] = []
    for golds, answers in steps:
        seen.append([terms.total for terms in reward.score(golds, answers)])
        reward.update(golds, answers)
        seen.append(dict(reward.trace()))
    return seen


@pytest.mark.parametrize("name", list(REWARDS))
def test_a_restored_reward_goes_on_with_the_same_bits(name: str) -> None:
    steps = batches(seed=3, count=30)
    whole = make_reward(name, TASK)
    seen = driven(whole, steps)
    first = make_reward(name, TASK)
    start = driven(first, steps[:13])
    stored = json.dumps(msgspec.to_builtins(first.state()), sort_keys=True)
    second = make_reward(name, TASK)
    second.restore(RewardState.from_json(json.loads(stored)))
    assert second.state() == first.state()
    assert start + driven(second, steps[13:]) == seen  # ==, no tolerance
    assert second.state() == whole.state()


@pytest.mark.parametrize("name", REACTING)
def test_the_order_within_a_batch_changes_nothing(name: str) -> None:
    one, other = make_reward(name, TASK), make_reward(name, TASK)
    for golds, answers in batches(seed=4, count=5):
        one.update(golds, answers)
        other.update(golds[::-1], answers[::-1])
    assert one.state() == other.state()


def test_a_label_without_a_paper_so_far_changes_no_bit_of_safety() -> None:
    for name in REACTING:
        reward = make_reward(name, TASK, window=1.0)
        reward.update([C], [UNPARSED])
        assert np.isfinite(reward.per_label()).all()
        assert all(map(math.isfinite, reward.trace().values()))


def test_the_trace_names_recalls_shares_and_duals() -> None:
    reward = make_reward("dual", TASK, window=1.0)
    reward.update([D, C, N, N], [said(C), said(C), said(N), INVALID])
    assert dict(reward.trace()) == {
        "ema_macro_f1": pytest.approx((2 / 3 + 2 / 3) / 3),
        "ema_recall/disruptive": 0.0,
        "ema_share/disruptive": 0.0,
        "correct/disruptive": pytest.approx(1.05 + 1.6 * 0.006),
        "wrong/disruptive": -0.55,
        "dual/disruptive": pytest.approx(0.006),
        "ema_recall/consolidating": 1.0,
        "ema_share/consolidating": 0.5,
        "correct/consolidating": 1.05,
        "wrong/consolidating": -0.55,
        "dual/consolidating": 0.0,
        "ema_recall/neutral": 0.5,
        "ema_share/neutral": 0.25,
        "correct/neutral": 1.05,
        "wrong/neutral": -0.55,
        "dual/neutral": 0.0,
    }


# --- what is refused


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("macro_f1", {"lambda": 1.0}, "allowed: scale, low, high, floor, window, prior"),
        ("dual", {"strength": 1.0}, "allowed: tau, rate, ceiling"),
        ("g_mean", {"class_weights": {}}, "no such setting"),
        ("exp5", {"weights": 3}, "allowed: class_weights"),
        ("exp5", {"class_weights": 3}, "this needs one number for every label"),
        ("exp5", {"class_weights": {"novel": 3.0}}, "this needs one number for every label"),
        ("exp5", {"class_weights": {D: "3"}}, "finite number"),
        ("exp5", {"class_weights": {D: True}}, "finite number"),
        ("exp5", {"class_weights": {D: math.inf}}, "finite number"),
        ("exp5", {"window": 512}, "no such setting"),
        ("macro_f1", {"scale": math.nan}, "finite"),
        ("macro_f1", {"scale": "1"}, "finite"),
        ("macro_f1", {"window": 0.5}, "window"),
        ("macro_f1", {"floor": 0.0}, "above zero"),
        ("macro_f1", {"low": 4.0}, "low"),
        ("macro_f1", {"prior": {D: 1.0}}, "every label"),
        ("macro_f1", {"prior": {D: 1.0, C: 0.0, N: 0.0}}, "every label"),
        ("macro_f1", {"prior": {D: 0.5, C: 0.5, N: 0.5}}, "every label"),
        ("macro_f1", {"prior": (0.2, 0.3, 0.5)}, "this needs one number for every label"),
        ("macro_f1", {"first_shares": {D: -0.5, C: 1.0, N: 0.5}}, "every label"),
    ],
)
def test_wrong_settings(name: str, settings: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make_reward(name, TASK, **settings)


def test_a_state_of_another_shape_is_refused() -> None:
    reward = make_reward("dual", TASK)
    for damaged in (
        msgspec.structs.replace(reward.state(), duals=()),
        msgspec.structs.replace(reward.state(), confusion=reward.state().confusion[:2]),
        msgspec.structs.replace(reward.state(), confusion=((0.1,) * 3,) * 3),
    ):
        with pytest.raises(CheckpointError, match="shape"):
            reward.restore(damaged)
