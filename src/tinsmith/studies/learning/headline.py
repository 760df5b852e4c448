"""What a study of learning found, in the few plain sentences that a reader wants first; intervals stand below."""

from __future__ import annotations

from tinsmith.pages.wording import counted, listed
from tinsmith.stats.gate.claim import Claim, Verdict
from tinsmith.studies.learning.keys import TRAINED, WORDS
from tinsmith.studies.learning.results import LearnedArm, LearningFound
from tinsmith.studies.learning.story import holds, shown_measure


def headline(found: LearningFound) -> tuple[str, ...]:
    """Return the sentences."""
    trained = [arm for arm in found.arms if arm.arm in TRAINED]
    return (
        f"Before training, {shown_measure(found.score)} is {found.untrained.value:.2f} on "
        f"{counted(found.num_items, 'held-out item')}.",
        *(_after(found, arm) for arm in trained),
        *_better(found.beats),
        *_baseline(found),
        *_learned(found),
        *_forgotten(found),
    )


def _after(found: LearningFound, arm: LearnedArm) -> str:
    moved = arm.of(found.score)
    if moved is None:
        return f"What {arm.words} changes is not known."
    seen = counted(arm.effort.items, "training item")
    if not holds(moved):
        return f"{arm.words} on {seen} ends at {moved.after.value:.2f}, which may be chance."
    how = "raises" if moved.gain.value > 0 else "lowers"
    return f"{arm.words} on {seen} {how} it to {moved.after.value:.2f}."


def _better(beats: tuple[Claim, ...]) -> list[str]:
    arms = {WORDS[name] for name in TRAINED}
    return [
        f"{claim.first} does better than {claim.second}."
        for claim in beats
        if claim.verdict is Verdict.ALLOWED and {claim.first, claim.second} <= arms
    ]


def _baseline(found: LearningFound) -> list[str]:
    known = [(one.score.value, one.name) for one in found.baselines if one.score is not None]
    if not known:
        return []
    value, name = max(known)
    return [f"Without a model, the best answer known ({name}) has {value:.2f}."]


def _learned(found: LearningFound) -> list[str]:
    names = [claim.first for claim in found.learned if claim.verdict is Verdict.ALLOWED]
    if names:
        return [f"No simpler explanation is left for what {listed(names)} learned."]
    return ["For none of them every simpler explanation is ruled out; the claims below say which."]


def _forgotten(found: LearningFound) -> list[str]:
    changes = [(arm.words, arm.forgotten.change) for arm in found.arms if arm.forgotten is not None]
    if not changes:
        return []
    worse = [name for name, one in changes if one.high is not None and one.high < 0.0]
    if worse:
        return [f"{listed(worse)} cost something elsewhere: general texts are foreseen less well."]
    return ["General texts are not shown to be foreseen less well after training."]
