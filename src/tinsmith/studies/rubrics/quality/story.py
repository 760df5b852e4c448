"""What is said of a rubric's quality in words: the gain with its p, and what the pairs do not carry."""

from __future__ import annotations

from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.rubrics.quality.statistics import Condition, Contrast, Finding, RubricQuality, Unit
from tinsmith.studies.rubrics.records import RULES


def quality_story(quality: RubricQuality, judge: str) -> tuple[str, ...]:
    """Return the sentences of the page's top; the first is the answer."""
    return tuple(sentence for sentence in (_answer(quality, judge), _control(quality), _idle(quality)) if sentence)


def cannot_be_claimed(quality: RubricQuality, *, built_in: bool, by_rules: bool, drawn: int) -> tuple[str, ...]:
    """Return what the figures do not show, each in a sentence."""
    gain, beyond = quality.gain, quality.beyond_control
    told: list[str] = []
    if gain.finding is Finding.CANNOT_TELL:
        told.append("That the rubric adds nothing: a gain that cannot be shown may still be there.")
    if beyond is None:
        told.append("That a gain comes from what the rubric says: no other pair's rubric is there to hold against it.")
    elif gain.finding is Finding.ADDS and beyond.finding is not Finding.ADDS:
        told.append(
            "That the gain comes from what the rubric says: it cannot be distinguished from the gain with another "
            f"pair's rubric ({signed(beyond.gain)}, {p_words(beyond.p_value)})."
        )
    if built_in:
        right = " The judge by rules with the rubric is then right by construction." * by_rules
        told.append(
            "That rubrics are good elsewhere: in the built-in pairs the better answer passes its whole rubric and the "
            f"worse one breaks one or two rules.{right} They show that the instrument measures."
        )
    if drawn > quality.pairs:
        told.append(f"Anything about the {counted(drawn - quality.pairs, 'pair')} left out for a missing answer.")
    told.append(
        "Anything about another judge, about pairs unlike these, or about what a policy trained by this rubric would "
        "learn."
    )
    return tuple(told)


def _answer(quality: RubricQuality, judge: str) -> str:
    gain, values = quality.gain, {each.condition: each.value for each in quality.accuracies}
    figures = (
        f"{_named(judge)} prefers the better response of {values[Condition.WITHOUT]:.3f} of "
        f"{counted(quality.pairs, 'pair')} without a rubric and of {values[Condition.OWN]:.3f} with it: gain "
        f"{signed(gain.gain)} (95 % interval {signed(gain.interval.low)} to {signed(gain.interval.high)}), "
        f"exact {p_words(gain.p_value)}{_by_unit(gain)}"
    )
    match gain.finding:
        case Finding.ADDS:
            return f"The rubric adds to this judge's accuracy on these pairs. {figures}."
        case Finding.TAKES:
            return f"The rubric takes away from this judge's accuracy on these pairs. {figures}."
        case Finding.CANNOT_TELL:
            return f"These pairs do not show whether the rubric adds anything. {figures}. {_why(gain)}"


def _named(judge: str) -> str:
    return "The judge by rules" if judge == RULES else judge


def _by_unit(contrast: Contrast) -> str:
    if contrast.unit is Unit.PAIR:
        return f" on {counted(contrast.moved, 'pair')} of which just one of both is right"
    return f" by {counted(contrast.units, 'prompt')}, since pairs with the same prompt are not independent evidence"


def _why(contrast: Contrast) -> str:
    unit = contrast.unit.value
    if not contrast.enough:
        why = (
            f"Only {counted(contrast.moved, unit)} moved; with fewer than 6 the exact p cannot fall to {ALPHA}, "
            "however they moved."
        )
    else:
        why = f"p is above {ALPHA}."
    if contrast.needed is None:
        return f"{why} With no gain at all, there is no telling how many {unit}s would show one."
    return (
        f"{why} A difference of this size, if it is real, takes about {contrast.needed:,} {unit}s like these to be "
        "shown four times out of five."
    )


def _control(quality: RubricQuality) -> str:
    control, beyond = quality.control, quality.beyond_control
    if control is None or beyond is None:
        return "There is no negative control: no other pair here has a different prompt and different criteria."
    figures = f"{signed(control.gain)}, {p_words(control.p_value)}"
    held = f"Its own against another's: {signed(beyond.gain)}, {p_words(beyond.p_value)}."
    match control.finding:
        case Finding.CANNOT_TELL:
            return f"Another pair's rubric, the negative control, adds nothing that can be shown ({figures}). {held}"
        case Finding.ADDS:
            return (
                f"Another pair's rubric adds too ({figures}), so not all of the gain is due to what a rubric says "
                f"about its own task. {held}"
            )
        case Finding.TAKES:
            return f"Another pair's rubric takes away ({figures}). {held}"


def _idle(quality: RubricQuality) -> str:
    idle, criteria = len(quality.idle), len(quality.criteria)
    if not criteria:
        return ""
    if not idle:
        return f"Each of {counted(criteria, 'criterion', 'criteria')} distinguishes chosen from rejected at least once."
    all_of_them = counted(criteria, "criterion", "criteria")
    return f"{idle:,} of {all_of_them} never distinguish chosen from rejected; they are listed below."
