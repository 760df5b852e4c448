"""What a study of interleaved exploration may say, the first thing first: what did not come out, and what did."""

from __future__ import annotations

from tinsmith.lab.study.results import limits_of
from tinsmith.lab.study.signs import signs_words
from tinsmith.pages.wording import told
from tinsmith.stats.gate.claim import Claim
from tinsmith.studies.exploration.results import WORDS, ExplorationFound, Explored
from tinsmith.studies.exploration.settings import CONTROL, NONE


def sentences(found: ExplorationFound) -> tuple[str, ...]:
    """Return all that may be said."""
    return (
        _signs(found),
        _control(found),
        *(_arm(one) for one in found.arms if one.arm != CONTROL),
        *(_ruled(claim) for claim in (*found.beats, *found.learned)),
        *limits_of(found, {}),
    )


def _signs(found: ExplorationFound) -> str:
    missed = [one for one in found.signs if not one.came_out]
    came = [one for one in found.signs if one.came_out]
    if not missed:
        return f"All {len(came)} signs that were expected came out: {signs_words(came)}."
    counted = f"Of {len(found.signs)} signs that were expected {len(missed)} did not come out"
    first = f"{counted}: {signs_words(missed)}."
    return f"{first} Came out: {signs_words(came)}." if came else first


def _control(found: ExplorationFound) -> str:
    control, none = found.arm(CONTROL), found.arm(NONE)
    flat = "flat" if found.control_flat else "not flat"
    return (
        f"The control, whose exploration is paid by chance, is {flat}: it covers {told(control.coverage.after)} of the "
        f"checkpoints, and the task alone {told(none.coverage.after)}."
    )


def _arm(one: Explored) -> str:
    return (
        f"{WORDS[one.arm].capitalize()} ({one.overhead:.1%} of the rollouts explore): coverage "
        f"{told(one.coverage.after)}, before training {one.coverage.before.value:.3f}; errands "
        f"{told(one.success.after)}, {one.success.before.value:.3f}; recovered {told(one.recovery.after)}, "
        f"{one.recovery.before.value:.3f}."
    )


def _ruled(claim: Claim) -> str:
    sentence = claim.sentence()
    return f"{sentence[0].upper()}{sentence[1:]}."
