"""Claims about runs on labels: pairs that can be compared, controls, and why others cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tinsmith.lab.results.arms import OFFSETS, Arm
from tinsmith.lab.results.rivals import RIVALS
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.study import Beats, Learned, baseline
from tinsmith.pages.wording import listed
from tinsmith.stats.runs import Runs

_OTHER_GOLDS: Final = "the two have different true labels for the same papers"
Claims = tuple[list[Beats | Learned], list[str]]
"""With what a reader must know of them."""


def claims_of(arms: Sequence[Arm], systems: Mapping[str, Runs]) -> Claims:
    """Return what every RL arm is claimed to beat (its parent, SFT, one label alone), and that it learned something."""
    if len(arms) == 1:
        return _alone(arms[0], systems)
    trained = [arm for arm in arms if arm.kind is Kind.RL]
    claims: list[Beats | Learned] = []
    notes: list[str] = []
    for first in trained:
        for second in arms:
            on_one = not (first.shuffled or second.shuffled) and first.two_labels and not second.two_labels
            if second is first or not (second.kind is Kind.SFT or second.experiment == first.parent or on_one):
                continue
            # SFT with offsets chosen for macro-F1 is the honest comparator: it has the same labels and the same aim.
            ways = [second.name, *([f"{second.name}{OFFSETS}"] if f"{second.name}{OFFSETS}" in systems else [])]
            for name in ways:
                why = incomparable(first.name, name, systems)
                if why:
                    notes.append(f"Not claimed that {first.name} beats {name}: {why}.")
                else:
                    claims.append(Beats(first.name, name))
    borrowed: dict[str, list[str]] = {}
    for arm in (one for one in trained if one.name in systems):
        control = _control(arm, arms, systems)
        claims.append(Learned(arm.name, control.name if control else ""))
        if control and control is not arm and control.parent != arm.experiment:
            borrowed.setdefault(control.parent or control.name, []).append(arm.name)
    notes += [f"The control on shuffled labels of {listed(some)} is that of {name}." for name, some in borrowed.items()]
    return claims, notes


def _alone(arm: Arm, systems: Mapping[str, Runs]) -> Claims:
    """Return the claims that one run beats the baselines of its slice; what it learned takes a control, another run."""
    if arm.first.baselines is None or arm.name not in systems:
        return [], ["No claim is judged: that takes answers to the test split and the slice's baselines."]
    known = [one.baseline for one in arm.first.baselines.scores if one.baseline in RIVALS]
    return [*(Beats(arm.name, baseline(one)) for one in known), Learned(arm.name, "")], []


def incomparable(first: str, second: str, systems: Mapping[str, Runs]) -> str:
    """Return why two systems cannot be compared; empty where they can."""
    missing = next((name for name in (first, second) if name not in systems), None)
    if missing is not None:
        return f"{missing} has no answers on the test split"
    mine, theirs = systems[first], systems[second]
    there = set(theirs.items)
    items = [item for item in mine.items if item in there]
    if mine.labels != theirs.labels:
        return "the two do not answer the same question"
    if not items:
        return "the two have no test paper in common"
    return "" if np.array_equal(mine.on(items).golds, theirs.on(items).golds) else _OTHER_GOLDS


def _control(first: Arm, arms: Sequence[Arm], systems: Mapping[str, Runs]) -> Arm | None:
    """Return the control on shuffled labels: that of `first` itself before any other's."""
    controls = [arm for arm in arms if arm.shuffled and arm.two_labels == first.two_labels]
    controls.sort(key=lambda arm: arm is not first and arm.parent != first.experiment)
    fit = ("", _OTHER_GOLDS)
    return next((arm for arm in controls if incomparable(first.name, arm.name, systems) in fit), None)
