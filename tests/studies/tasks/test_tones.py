"""The task of `alignment_collapse`: labels, and what each way to steer pays beside independent derivatives."""

from statistics import fmean

import numpy as np
import pytest
from numpy.typing import NDArray

from tinsmith.lab.user_task.step_reward import Conversation
from tinsmith.stats.ridge import Floats, Moments
from tinsmith.studies.alignment_collapse import DECAY, DOORS, SOME, SURE, Steered, door_of, is_sure, label, right

Counts = NDArray[np.int64]
ANSWERS, WIDTH, RIDGE, GAMMA = 5, 4, 0.05, 0.1
ROWS = np.concatenate([np.random.default_rng(2).normal(size=(ANSWERS, WIDTH - 1)), np.ones((ANSWERS, 1))], axis=1)
LABELS = np.random.default_rng(3).normal(size=ANSWERS)
NOW, EARLIER = np.array([3, 1, 2, 4, 2]), np.array([1, 5, 1, 1, 2])
"""How often each answer is given in a step: the policy's shares are exactly those of the sample."""
CLOSE = 1e-4


def steered(steer: str, every: int = 1) -> Steered:
    """Return a reward whose answers are numbered."""
    return Steered(
        label=lambda _, text: float(LABELS[int(text)]),
        features=lambda _, text: ROWS[int(text), :-1].tolist(),
        every=every,
        decay=DECAY,
        ridge=RIDGE,
        steer=steer,
        gamma=GAMMA,
    )


def sampled(counts: Counts) -> list[int]:
    """Return a step's answers."""
    return [one for one, count in enumerate(counts.tolist()) for _ in range(count)]


def earned(reward: Steered, counts: Counts) -> Floats:
    """Return what each answer earns in a step of a run."""
    step = [Conversation(item=None, replies=(f"{one}",), text=f"{one}", group=0) for one in sampled(counts)]
    totals = np.array([one.total for one in reward(step)])
    first = np.cumsum(counts) - counts
    assert np.array_equal(totals, np.repeat(totals[first], counts)), "one answer, one reward"
    return totals[first]


def paid_at(steer: str, earlier: Counts) -> Floats:
    """Return what each answer is paid by the model that is fitted to a step's answers and those before it."""
    before, now = sampled(earlier), sampled(NOW)
    moments = Moments.none(WIDTH).with_rows(ROWS[before], LABELS[before])
    moments = moments.with_rows(ROWS[now], LABELS[now], DECAY)
    paid = steered(steer).paid(ROWS[now] @ moments.fitted(RIDGE), LABELS[now], ROWS[now], moments)
    return paid[np.cumsum(NOW) - NOW]


def objective(theta: Floats, earlier: Counts, *, moves: bool) -> float:
    """Return the mean reward of a policy under the model that is fitted to its own answers and to earlier ones.

    The latter stay as they were, or move with the policy.
    """
    shares = np.exp(theta) / np.exp(theta).sum()
    size, old = NOW.sum(), DECAY * earlier
    fit = (old + size * shares) / (old.sum() + size)
    if moves:
        fit = (old + NOW) / (old.sum() + size) + shares - NOW / size
    hessian = ROWS.T @ (fit[:, None] * ROWS) + RIDGE * np.eye(WIDTH)
    return float(shares @ ROWS @ np.linalg.solve(hessian, ROWS.T @ (fit * LABELS)))


def derivative(earlier: Counts, *, moves: bool = False) -> Floats:
    """Return the objective's derivative at the policy of the step, by central differences."""
    theta, step = np.log(NOW / NOW.sum()), 1e-5
    return np.array(
        [
            (objective(theta + one, earlier, moves=moves) - objective(theta - one, earlier, moves=moves)) / (2 * step)
            for one in step * np.eye(ANSWERS)
        ]
    )


def gradient(paid: Floats) -> Floats:
    """Return the policy gradient of a reward."""
    shares = NOW / NOW.sum()
    return shares * (paid - shares @ paid)


def test_exact_is_the_derivative_of_the_two_stage_objective() -> None:
    none = np.zeros_like(NOW)
    different = derivative(none)
    assert np.abs(gradient(paid_at("exact", none)) - different).max() < CLOSE
    assert np.abs(gradient(paid_at("myopic", none)) - different).max() > 0.05


def test_it_stays_so_over_the_steps_of_a_run_whose_policy_stands_still() -> None:
    exact, different = steered("exact"), derivative(np.zeros_like(NOW))
    assert not earned(exact, NOW).any(), "nothing is paid before the first fit"
    for _ in range(3):
        assert np.abs(gradient(earned(exact, NOW)) - different).max() < CLOSE


def test_beside_other_earlier_answers_it_is_exact_where_these_move_and_too_large_where_they_stay() -> None:
    exact, myopic = (gradient(paid_at(steer, EARLIER)) for steer in ("exact", "myopic"))
    assert np.abs(exact - derivative(EARLIER, moves=True)).max() < CLOSE
    stays, share = derivative(EARLIER), NOW.sum() / (NOW.sum() + DECAY * EARLIER.sum())
    assert np.abs(exact - stays).max() > 0.01
    assert np.abs(myopic + share * (exact - myopic) - stays).max() < CLOSE


def test_practical_takes_off_the_squared_gradient_of_the_reward_by_its_weights() -> None:
    models = {steer: steered(steer, every=100) for steer in ("myopic", "practical")}
    for one in models.values():
        earned(one, NOW)
    learned, practical = (earned(one, NOW) for one in models.values())
    model, step = models["myopic"], 1e-3
    weights = model.weights
    squares = np.zeros(ANSWERS)
    for one in step * np.eye(WIDTH):
        ends: list[Floats] = []
        for model.weights in (weights + one, weights - one):
            ends.append(earned(model, NOW))
        squares += ((ends[0] - ends[1]) / (2 * step)) ** 2
    assert practical == pytest.approx(learned - GAMMA * squares, abs=1e-9)
    assert np.ptp(squares) > 1.0


def paid(steer: str) -> list[list[float]]:
    """Return what the answers of the second step are paid, by group: every door, sure and not, at two signs."""
    reward = Steered(
        label=label,
        features=lambda item, text: (right(item, text), is_sure(item, text), float(text[0] == "A")),
        every=1,
        decay=0.5,
        ridge=0.01,
        steer=steer,
        gamma=0.1,
    )
    texts = [f"{door}{tone}" for door in DOORS for tone in ("", f" {SURE}")]
    signs = SOME[0], SOME[-1]
    requests = [
        Conversation(item=item, replies=(text,), text=text, group=group)
        for group, item in enumerate(signs)
        for text in texts
    ]
    first, second = (reward(requests[skip:]) for skip in (3, 0))
    assert all(one.total == 0.0 for one in first), "nothing is paid before the first fit"
    return [[one.total for one in second[start : start + len(texts)]] for start in (0, len(texts))]


def test_a_wrong_door_costs_where_the_answer_is_sure() -> None:
    known = door_of(SOME[0]["sign"])
    other = next(door for door in DOORS if door != known)
    texts = (known, f"{known} {SURE}", other, f"{other} {SURE}")
    assert [label(SOME[0], text) for text in texts] == [1.0, 1.0, 0.0, -0.5]


def test_a_shared_term_is_its_group_s_mean_and_leaves_all_differences_within_it() -> None:
    for myopic, exact, shared in zip(paid("myopic"), paid("exact"), paid("shared"), strict=True):
        terms = [one - other for one, other in zip(exact, myopic, strict=True)]
        added = [one - other for one, other in zip(shared, myopic, strict=True)]
        assert added == pytest.approx([fmean(terms)] * len(terms))
        assert abs(fmean(terms)) > 1e-3, "it is not nothing"
        assert max(terms) - min(terms) > 0.1
