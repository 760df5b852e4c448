"""Gain by a rubric, in numbers: against hand computation, brute force and scipy."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, norm

from tinsmith.stats.significance import (
    clustered_interval,
    items_needed,
    least_moved,
    mcnemar,
    paired_interval,
    sign_flip_p,
)
from tinsmith.studies.rubrics.dataset import RubricTask
from tinsmith.studies.rubrics.quality.judged_pairs import (
    Condition,
    Finding,
    Judged,
    PairAnswer,
    PreferencePair,
    compare,
    complete_pairs,
    discrimination,
    rubric_quality,
)
from tinsmith.types.errors import DataError

WITHOUT, OWN, OTHER = Condition.WITHOUT, Condition.OWN, Condition.OTHER


def judged(
    name: str, prompt: str, right: Mapping[Condition, bool], *, turned: bool | None = None, chosen_first: bool = True
) -> Mapping[Condition, PairAnswer]:
    task = RubricTask(task_id=name, prompt=prompt, rubrics=())
    pair = PreferencePair(pair_id=name, task=task, chosen="good", rejected="bad")
    return {
        one: PairAnswer(pair=pair, condition=one, right=right[one], turned=turned, chosen_first=chosen_first)
        for one in right
    }


def pairs(helped: int, hurt: int, both: int = 0, neither: int = 0) -> Judged:
    """Own against without; the control is as without."""
    kinds = [(0, 1)] * helped + [(1, 0)] * hurt + [(1, 1)] * both + [(0, 0)] * neither
    return [
        judged(f"{i:03}", f"prompt {i}", {WITHOUT: bool(a), OWN: bool(b), OTHER: bool(a)})
        for i, (a, b) in enumerate(kinds)
    ]


def clustered(*nets: Sequence[int]) -> Judged:
    """A prompt for each sequence, a pair for each of its changes."""
    return [
        judged(f"{prompt}-{i}", str(prompt), {WITHOUT: change < 0, OWN: change > 0})
        for prompt, changes in enumerate(nets)
        for i, change in enumerate(changes)
    ]


def test_accuracies_gain_and_p_are_those_of_a_hand_computation() -> None:
    found = rubric_quality(pairs(14, 3, both=20, neither=13), (), seed=0)
    assert [(each["right"], each["n"]) for each in found["accuracies"]] == [(23, 50), (34, 50), (23, 50)]
    gain = found["gain"]
    assert (gain["helped"], gain["hurt"], gain["moved"], gain["units"]) == (14, 3, 17, 50)
    assert gain["gain"] == 11 / 50
    # 2 (1 + 17 + 136 + 680) / 2^17
    assert gain["p_value"] == 2 * 834 / 2**17
    assert gain["p_value"] == pytest.approx(binomtest(14, 17).pvalue, rel=1e-12)
    assert (gain["finding"], gain["unit"], gain["needed"]) == (Finding.ADDS, "pair", None)
    wilson = found["accuracies"][0]["interval"]
    known = binomtest(23, 50).proportion_ci(method="wilson")
    assert (wilson["low"], wilson["high"]) == pytest.approx((known.low, known.high))
    assert (found["control"]["gain"], found["control"]["p_value"]) == (0.0, 1.0)
    assert found["control"]["finding"] is Finding.CANNOT_TELL
    assert found["beyond_control"]["p_value"] == gain["p_value"]


def test_a_rubric_that_misleads_takes_away() -> None:
    found = rubric_quality(pairs(1, 12), (), seed=0)
    assert found["gain"]["finding"] is Finding.TAKES
    assert found["gain"]["interval"]["high"] < 0


@pytest.mark.parametrize(("helped", "enough"), [(0, False), (1, False), (5, False), (6, True)])
def test_fewer_than_six_that_moved_can_never_tell(helped: int, enough: bool) -> None:
    gain = rubric_quality(pairs(helped, 0, both=60 - helped), (), seed=0)["gain"]
    assert gain["enough"] is enough
    assert (gain["finding"] is Finding.CANNOT_TELL) is not enough
    assert (gain["needed"] is None) is (helped in (0, 6))
    if gain["needed"] is not None:
        assert gain["needed"] >= 6 * 60 / helped
    assert binomtest(5, 5).pvalue > 0.05 > binomtest(6, 6).pvalue
    assert least_moved(0.05) == 6


def test_the_pairs_needed_are_those_of_the_power_formula() -> None:
    gain = rubric_quality(pairs(8, 4, both=88), (), seed=0)["gain"]
    assert gain["finding"] is Finding.CANNOT_TELL
    assert gain["needed"] == items_needed(0.04, discordance=0.12) == 589
    assert rubric_quality(pairs(4, 4, both=5), (), seed=0)["gain"]["needed"] is None


def test_the_interval_leaves_out_zero_where_the_exact_test_refuses_and_only_there() -> None:
    for n in (7, 30):
        for helped in range(n + 1):
            for hurt in range(n + 1 - helped):
                interval = paired_interval(helped, hurt, n)
                refused = binomtest(helped, helped + hurt).pvalue <= 0.05 if helped + hurt else False
                assert interval.holds(0.0) is not refused, (helped, hurt, n)
                assert interval.low <= (helped - hurt) / n <= interval.high
                turned = paired_interval(hurt, helped, n)
                assert (turned.low, turned.high) == pytest.approx((-interval.high, -interval.low))


def test_without_a_pair_that_moved_the_interval_still_has_a_width() -> None:
    interval = paired_interval(0, 0, 40)
    z2 = norm.ppf(0.975) ** 2
    assert interval.high == pytest.approx(z2 / (40 + z2))
    assert interval.low == -interval.high


@pytest.mark.parametrize(("helped", "hurt", "n"), [(25, 6, 60), (40, 0, 70), (18, 14, 90)])
def test_the_interval_ends_where_the_score_test_refuses(helped: int, hurt: int, n: int) -> None:
    interval = paired_interval(helped, hurt, n)
    for end in (interval.low, interval.high):

        def unlikely(q: float, delta: float = end) -> float:
            p = q + delta
            if p < 0 or q < 0 or p + q > 1:
                return 1e9
            rest = n - helped - hurt
            parts = ((helped, p), (hurt, q), (rest, 1 - p - q))
            return -sum(count * np.log(max(chance, 1e-300)) for count, chance in parts if count)

        low, high = max(0.0, -end), (1 - end) / 2
        found: Any = minimize_scalar(unlikely, bounds=(low, high), method="bounded")
        q = float(found.x)
        z = (helped - hurt - n * end) / np.sqrt(n * (2 * q + end - end * end))
        assert abs(z) == pytest.approx(norm.ppf(0.975), abs=2e-3)


def test_sign_flips_are_mcnemar_where_no_net_is_larger_than_one() -> None:
    for helped, hurt in itertools.product(range(9), range(9)):
        nets = [1] * helped + [0, 0] + [-1] * hurt
        assert sign_flip_p(nets) == mcnemar(helped, hurt).p_value


def test_sign_flips_count_every_flip() -> None:
    draw = random.Random(0)
    for _ in range(40):
        nets = [draw.randint(-3, 4) for _ in range(draw.randint(1, 9))]
        reached = abs(sum(nets))
        flips = [
            abs(sum(s * net for s, net in zip(signs, nets, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(nets))
        ]
        expected = Fraction(sum(flip >= reached for flip in flips), len(flips))
        assert sign_flip_p(nets) == pytest.approx(float(expected), rel=1e-12)


def test_pairs_of_one_prompt_are_one_observation() -> None:
    whole = rubric_quality(clustered(*[[1] * 10] * 3), (), seed=0)
    assert (whole["pairs"], whole["prompts"], whole["unit"]) == (30, 3, "prompt")
    gain = whole["gain"]
    assert (gain["gain"], gain["helped"], gain["units"], gain["moved"]) == (1.0, 30, 3, 3)
    assert gain["p_value"] == 0.25  # as pairs it would be 2^-29
    assert (gain["finding"], gain["enough"]) == (Finding.CANNOT_TELL, False)
    assert gain["interval"]["low"] <= 0.0 <= gain["interval"]["high"]
    assert (whole["control"], whole["beyond_control"]) == (None, None)
    more = rubric_quality(clustered(*[[1, 1, 0], [1, -1, 0]] * 8), (), seed=0)["gain"]
    assert more["p_value"] == 2 * 2**-8
    assert more["finding"] is Finding.ADDS
    assert more["interval"]["low"] > 0


def test_a_clustered_interval_holds_the_gain_and_shrinks_with_prompts() -> None:
    widths: list[float] = []
    for prompts in (10, 40, 160):
        interval = clustered_interval([2, 0, -1, 2, 1] * (prompts // 5), [3] * prompts, seed=0)
        assert interval.low <= 0.8 / 3 <= interval.high
        widths.append(interval.high - interval.low)
    assert widths[0] > 1.5 * widths[1] > 2 * widths[2]
    again = clustered_interval([2, 0, -1, 2, 1] * 2, [3] * 10, seed=0)
    assert again.high - again.low == widths[0]
    nothing = clustered_interval([0, 0, 0], [5, 5, 5], seed=0)
    assert nothing == paired_interval(0, 0, 3)


def test_the_order_of_the_pairs_decides_nothing() -> None:
    some = clustered([1, 1], [1], [-1, 1, 0], [1], [1, 0])
    assert rubric_quality(some, (), seed=0) == rubric_quality(some[::-1], (), seed=0)


def test_places_are_counted_from_both_orders() -> None:
    def pair(name: str, chosen_first: bool, right: bool, turned: bool) -> Mapping[Condition, PairAnswer]:
        both = dict.fromkeys((WITHOUT, OWN), right)
        return judged(name, name, both, turned=turned, chosen_first=chosen_first)

    some = [
        pair("a", True, True, False),  # A both times
        pair("b", False, False, True),  # A both times
        pair("c", True, False, True),  # B both times
        pair("d", True, True, True),
        pair("e", False, False, False),
        pair("f", False, True, True),
    ]
    found = rubric_quality(some, (), seed=0)["accuracies"][0]["positions"]
    assert (found["always_first"], found["always_second"], found["same"], found["right_both"]) == (2, 1, 3, 2)
    assert found["first_share"] == (2 * 2 + 3) / 12
    assert found["p_value"] == 1.0


def test_criteria_are_counted_over_the_pairs_that_have_them() -> None:
    verdicts = [
        (name, bool(a), bool(b))
        for name, a, b in [
            ("x", 1, 0), ("x", 0, 1), ("x", 1, 0), ("y", 1, 1), ("y", 0, 0), ("b", 0, 1),
        ]
    ]  # fmt: skip
    found = discrimination(verdicts)
    assert [(c["criterion"], c["pairs"], c["for_chosen"], c["for_rejected"]) for c in found] == [
        ("b", 1, 0, 1),
        ("x", 3, 2, 1),
        ("y", 2, 0, 0),
    ]
    assert rubric_quality(pairs(1, 0), verdicts, seed=0)["idle_criteria"] == ["y"]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataError, match="no pair"):
        rubric_quality((), (), seed=0)
    with pytest.raises(DataError):
        paired_interval(3, 3, 5)
    assert compare(pairs(1, 0), OWN, WITHOUT, unit="pair", seed=0)["gain"] == 1.0


def test_pairs_without_every_answer_are_left_out() -> None:
    whole, other = pairs(2, 0)
    (missing,) = [replace(one, right=None) for one in other.values() if one.condition is OWN]
    assert complete_pairs([*whole.values(), *({**other, OWN: missing}).values()]) == [whole]
