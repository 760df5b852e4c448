"""What a study of the loss on the environment's answers may say, the first thing first: what came out and what not."""

from __future__ import annotations

from tinsmith.lab.study.results import limits_of
from tinsmith.lab.study.signs import Sign
from tinsmith.pages.wording import counted, listed, told
from tinsmith.stats.claim import Claim, Verdict
from tinsmith.studies.environment_loss.results import WORDS, LossFound, Weighed, speed
from tinsmith.studies.environment_loss.settings import CONTROL, NONE


def sentences(found: LossFound) -> tuple[str, ...]:
    """Return all that may be said."""
    return (
        _signs(found),
        _success(found),
        *(_speed(found, one) for one in found.arms if one.arm != NONE),
        _control(found),
        *(_ruled(claim) for claim in (*found.beats, *found.learned)),
        *limits_of(found, {}),
    )


def _signs(found: LossFound) -> str:
    came = [one for one in found.signs if one.came_out]
    missed = [one for one in found.signs if not one.came_out]
    first = f"Of {len(found.signs)} signs that were expected {len(came)} came out"
    if came:
        first += f": {_words(came)}"
    if missed:
        first += f"; not: {_words(missed)}"
    return f"{first}." if found.control_flat else f"{first}; and the control is not flat."


def _words(signs: list[Sign]) -> str:
    return listed([f"{one.expected} ({one.told})" for one in signs])


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


def _ruled(claim: Claim) -> str:
    sentence = claim.sentence()
    if claim.verdict is Verdict.ALLOWED:
        return f"{sentence}."
    return f"{sentence[0].upper()}{sentence[1:]}."
