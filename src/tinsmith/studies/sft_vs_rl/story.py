"""What may be said of SFT against RL: the gate's sentence first, then what limits it, and whether it is true."""

from __future__ import annotations

from tinsmith.lab.study.results import limits
from tinsmith.pages.wording import counted, listed, told
from tinsmith.stats.gate.claim import CheckName, Claim, Finding, Verdict
from tinsmith.stats.rates import Metric
from tinsmith.studies.sft_vs_rl.results import MARGIN, OFFSET_RULE, Equivalence, SftVsRl, Truth, WithPrompt
from tinsmith.studies.sft_vs_rl.settings import OFFSET, WORDS, ArmName

_RL, _SFT = WORDS[ArmName.RL], WORDS[ArmName.SFT]
_CLOSE = 0.005
"""Two policies of a planted world that differ by less are called equal."""


def headline(study: SftVsRl) -> str:
    """Return the sentence at the top: what the gate says of the primary claim, and nothing beyond it."""
    return f"{study.claims[0].claim.sentence()}."


def sentences(study: SftVsRl) -> tuple[str, ...]:
    """Return all that may be said, the headline first."""
    return (
        headline(study),
        *_recalls(study),
        *_others(study),
        *_learned(study),
        *_prompt(study),
        *_greedy(study),
        *(_equivalent(one) for one in study.equivalences if one.shown),
        *_controls(study),
        *_truth(study),
        study.standings,
        *_limits(study),
    )


def _recalls(study: SftVsRl) -> list[str]:
    """What the gate says of the smallest recall, which is what a reward for macro-F1 is to protect."""
    found = (one.claim for one in study.claims if one.claim.metric is Metric.MIN_CLASS_RECALL)
    return [f"{claim.sentence()}." for claim in found]


def _others(study: SftVsRl) -> list[str]:
    """The other claims of the family that hold."""
    rest = [one.claim for one in study.claims[1:] if one.claim.metric is not Metric.MIN_CLASS_RECALL]
    allowed = [claim for claim in rest if claim.verdict is Verdict.ALLOWED]
    return [f"{claim.sentence()}." for claim in allowed]


def _learned(study: SftVsRl) -> list[str]:
    """Whether anything simpler explains what each arm scores."""
    return [f"{one.claim.sentence()}." for one in study.learned]


def _prompt(study: SftVsRl) -> list[str]:
    """What RL is worth beside a prompt that was searched for the base as it is."""
    if not isinstance(study, WithPrompt):
        return []
    side = study.prompt
    searched = [one for one in side.searches if one.arm == ArmName.PROMPT]
    changed = sum(bool(one.found) for one in searched)
    control = next(one.claim for one in side.controls)
    allowed = control.verdict is Verdict.ALLOWED
    return [
        *(f"{one.claim.sentence()}." for one in (*side.claims, *side.learned)),
        f"Of {counted(len(searched), 'search', 'searches')} for a prompt {changed} found another than the base is "
        f"asked with; by shuffled labels {'something' if allowed else 'nothing'} may be claimed"
        f"{', which must not be' if allowed else ''}.",
    ]


def _greedy(study: SftVsRl) -> list[str]:
    """How both answer when nothing is drawn: a policy that is surer of itself is better sampled, and no better here."""
    sft, rl = study.row(_SFT).greedy, study.row(_RL).greedy
    if sft is None or rl is None:
        return []
    return [f"Asked greedily instead, {_SFT} has macro-F1 {told(sft.macro_f1)} and {_RL} {told(rl.macro_f1)}."]


def _equivalent(one: Equivalence) -> str:
    return (
        f"{one.first} and {one.second} are equivalent on {one.metric} within {MARGIN:g}: {one.value:+.3f}, "
        f"90 % interval {one.low:+.3f} to {one.high:+.3f} (two one-sided tests)."
    )


def _controls(study: SftVsRl) -> list[str]:
    claims = [one.claim for one in study.controls]
    chance = 1.0 / len(study.labels)
    found = [(claim, study.row(claim.first).selected.balanced_accuracy) for claim in claims]
    seen = listed([f"{claim.first} has balanced accuracy {told(score)}" for claim, score in found])
    # A control is no control of itself, so that the gate refuses it in any case.
    learned = [claim.first for claim, score in found if score.low is not None and score.low > chance]
    if learned or any(claim.verdict is Verdict.ALLOWED for claim in claims):
        return [
            f"Something is wrong: on shuffled labels there is nothing to learn, and yet {seen}, where chance is "
            f"{chance:.3f}."
        ]
    return [f"On shuffled labels no claim holds: {seen}, where chance is {chance:.3f}."]


def _truth(study: SftVsRl) -> list[str]:
    """Hold the page against what is known of a planted world."""
    truth = study.truth
    if truth is None:
        return []
    best = truth.best
    above = [
        f"{row.name} ({told(row.selected.macro_f1)})"
        for row in study.rows
        if row.selected.macro_f1.low is not None and row.selected.macro_f1.low > best.macro_f1
    ]
    highest = max(study.rows, key=lambda row: row.selected.macro_f1.value)
    ceiling = (
        f"Something is wrong: above the best possible macro-F1 of {best.macro_f1:.3f} lies {listed(above)}."
        if above
        else f"The world is planted, and the best possible macro-F1 is {best.macro_f1:.3f}: nothing lies above it "
        f"by its interval; {highest.name} has the highest, {told(highest.selected.macro_f1)}."
    )
    claims = [one.claim for one in study.claims]
    return [ceiling, *(line for claim in claims if (line := _held_against(claim, truth)))]


def _held_against(claim: Claim, truth: Truth) -> str:
    """Say whether a claim of RL over SFT agrees with where both go with ever more training; empty for others."""
    if claim.first != _RL or claim.second not in (_SFT, OFFSET):
        return ""
    score = "macro_f1" if claim.metric is Metric.MACRO_F1 else "min_class_recall"
    with_offset = next((one for one in truth.others if one.name == OFFSET_RULE), None)
    limit = with_offset if claim.second == OFFSET else truth.imitation
    if limit is None:
        return ""
    ours, theirs = getattr(truth.best, score), getattr(limit, score)
    gap = ours - theirs
    allowed = claim.verdict is Verdict.ALLOWED
    where = f"with ever more training {_RL} goes to {ours:.3f}, {claim.second} to {theirs:.3f}"
    if gap > _CLOSE:
        verdict = "which is true" if allowed else "though it is true in the end, as these runs do not show it"
    else:
        verdict = "WHICH IS NOT TRUE" if allowed else "and rightly so"
    word = "allowed" if allowed else "refused"
    return f'"{_RL} beats {claim.second} on {claim.metric}" is {word}, {verdict} ({where}).'


def _limits(study: SftVsRl) -> list[str]:
    """What a reader must know before a refusal or a claim is repeated elsewhere."""
    missing = any(
        check.name is CheckName.METADATA and check.finding is Finding.MISSING
        for one in study.learned
        for check in one.claim.checks
    )
    why = "The slice has no metadata-only baseline, without which nothing can be claimed to be learned."
    return [*limits(study), *([why] if missing else [])]
