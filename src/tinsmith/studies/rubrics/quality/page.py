"""The page of a rubric's quality: the answer first, what cannot be claimed, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Block, Bullets, Callout, Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import document_html
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, RowKind, Table, measured, number, plain, signed_cell, table_of, text, whole
from tinsmith.pages.wording import counted
from tinsmith.studies.rubrics.pages.gains import p_cell
from tinsmith.studies.rubrics.quality.statistics import Accuracy, Condition, CriterionCount, RubricQuality, Unit
from tinsmith.studies.rubrics.quality.story import cannot_be_claimed, quality_story

_MOST_CRITERIA: Final = 60
"""Rows of the table of criteria; quality.json has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRun:
    """What the page tells beside the figures."""

    judge: str
    by_rules: bool
    built_in: bool
    """Whether the pairs are the built-in ones."""
    source: str
    """Where the pairs are from."""
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
    def limits(self) -> tuple[str, ...]:
        """What cannot be claimed."""
        return cannot_be_claimed(self.quality, built_in=self.built_in, by_rules=self.by_rules, drawn=self.drawn)


_COST: Final = (
    "What asking everything once takes, by the texts that went and came; what this run really sent, attempts and "
    "answers from the cache included, is in spent.json."
)
CONDITION_WORDS: Final = {
    Condition.WITHOUT: "without rubric",
    Condition.OWN: "with its own rubric",
    Condition.OTHER: "with another pair's rubric",
}


def quality_html(run: QualityRun, question: str) -> str:
    """Return the page; the same run, the same bytes."""
    quality = run.quality
    failures = note(_failures(run))
    no_places = note(
        "The judge by rules does not look at places: it takes the response that is shown first only where nothing else "
        "separates the two."
    )
    figure = drawn(_figure(quality.accuracies), "Missing: there is no accuracy.")
    page = Document(
        kind="Report of a rubric's quality",
        title=f"Rubric quality for the judge {run.judge}",
        question=question,
        facts=(
            ("Judge", run.judge),
            ("Pairs", f"{quality.pairs} of {run.drawn}, {counted(quality.prompts, 'prompt')}"),
            ("Unit of the tests", quality.unit.value),
            ("From", run.source),
            ("Pairs' fingerprint", run.sha256[:12]),
            ("Seed", str(run.seed)),
        ),
        sections=(
            summary(
                quality_story(quality, run.judge), Callout("What cannot be claimed", [Bullets(run.limits)]), failures
            ),
            Section("accuracy", "Accuracy", [figure, _accuracies(quality, by_rules=run.by_rules)]),
            Section("gains", "Gains", [_contrasts(quality)]),
            Section("places", "Places", [_positions(quality.accuracies) or no_places]),
            Section("criteria", "Criteria", [*_idle(quality), _criteria(quality.criteria)]),
            Section("cost", "Cost and failures", [plain(_COST, ("Cost", ""), run.cost), failures]),
        ),
    )
    return document_html(page)


def _idle(quality: RubricQuality) -> tuple[Block, ...]:
    if not quality.idle:
        return ()
    more = max(0, len(quality.idle) - _MOST_CRITERIA)
    named = [*quality.idle[:_MOST_CRITERIA], *([f"{more} more in quality.json"] if more else [])]
    words = "These hold for both responses or for neither, in every pair that has them:"
    return note(words), Bullets(named)


def _figure(accuracies: Sequence[Accuracy]) -> Markup | None:
    panel = Panel(
        title="Accuracy on preference pairs",
        dots=[Dots("accuracy", series_mark(0), [_measure(each) for each in accuracies])],
        limits=[Limit(0.5, "a coin")],
    )
    told = "; ".join(f"{CONDITION_WORDS[each.condition]}: {each.value:.3f}" for each in accuracies)
    names = [CONDITION_WORDS[each.condition] for each in accuracies]
    return dots_svg("accuracy", f"Accuracy. {told}.", names, [panel], width=7.2)


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
    return table_of(
        caption,
        quality.accuracies,
        ("The judge", _judge),
        ("accuracy", lambda each: measured(_measure(each))),
        ("right", lambda each: whole(each.right)),
        ("pairs", lambda each: whole(each.n)),
    )


def _judge(accuracy: Accuracy) -> Cell:
    return text(CONDITION_WORDS[accuracy.condition])


def _contrasts(quality: RubricQuality) -> Table:
    found = (quality.gain, quality.control, quality.beyond_control)
    rule = (
        "McNemar's exact test on the pairs that just one of both has right, and Tango's 95 % interval, widened where "
        "it would leave out a zero that the test does not"
        if quality.unit is Unit.PAIR
        else "flips of the sign of what each prompt's pairs gained in sum, each counted, and what they do not refuse"
    )
    table = table_of(
        f"Gains on the same pairs: {rule}.",
        [each for each in found if each is not None],
        ("Gain", lambda each: text(f"{CONDITION_WORDS[each.first]}, minus {CONDITION_WORDS[each.second]}")),
        ("gain", lambda each: signed_cell(each.gain, each.interval)),
        ("p", lambda each: p_cell(each.p_value)),
        ("only the first right", lambda each: whole(each.helped)),
        ("only the second right", lambda each: whole(each.hurt)),
        (f"{quality.unit}s that moved", lambda each: Cell(text=f"{each.moved:,} of {each.units:,}", number=True)),
        (text("Finding"), lambda each: text(each.finding.value)),
    )
    first, *others = table.rows
    return replace(table, rows=(replace(first, kind=RowKind.CHOSEN), *others))


def _positions(accuracies: Sequence[Accuracy]) -> Table | None:
    rows = [(each, each.positions) for each in accuracies if each.positions is not None]
    if not rows:
        return None
    return table_of(
        "Every pair was asked in both orders. The accuracies above are those of the order that the seed drew; "
        "p tests the pairs whose answer followed the place, first against second.",
        rows,
        ("The judge", lambda row: _judge(row[0])),
        ("answers A|share of all", lambda row: number(row[1].first_share)),
        ("same response|in both orders", lambda row: whole(row[1].same)),
        ("right|in both orders", lambda row: whole(row[1].right_both)),
        ("always A", lambda row: whole(row[1].always_first)),
        ("always B", lambda row: whole(row[1].always_second)),
        ("p", lambda row: p_cell(row[1].p_value)),
    )


def _criteria(criteria: Sequence[CriterionCount]) -> Table:
    order = sorted(criteria, key=lambda each: (-each.pairs, each.criterion))
    left = len(order) - _MOST_CRITERIA
    caption = "How often each criterion holds for one response alone, most frequent criteria first."
    if left > 0:
        caption += f" {counted(left, 'criterion', 'criteria')} more in quality.json."
    return table_of(
        caption,
        order[:_MOST_CRITERIA],
        ("Criterion", lambda each: text(each.criterion)),
        ("pairs", lambda each: whole(each.pairs)),
        ("for the chosen", lambda each: whole(each.for_chosen)),
        ("for the rejected", lambda each: whole(each.for_rejected)),
    )


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
