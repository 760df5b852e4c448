"""What an experiment's name and version stand for: the SHA-256 of everything its plan resolves to.

The same `name@version` must never mean something else: a test compares these with the ones that were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.experiment.plan import make_plan
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
            "frame": plan.named,
            "settings": told_apart(plan.settings),
            "reward_settings": dict(plan.reward_settings),
            "arithmetic": plan.arithmetic,
            **plan.experiment.subject.named(plan),
            **engine,
        }
    )


def fingerprints_of(experiments: Iterable[Experiment]) -> Mapping[str, Mapping[str, str]]:
    """Return the fingerprint of experiments without overrides, by `name@version` and place."""
    return {
        one.full_name: {
            at.value: plan_fingerprint(make_plan(one, {"at": at.value})) for at in one.subject.kinds[one.kind].places
        }
        for one in experiments
    }
