"""What the nano base cannot be asked otherwise, and which experiments are therefore one and the same for it."""

from __future__ import annotations

from tinsmith.experiments.fingerprints import plan_fingerprint
from tinsmith.experiments.key_help import shown_value
from tinsmith.experiments.keys import NANO_ONLY, At
from tinsmith.experiments.plan import Plan, make_plan
from tinsmith.experiments.registry import EXPERIMENTS, inherited


def place_limits(plan: Plan) -> list[str]:
    """Return what of an experiment its place leaves out, in sentences; nothing where it runs as it is written.

    What the command line says holds at every place, and is not told.
    """
    if plan.frame.at is not At.NANO:
        return []
    written = inherited(plan.experiment)
    kept = {
        key: value
        for key, value in NANO_ONLY[plan.frame.kind].items()
        if written.get(key, value) != value and key not in plan.overrides
    }
    if not kept:
        return []
    told = [
        "at=nano: "
        + ", ".join(
            f"{key} is {shown_value(value)}, not {shown_value(written[key])}"
            for key, value in kept.items()
        )
        + ": what the nano base was made for"
    ]
    own = plan_fingerprint(make_plan(plan.experiment, {}))
    twins = [
        one.full_name
        for one in EXPERIMENTS.values()
        if one.name != plan.experiment.name and plan_fingerprint(make_plan(one, {})) == own
    ]
    if twins:
        told.append(
            f"at=nano: this is {', '.join(twins)} under another name; at=seed tells them apart"
        )
    return told
