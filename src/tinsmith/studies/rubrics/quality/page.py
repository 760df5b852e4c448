"""The page of a rubric's quality: accuracies, gains with their p, places, criteria, and what the pairs do not show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.lab.judge.prices import shown as dollars
from tinsmith.lab.judge.records import RULES
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Table, measured, plain, signed_cell, text
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.rubrics.quality.answers import Answers
from tinsmith.studies.rubrics.quality.chat import Drawn
from tinsmith.studies.rubrics.quality.statistics import Condition, Contrast, Finding, RubricQuality, Unit

QUESTION: Final = "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?"
LABELS: Final = {
    Condition.WITHOUT: "without rubric",
    Condition.OWN: "with its own rubric",
    Condition.OTHER: "with another pair's rubric",
}
_MOST_CRITERIA: Final = 60
"""Rows of the table of criteria; quality.json has all."""


@dataclass(frozen=True, slots=True)
class QualityRun:
    """Pairs that were judged, all answers, and what these come to."""

    pairs: Drawn
    answers: Answers
    quality: RubricQuality

    @property
    def source_name(self) -> str:
        """Source of the pairs."""
        return self.pairs.file or "built-in pairs"


def quality_page(run: QualityRun) -> Document:
    """Return the page; the same run, the same bytes."""
    quality = run.quality
    values = [Measure(one.value, one.interval.low, one.interval.high) for one in quality.accuracies]
    labels = [LABELS[one.condition] for one in quality.accuracies]
    panel = Panel(
        title="Accuracy on preference pairs",
        dots=[Dots("accuracy", series_mark(0), values)],
        limits=[Limit(0.5, "a coin")],
    )
    shown = "; ".join(f"{label}: {value.value:.3f}" for label, value in zip(labels, values, strict=True))
    picture = drawn(dots_svg("accuracy", f"Accuracy. {shown}.", labels, [panel], width=7.2), "Missing: no accuracy.")
    accuracies = plain(
        "The share of pairs of which the judge prefers the better response, with Wilson's 95 % interval, which takes "
        "pairs for independent. Judge by rules: without a rubric it goes by repeated words and length.",
        ("The judge", "accuracy", "right", "pairs"),
        [
            (label, measured(value), f"{one.right:,}", f"{one.n:,}")
            for label, value, one in zip(labels, values, quality.accuracies, strict=True)
        ],
    )
    gains = plain(
        "On the same pairs. By pairs: McNemar's exact test and Tango's 95 % interval. By prompts, where several pairs "
        "have one: flips of the sign of what each prompt's pairs gained in sum. Needed: units like these that show a "
        "difference of this size four times out of five.",
        ("Gain", "gain", "p", "only the first right", "only the second right", "moved", "needed", text("Finding")),
        [
            (
                _name(one),
                signed_cell(one.gain, one.interval),
                _p(one.p_value),
                *(f"{count:,}" for count in (one.helped, one.hurt)),
                f"{one.moved:,} of {counted(one.units, one.unit.value)}",
                "" if one.needed is None else f"{one.needed:,}",
                text(one.finding.value),
            )
            for one in _contrasts(quality)
        ],
    )
    places, once = _places(quality), run.answers.once
    costs = [
        ("calls", f"{once.calls:,}"),
        ("tokens read, estimated", f"{once.prompt_tokens:,}"),
        ("tokens written, estimated", f"{once.completion_tokens:,}"),
        ("money", dollars(run.pairs.prices.dollars(run.pairs.judge, once))),
        ("pairs without a rubric in the file", f"{run.pairs.source.without_rubrics:,}"),
        ("pairs without verdicts on their criteria", f"{run.answers.unrated:,}"),
        *((f"answers that never came: {why.replace('_', ' ')}", f"{count:,}") for why, count in run.answers.failures),
    ]
    cost = "What asking everything once takes; what this run really sent is in spent.json."
    return Document(
        kind="Report of a rubric's quality",
        title=f"Rubric quality for the judge {run.pairs.judge}",
        question=QUESTION,
        facts=(
            ("Judge", run.pairs.judge),
            ("Pairs", f"{quality.pairs} of {run.pairs.num_pairs}, {counted(quality.prompts, 'prompt')}"),
            ("Unit of the tests", quality.unit.value),
            ("From", run.source_name),
            ("Pairs' fingerprint", run.pairs.sha256[:12]),
            ("Seed", str(run.pairs.seed)),
        ),
        sections=(
            summary(quality_story(run), limits=limits(run)),
            Section("accuracy", "Accuracy", [picture, accuracies]),
            Section("gains", "Gains", [gains]),
            Section("places", "Places", [places if places.rows else note("This judge does not look at places.")]),
            Section("criteria", "Criteria", [_criteria(quality)]),
            Section("cost", "Cost and failures", [plain(cost, ("Cost", ""), costs)]),
        ),
    )


def _places(quality: RubricQuality) -> Table:
    return plain(
        "Every pair was asked in both orders, where the judge looks at places. p tests the pairs whose answer followed "
        "the place, first against second.",
        (
            "The judge",
            "answers A|share of all",
            "same|in both orders",
            "right|in both orders",
            "always A",
            "always B",
            "p",
        ),
        [
            (
                LABELS[one.condition],
                f"{at.first_share:.3f}",
                *(f"{count:,}" for count in (at.same, at.right_both, at.always_first, at.always_second)),
                _p(at.p_value),
            )
            for one in quality.accuracies
            if (at := one.positions) is not None
        ],
    )


def _criteria(quality: RubricQuality) -> Table:
    return plain(
        f"How often each criterion holds for one response alone, most frequent first, {_MOST_CRITERIA} at most; never: "
        "it tells none apart. quality.json has all.",
        ("Criterion", "pairs", "for the chosen", "for the rejected", text("Tells apart")),
        [
            (
                one.criterion,
                *(f"{count:,}" for count in (one.pairs, one.for_chosen, one.for_rejected)),
                text("" if one.for_chosen + one.for_rejected else "never"),
            )
            for one in sorted(quality.criteria, key=lambda each: (-each.pairs, each.criterion))[:_MOST_CRITERIA]
        ],
    )


def quality_story(run: QualityRun) -> tuple[str, ...]:
    """Return the sentences of the page's top: each gain with its p, and criteria that tell nothing apart."""
    quality, left_out = run.quality, run.pairs.num_pairs - run.quality.pairs
    idle, criteria = len(quality.idle), counted(len(quality.criteria), "criterion", "criteria")
    return (
        *(_sentence(one) for one in _contrasts(quality)),
        *([f"{idle:,} of {criteria} tell chosen from rejected in no pair."] if quality.criteria else []),
        f"{counted(left_out, 'pair')} of {run.pairs.num_pairs:,} left out for a missing answer.",
    )


def limits(run: QualityRun) -> tuple[str, ...]:
    """Return what the figures do not show."""
    quality = run.quality
    found: list[str] = []
    if quality.gain.finding is Finding.CANNOT_TELL:
        found.append("That the rubric adds nothing: a gain that cannot be shown may still be there.")
    beyond = quality.beyond_control
    if beyond is None or (quality.gain.finding is Finding.ADDS and beyond.finding is not Finding.ADDS):
        figures = "no other pair's is there" if beyond is None else f"{signed(beyond.gain)}, {p_words(beyond.p_value)}"
        found.append(f"That a gain comes from what the rubric says, beyond another pair's rubric ({figures}).")
    if quality.unit is Unit.PROMPT:
        found.append("The intervals of the accuracies, which take pairs of one prompt for independent: too narrow.")
    if run.pairs.file is None:
        right = " The judge by rules is then right by construction." if run.pairs.judge == RULES else ""
        found.append(
            "That rubrics are good elsewhere: in the built-in pairs the better answer passes its whole rubric and the "
            f"worse one breaks one or two rules.{right}"
        )
    return (*found, "Anything about another judge, other pairs, or a policy that is trained by this rubric.")


def _contrasts(quality: RubricQuality) -> list[Contrast]:
    return [one for one in (quality.gain, quality.control, quality.beyond_control) if one is not None]


def _name(one: Contrast) -> str:
    return f"{LABELS[one.first]}, minus {LABELS[one.second]}"


def _sentence(one: Contrast) -> str:
    ends = f"{signed(one.interval.low)} to {signed(one.interval.high)}"
    moved = f"{one.moved:,} of {counted(one.units, one.unit.value)} moved"
    few = "" if one.enough else f"; with so few the exact p cannot fall to {ALPHA}"
    needed = "" if one.needed is None else f"; about {one.needed:,} would show such a difference"
    found = f"{one.finding.value}: {signed(one.gain)} ({ends}, exact {p_words(one.p_value)})"
    return f"{_name(one).capitalize()}: {found}; {moved}{few}{needed}."


def _p(p_value: float) -> str:
    return p_words(p_value).removeprefix("p ").removeprefix("= ")
