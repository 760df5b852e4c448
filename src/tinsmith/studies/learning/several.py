"""One page over studies of several tasks: what each taught, before and after, and the same answers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.study.driver import Outcome
from tinsmith.lab.study.page import study_document
from tinsmith.pages.document import Block, Bullets, Document, Fold, Pairs, Section, drawn
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.studies.learning.headline import headline
from tinsmith.studies.learning.page import ANSWERS
from tinsmith.studies.learning.results import LearningFound
from tinsmith.studies.learning.story import shown_measure


def several_document(
    title: str, question: str, facts: Pairs, outcomes: Mapping[str, Outcome], checks: Sequence[Section]
) -> Document:
    """Return the page.

    Args:
        title: of the page.
        question: what was asked.
        facts: below the question.
        outcomes: of the studies, by what each is called on the page.
        checks: sections below those of the studies.
    """
    return study_document(
        title=title,
        question=question,
        facts=facts,
        sentences=[f"{name}: {' '.join(headline(_found(each)))}" for name, each in outcomes.items()],
        beside=(_picture(outcomes),),
        sections=(*(_section(name, one) for name, one in outcomes.items()), *checks),
    )


def _picture(outcomes: Mapping[str, Outcome]) -> Block:
    """Draw every arm of every task before and after, and the best answer that needs no model."""
    rows: list[str] = []
    before: list[Measure | None] = []
    after: list[Measure | None] = []
    best: list[Measure | None] = []
    for name, outcome in outcomes.items():
        found = _found(outcome)
        known = [one.score for one in found.baselines if one.score is not None]
        for arm in found.arms:
            moved = arm.of(found.score)
            rows.append(f"{name}, {shown_measure(found.score)}: {arm.words}")
            before.append(None if moved is None else moved.before)
            after.append(None if moved is None else moved.after)
            best.append(max(known, key=lambda one: one.value, default=None))
    told = "; ".join(
        f"{row} {'missing' if one is None else f'{one.value:.3f}'}" for row, one in zip(rows, after, strict=True)
    )
    panel = Panel(
        title="held out, sampled; 95 % intervals over items",
        dots=[
            Dots("before", series_mark(6), before),
            Dots("after", series_mark(0), after),
            Dots("best baseline", series_mark(3), best),
        ],
    )
    svg = dots_svg("tasks", f"After training. {told}.", rows, [panel], width=7.6)
    return drawn(svg, "Missing: nothing was evaluated.")


def _section(name: str, outcome: Outcome) -> Section:
    answers = next(each for each in outcome.page.sections if each.anchor == ANSWERS)
    more = Fold("The same with intervals, and what may not be claimed", [Bullets(outcome.sentences)])
    return Section(_found(outcome).task.replace("/", "-"), name, (more, *answers.blocks))


def _found(outcome: Outcome) -> LearningFound:
    assert isinstance(outcome.found, LearningFound)
    return outcome.found
