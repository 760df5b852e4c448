"""The page of a study: sentences, one table of scores, tried rates, seconds, settings, and sections of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tinsmith.lab.study.results import Seconds, StudyValues
from tinsmith.lab.study.tried_rates import Tried
from tinsmith.pages.document import Block, Document, Facts, Pairs, Ruling, Section, Story
from tinsmith.pages.drawing import draw, one
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, column, number, plain, shown, table_of, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_document(
    title: str,
    question: str,
    facts: Pairs,
    sentences: Sequence[str],
    sections: Sequence[Section],
    *,
    verdict: bool | None = None,
    beside: Sequence[Block] = (),
) -> Document:
    """Return the page of a study.

    Args:
        title: of the page.
        question: what the study asks.
        facts: below the question.
        sentences: what came of it.
        sections: below these.
        verdict: whether the gate allows what the first sentence says; None: it is no claim.
        beside: the sentences: the one picture that shows what they say.
    """
    first: list[Block] = [Story(sentences)]
    if verdict is not None:
        first = [Ruling(verdict, sentences[0]), Story(sentences[1:])]
    return Document(
        kind="Report of a study",
        title=title,
        question=question,
        facts=facts,
        sections=(Section("summary", "Summary", [*first, *beside]), *sections),
    )


def heads(names: str) -> tuple[Cell, ...]:
    """Return a table's heads, which semicolons part; what follows a stroke stands below.

    >>> [cell.text for cell in heads("Arm; updates; FLOPs | of RL's")]
    ['Arm', 'updates', 'FLOPs']
    """
    first, *others = names.split("; ")
    return (text(first), *(column(*name.split(" | ")) for name in others))


def rates_figure(tried: Mapping[str, Sequence[Tried]]) -> Markup:
    """Draw what each learning rate scored on validation, by the name of the arm."""
    told = "; ".join(
        f"{name}: " + ", ".join(f"{each.validation:.3f} at {each.rate:g}" for each in rates)
        for name, rates in tried.items()
    )
    return draw("rates", f"Validation score by learning rate. {told}.", lambda at: _curves(at, tried), width=9.6)


def _curves(figure: Figure, tried: Mapping[str, Sequence[Tried]]) -> None:
    axes = one(figure)
    for place, (name, rates) in enumerate(tried.items()):
        mark = series_mark(place)
        axes.plot(
            [each.rate for each in rates],
            [each.validation for each in rates],
            color=mark.color,
            linestyle=mark.dash,
            marker=mark.marker,
            label=name,
        )
    axes.set_xscale("log")
    every = sorted({each.rate for rates in tried.values() for each in rates})
    axes.set_xticks(every, [f"{rate:g}" for rate in every])
    axes.minorticks_off()
    axes.set_xlabel("learning rate")
    axes.set_ylabel("validation score")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4)


def seconds_section(seconds: Mapping[str, Seconds]) -> Section:
    """Return how long the runs of each arm took, by its name on the page."""
    table = table_of(
        "Seconds of sampling, scoring and training in one run, a mean over seeds, as this machine was then, with "
        "other runs beside it. No two runs of the study have these in common; all else on this page they have.",
        seconds.items(),
        ("Arm", lambda row: text(row[0])),
        ("seconds", lambda row: number(row[1].training, digits=1)),
        ("seconds|one update", lambda row: number(row[1].a_step, "not trained", digits=2)),
        ("seconds|with examinations", lambda row: number(row[1].run, digits=0)),
    )
    return Section("seconds", "Seconds", (table,))


def hashes_section(hashes: Mapping[str, Mapping[str, str | None]]) -> Section:
    """Return what the runs of a study give again, wherever and however often they are run."""
    kinds = ("weights", "rollouts", "metrics", "trace")
    rows = [(run, *((hashes[run].get(f"{kind}_sha256") or "missing")[:16] for kind in kinds)) for run in sorted(hashes)]
    table = plain("The first 16 digits of each SHA-256.", ("Run", *kinds), rows, words=True)
    return Section("hashes", "Hashes", (table,))


def settings_section(study: StudyValues) -> Section:
    """Return what decided the results."""
    pairs = tuple((key, shown(study.settings[key])) for key in sorted(study.settings))
    return Section("settings", "Settings", (Facts(pairs),))
