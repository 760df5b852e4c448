"""What an experiment's name and version stand for: the SHA-256 of everything its plan resolves to.

The same `name@version` must never mean something else: a test compares these with the ones that were committed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.papers.joint_frame import JointFrame
from tinsmith.lab.experiment.keys import Frame
from tinsmith.lab.experiment.places import places_of
from tinsmith.lab.experiment.plan import (Plan, kind_of, make_plan,)
from tinsmith.lab.experiment.registry import EXPERIMENTS
from tinsmith.lab.settings import told_apart
from tinsmith.types.deviation import Deviation
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.gradient import GradientUnit


def plan_fingerprint(plan: Plan) -> str:
    """Return the SHA-256 of all that decides a plan's results but papers and model; circumstances are not in it."""
    # An experiment is without fault by itself, and trained in trees; only what was asked otherwise is part of its name.
    engine: dict[str, object] = {}
    if plan.deviation is not Deviation.NONE:
        engine["deviation"] = plan.deviation
    if plan.gradient_unit is not GradientUnit.TREE:
        engine["gradient_unit"] = plan.gradient_unit
    return sha256_of(
        {
            "frame": plan.frame,
            "settings": told_apart(plan.settings),
            "reward_settings": dict(plan.reward_settings),
            "arithmetic": plan.arithmetic,
            **(
                {"prompt_sha256": plan.frame.asked().prompt_sha256}
                if isinstance(plan.frame, Frame | JointFrame)
                else {}
            ),
            **engine,
        }
    )


def all_fingerprints() -> Mapping[str, Mapping[str, str]]:
    """Return the fingerprint of every experiment without overrides, by `name@version` and place."""
    return {
        one.full_name: {
            at.value: plan_fingerprint(make_plan(one, {"at": at.value}))
            for at in places_of(kind_of(one, {}))
        }
        for one in EXPERIMENTS.values()
    }
