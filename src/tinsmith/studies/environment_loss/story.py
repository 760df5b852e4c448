"""What a study of the loss on the environment's answers may say, the first thing first: what came out and what not."""

from __future__ import annotations

from tinsmith.lab.results.claim_tables import claim_sentence
from tinsmith.lab.study.results import limits_of
from tinsmith.lab.study.signs import signs_sentence
from tinsmith.pages.wording import counted, told
from tinsmith.studies.environment_loss.results import WORDS, LossFound, Weighed, speed
from tinsmith.studies.environment_loss.settings import CONTROL, NONE


def sentences(found: LossFound) -> tuple[str, ...]:
    """Return all that may be said."""
    return (
        _signs(found),
        _success(found),
        *(_speed(found, one) for one in found.arms if one.arm != NONE),
        _control(found),
        *(claim_sentence(claim) for claim in (*found.beats, *found.learned)),
        *limits_of(found, {}),
    )


def _signs(found: LossFound) -> str:
    first = signs_sentence(found.signs)
    return f"{first}." if found.control_flat else f"{first}; and the control is not flat."


def _success(found: LossFound) -> str:
    none = found.arm(NONE)
    ends = "; ".join(f"{WORDS[one.arm]} {told(one.after)}" for one in found.arms)
    errands = counted(found.num_items, "held-out errand")
    return f"Success on {errands} before training is {told(none.before)}; after it: {ends}."


def _speed(found: LossFound, one: Weighed) -> str:
    none = found.arm(NONE)
    ratio, p_value = speed(none, one)
    return (
        f"{WORDS[one.arm]} needs {ratio:.2f} times fewer steps to one half than lambda = 0 (p = {p_value:.2g}, seeds "
        f"paired; {one.reached} and {none.reached} of {len(one.to_half)} runs came to it, the others count as "
        f"{one.steps} steps)."
    )


def _control(found: LossFound) -> str:
    control = found.arm(CONTROL)
    flat = "flat" if found.control_flat else "not flat"
    return (
        f"The control, whose shell answers with another world's facts at every look, is {flat}: what it is answered is "
        f"foreseen {control.nll_fell:+.2f} nats a token better at its end."
    )
