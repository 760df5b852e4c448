"""The task of `alignment_collapse`: labels, and a steering term that says nothing where a group shares it."""

from statistics import fmean

import pytest

from tinsmith.lab.user_task.step_reward import Asked
from tinsmith.studies.alignment_collapse import DOORS, SOME, SURE, Steered, door_of, is_sure, label, right


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
    asked = [
        Asked(item=item, replies=(text,), text=text, group=group) for group, item in enumerate(signs) for text in texts
    ]
    first, second = (reward(asked[skip:]) for skip in (3, 0))
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
