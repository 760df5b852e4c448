"""The page of a rubric's quality, and its sentences: the gain with its p, and what the pairs do not carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from tinsmith.lab.judge.records import RULES
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Bullets, Callout, Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import RowKind, Table, measured, plain, signed_cell, text
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.rubrics.quality.statistics import Accuracy, Condition, Contrast, Finding, RubricQuality, Unit

QUESTION: Final = "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?"
LABELS: Final = {
    Condition.WITHOUT: "without rubric",
    Condition.OWN: "with its own rubric",
    Condition.OTHER: "with another pair's rubric",
}
_MOST_CRITERIA: Final = 60
"""Rows of the table of criteria; quality.json has all."""
_COST: Final = (
    "What asking everything once takes, by the texts that went and came; what this run really sent, attempts and "
    "answers from the cache included, is in spent.json."
)
_NO_PLACES: Final = (
    "The judge by rules does not look at places: it takes the response that is shown first only where nothing else "
    "separates the two."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRun:
    """A rubric's quality, and what the page shows beside its figures."""

    judge: str
    source: str | None
    """File that the pairs are from; None: the built-in ones."""
    sha256: str
    """Of the pairs that were drawn."""
    seed: int
    drawn: int
    """Pairs that were put to the judge."""
    without_rubrics: int
    unrated: int
    failures: tuple[tuple[str, int], ...]
    """Answers that never came, by cause."""
    cost: tuple[tuple[str, str], ...]
    quality: RubricQuality

    @property
    def source_name(self) -> str:
        """Source of the pairs."""
        return self.source or "built-in pairs"

    @property
    def limits(self) -> tuple[str, ...]:
        """Sentences on what cannot be claimed."""
        return cannot_be_claimed(
            self.quality, built_in=self.source is None, by_rules=self.judge == RULES, drawn=self.drawn
        )


def quality_page(run: QualityRun) -> Document:
    """Return the page; the same run, the same bytes."""
    quality, failures = run.quality, note(_failures(run))
    idle, more = list(quality.idle[:_MOST_CRITERIA]), len(quality.idle) - _MOST_CRITERIA
    never = note("These hold for both responses or for neither, in every pair that has them:")
    named = Bullets([*idle, *([f"{more} more in quality.json"] if more > 0 else [])])
    return Document(
        kind="Report of a rubric's quality",
        title=f"Rubric quality for the judge {run.judge}",
        question=QUESTION,
        facts=(
            ("Judge", run.judge),
            ("Pairs", f"{quality.pairs} of {run.drawn}, {counted(quality.prompts, 'prompt')}"),
            ("Unit of the tests", quality.unit.value),
            ("From", run.source_name),
            ("Pairs' fingerprint", run.sha256[:12]),
            ("Seed", str(run.seed)),
        ),
        sections=(
            summary(
                quality_story(quality, run.judge), Callout("What cannot be claimed", [Bullets(run.limits)]), failures
            ),
            Section(
                "accuracy",
                "Accuracy",
                [
                    drawn(_figure(quality.accuracies), "Missing: there is no accuracy."),
                    _accuracies(quality, by_rules=run.judge == RULES),
                ],
            ),
            Section("gains", "Gains", [_contrasts(quality)]),
            Section("places", "Places", [_positions(quality.accuracies) or note(_NO_PLACES)]),
            Section("criteria", "Criteria", [*([never, named] if idle else []), _criteria(quality)]),
            Section("cost", "Cost and failures", [plain(_COST, ("Cost", ""), run.cost), failures]),
        ),
    )


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


def _figure(accuracies: Sequence[Accuracy]) -> Markup | None:
    names = [LABELS[each.condition] for each in accuracies]
    panel = Panel(
        title="Accuracy on preference pairs",
        dots=[Dots("accuracy", series_mark(0), [_measure(each) for each in accuracies])],
        limits=[Limit(0.5, "a coin")],
    )
    shown_values = "; ".join(f"{name}: {each.value:.3f}" for name, each in zip(names, accuracies, strict=True))
    return dots_svg("accuracy", f"Accuracy. {shown_values}.", names, [panel], width=7.2)


def _measure(accuracy: Accuracy) -> Measure:
    return Measure(accuracy.value, accuracy.interval.low, accuracy.interval.high)


def _accuracies(quality: RubricQuality, *, by_rules: bool) -> Table:
    caption = "The share of pairs of which the judge prefers the better response, with Wilson's 95 % interval."
    if by_rules:
        caption += (
            " Without a rubric this judge goes by the surface: it prefers the response that repeats more words of the "
            "prompt, then the longer one. With one, it prefers the response that passes more of its rules, and falls "
            "back on the surface where they pass equally many."
        )
    if quality.unit is Unit.PROMPT:
        caption += (
            " The intervals treat pairs as independent; several share a prompt, so they are too narrow. "
            "The tests and intervals of the gains below do not."
        )
    rows = [
        (LABELS[one.condition], measured(_measure(one)), f"{one.right:,}", f"{one.n:,}") for one in quality.accuracies
    ]
    return plain(caption, ("The judge", "accuracy", "right", "pairs"), rows)


def _contrasts(quality: RubricQuality) -> Table:
    rule = (
        "McNemar's exact test on the pairs that just one of both has right, and Tango's 95 % interval, widened where "
        "it would leave out a zero that the test does not"
        if quality.unit is Unit.PAIR
        else "flips of the sign of what each prompt's pairs gained in sum, each counted, and what they do not refuse"
    )
    moved = f"{quality.unit}s that moved"
    table = plain(
        f"Gains on the same pairs: {rule}.",
        ("Gain", "gain", "p", "only the first right", "only the second right", moved, text("Finding")),
        [
            (
                f"{LABELS[each.first]}, minus {LABELS[each.second]}",
                signed_cell(each.gain, each.interval),
                _p(each.p_value),
                f"{each.helped:,}",
                f"{each.hurt:,}",
                f"{each.moved:,} of {each.units:,}",
                text(each.finding.value),
            )
            for each in (quality.gain, quality.control, quality.beyond_control)
            if each is not None
        ],
    )
    first, *others = table.rows
    return replace(table, rows=(replace(first, kind=RowKind.CHOSEN), *others))


def _positions(accuracies: Sequence[Accuracy]) -> Table | None:
    rows = [
        (
            LABELS[each.condition],
            f"{one.first_share:.3f}",
            *(f"{count:,}" for count in (one.same, one.right_both, one.always_first, one.always_second)),
            _p(one.p_value),
        )
        for each in accuracies
        if (one := each.positions) is not None
    ]
    heads = ("The judge", "answers A|share of all", "same response|in both orders", "right|in both orders")
    caption = (
        "Every pair was asked in both orders. The accuracies above are those of the order that the seed drew; "
        "p tests the pairs whose answer followed the place, first against second."
    )
    return plain(caption, (*heads, "always A", "always B", "p"), rows) if rows else None


def _criteria(quality: RubricQuality) -> Table:
    order = sorted(quality.criteria, key=lambda each: (-each.pairs, each.criterion))
    left = len(order) - _MOST_CRITERIA
    caption = "How often each criterion holds for one response alone, most frequent criteria first."
    if left > 0:
        caption += f" {counted(left, 'criterion', 'criteria')} more in quality.json."
    rows = [
        (one.criterion, f"{one.pairs:,}", f"{one.for_chosen:,}", f"{one.for_rejected:,}")
        for one in order[:_MOST_CRITERIA]
    ]
    return plain(caption, ("Criterion", "pairs", "for the chosen", "for the rejected"), rows)


def _p(p_value: float) -> str:
    return p_words(p_value).removeprefix("p ").removeprefix("= ")


def _failures(run: QualityRun) -> str:
    left_out = run.drawn - run.quality.pairs
    parts: list[str] = []
    if run.failures:
        causes = ", ".join(f"{cause.replace('_', ' ')} {count}" for cause, count in run.failures)
        answers = counted(sum(count for _, count in run.failures), "answer")
        parts.append(f"{answers} never arrived ({causes}).")
    if left_out:
        parts.append(
            f"{counted(left_out, 'pair')} of {run.drawn:,} left out of every accuracy and gain, "
            "because an answer is missing."
        )
    if run.unrated:
        parts.append(f"{counted(run.unrated, 'pair')} without verdicts on its criteria.")
    if run.without_rubrics:
        parts.append(f"{counted(run.without_rubrics, 'pair')} in the file had no rubric.")
    return " ".join(parts) or "No answer is missing, and no pair was left out."
