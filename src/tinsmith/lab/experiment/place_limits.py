"""What a place cannot ask of its model, and which experiments are therefore one and the same there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.fingerprints import plan_fingerprint
from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.experiment.plan import make_plan

_WHY: Final[Mapping[At, str]] = {
    At.NANO: "what the nano base was made for",
    At.SMALL: "what a small chat model can answer",
}


def _where(plan: Plan) -> str:
    return "here" if _of_another_model(plan) else f"at={plan.frame.at}"


def _why(plan: Plan) -> str:
    if _of_another_model(plan):
        return "short prompts and answers, unless these keys are given"
    return _WHY[plan.frame.at]


def _of_another_model(plan: Plan) -> bool:
    """Whether a model is named where the numbers are those of the base that is built here."""
    where = plan.circumstances
    return plan.frame.at is At.NANO and (where.base_url or where.model_name) is not None


def place_limits(plan: Plan) -> list[str]:
    """Return what of an experiment its place leaves out, in sentences; nothing where it runs as it is written.

    What the command line says holds at every place, and is not told.
    """
    at = plan.frame.at
    written = plan.experiment.inherited
    kept = {
        key: value
        for key, value in plan.entry.forced.get(at, {}).items()
        if written.get(key, value) != value and key not in plan.overrides
    }
    if not kept:
        return []
    told = [
        f"{_where(plan)}: "
        + ", ".join(f"{key} is {shown_value(value)}, not {shown_value(written[key])}" for key, value in kept.items())
        + f": {_why(plan)}"
    ]
    here = {"at": at.value}
    own = plan_fingerprint(make_plan(plan.experiment, here))
    twins = [
        one.full_name
        for one in plan.experiment.subject.experiments
        if one.name != plan.experiment.name
        and at in one.subject.kinds[one.kind].places
        and plan_fingerprint(make_plan(one, here)) == own
    ]
    if twins:
        told.append(f"{_where(plan)}: this is {', '.join(twins)} under another name; at=seed tells them apart")
    return told
