"""The page of the study of SFT against RL: the gate's sentence, the table, what each arm spent, how it was tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from markupsafe import Markup
from matplotlib.figure import Figure

from tinsmith.analysis.claims import Verdict
from tinsmith.reports.arms import Arm
from tinsmith.reports.claim_tables import claims_table
from tinsmith.reports.comparison_figures import progress_plates
from tinsmith.reports.document import ClaimTable, Plate
from tinsmith.reports.dots import Dots, Panel, dots_svg
from tinsmith.reports.drawing import draw, one
from tinsmith.reports.judging import Judged
from tinsmith.reports.page import render, write
from tinsmith.reports.palette import series_mark
from tinsmith.reports.sft_vs_rl_results import (
    WORDS,
    ArmRow,
    Scores,
    SftVsRl,
    StudyArm,
    StudyClaim,
)
from tinsmith.reports.sft_vs_rl_story import headline, sentences
from tinsmith.reports.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    number,
    shown,
    text,
)
from tinsmith.reports.tried_rates import CAPTION, Tried, rate_words

_SHOWN: Final = (StudyArm.SFT, StudyArm.RL, StudyArm.THEN)
"""Arms whose steps have one length, so that one axis serves them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftVsRlPage:
    """What the template `sft_vs_rl.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    headline: str
    allowed: bool
    story: tuple[str, ...]
    scores: Table
    dots: Markup | None
    spent: Table
    claims: ClaimTable
    controls: ClaimTable
    equivalences: Table
    truth: Table | None
    rates: Markup
    tried: Table
    progress: Sequence[Plate]
    seconds: Table
    settings: tuple[tuple[str, str], ...]


def report_sft_vs_rl(
    study: SftVsRl,
    arms: Mapping[StudyArm, Arm],
    seconds: Mapping[StudyArm, float],
    question: str,
    out: Path,
) -> None:
    """Write the page to `out`; `seconds` are those of training, a mean over each arm's seeds.

    Raises:
        ConfigError: the folder of `out` does not exist.
    """
    first = study.claims[0].claim
    page = SftVsRlPage(
        title="SFT against RL",
        question=question,
        facts=(
            ("World", study.world),
            ("Slice", study.data[:16]),
            ("Test papers", f"{study.num_items:,}"),
            ("Seeds", ", ".join(map(str, study.seeds))),
            ("Rates chosen on seed", str(study.tuning_seed) if study.rates else "none: all given"),
        ),
        headline=headline(study),
        allowed=first.verdict is Verdict.ALLOWED,
        story=sentences(study)[1:],
        scores=_scores(study),
        dots=_dots(study),
        spent=_spent(study),
        claims=_claims(study.claims),
        controls=_claims(study.controls),
        equivalences=_equivalences(study),
        truth=_truth(study),
        rates=draw("rates", _told_rates(study), lambda at: _curves(at, study)),
        tried=_tried(study),
        progress=progress_plates([arms[arm] for arm in _SHOWN])[:3],
        seconds=_seconds(seconds),
        settings=tuple((key, shown(study.settings[key])) for key in sorted(study.settings)),
    )
    write(render("sft_vs_rl.html", page, script=False), out)


def _scores(study: SftVsRl) -> Table:
    rows = [TableRow(name=text("Baselines of this slice"), kind=RowKind.GROUP)]
    for name, figures in study.baselines:
        found = [figures.get(key) for key in ("label_match", "macro_f1", "min_class_recall")]
        cells = (*(measured(each) for each in found), *[absent("n/a")] * 5)
        rows.append(TableRow(name=text(name), cells=cells))
    rows.append(TableRow(name=text("Trained, and the base"), kind=RowKind.GROUP))
    rows += [TableRow(name=_name(row), cells=_row(row)) for row in study.rows]
    return Table(
        caption=(
            "The test split. Chosen by validation, sampled: means over seeds, 95 % intervals over seeds and papers. "
            "Last: every arm after its last step, sampled. A decision with offsets is neither sampled nor greedy."
        ),
        heads=(
            text("System"),
            column("label_match", "chosen"),
            column("macro-F1", "chosen"),
            column("min recall", "chosen"),
            column("macro-F1", "lowest and highest seed"),
            column("macro-F1", "last"),
            column("min recall", "last"),
            column("macro-F1", "greedy"),
            column("min recall", "greedy"),
        ),
        rows=tuple(rows),
    )


def _name(row: ArmRow) -> Cell:
    rate = "" if row.rate is None else f", rate {row.rate:g}"
    return text(row.name, f"{row.steps} steps{rate}, {len(row.seeds)} seeds")


def _row(row: ArmRow) -> tuple[Cell, ...]:
    chosen = row.selected
    seeds = f"{min(chosen.by_seed):.3f}\u2013{max(chosen.by_seed):.3f}"
    return (
        measured(chosen.label_match),
        measured(chosen.macro_f1),
        measured(chosen.min_class_recall),
        Cell(text=seeds, number=True),
        *_both(row.last),
        *_both(row.greedy),
    )


def _both(found: Scores | None) -> tuple[Cell, Cell]:
    if found is None:
        return absent("n/a"), absent("n/a")
    return measured(found.macro_f1), measured(found.min_class_recall)


_DRAWN: Final = MappingProxyType({"macro_f1": "macro-F1", "min_class_recall": "smallest recall"})


def _dots(study: SftVsRl) -> Markup | None:
    names = [row.name for row in study.rows] + [name for name, _ in study.baselines]
    shown = [
        *(getattr(row.selected, key) for row in study.rows for key in _DRAWN),
        *(figures.get(key) for _, figures in study.baselines for key in _DRAWN),
    ]
    highest = max(one.value if one.high is None else one.high for one in shown if one)
    panels = [
        Panel(
            title=title,
            dots=[
                Dots(
                    title,
                    series_mark(place),
                    [getattr(row.selected, key) for row in study.rows]
                    + [figures.get(key) for _, figures in study.baselines],
                )
            ],
            high=min(1.0, 1.05 * highest),
        )
        for place, (key, title) in enumerate(_DRAWN.items())
    ]
    return dots_svg("scores", "Macro-F1 and smallest recall with intervals", names, panels)


def _spent(study: SftVsRl) -> Table:
    base = study.row(WORDS[StudyArm.RL]).spent
    rows: list[TableRow] = []
    for row in study.rows:
        if row.spent is None or base is None:
            continue
        spent = row.spent
        counts = (spent.papers, spent.updates, spent.tokens_read, spent.tokens_sampled)
        rows.append(
            TableRow(
                name=text(row.name),
                cells=(
                    *(_count(each) for each in counts),
                    _count(spent.tokens_trained),
                    Cell(text=f"{spent.flops:.3e}", number=True),
                    number(spent.flops / base.flops, digits=2),
                    number(spent.papers / base.papers, digits=2),
                ),
            )
        )
    return Table(
        caption=(
            "What training took, a mean over seeds. FLOPs are 2 a parameter and token read or sampled, 6 a parameter "
            "and token trained, and attention's own; looking at validation and test is left out."
        ),
        heads=(
            text("Arm"),
            column("papers seen", "with labels"),
            column("updates"),
            column("tokens read", "to sample"),
            column("tokens sampled"),
            column("tokens trained"),
            column("FLOPs"),
            column("FLOPs", "of RL's"),
            column("papers", "of RL's"),
        ),
        rows=tuple(rows),
    )


def _count(value: float) -> Cell:
    return Cell(text=f"{value:,.0f}", number=True)


def _claims(claims: Sequence[StudyClaim]) -> ClaimTable:
    table = claims_table([_judged(one) for one in claims])
    return replace(table, metric="the score that it names,")


def _judged(one: StudyClaim) -> Judged:
    claim = one.claim
    return Judged(
        first=claim.first,
        second=f"{claim.second} on {claim.metric}",
        verdict=claim.verdict,
        reasons=claim.reasons,
        checks=claim.checks,
        value=claim.value,
        interval=claim.interval,
        p_holm=claim.p_holm,
        num_items=claim.num_items,
        scope=claim.scope,
        note=one.note,
    )


def _equivalences(study: SftVsRl) -> Table:
    rows = tuple(
        TableRow(
            name=text(f"{found.first} and {found.second}", found.metric.value),
            cells=(
                Cell(
                    text=f"{found.value:+.3f}",
                    under=f"{found.low:+.3f} to {found.high:+.3f}",
                    number=True,
                ),
                text("equivalent" if found.shown else "not shown"),
            ),
        )
        for found in study.equivalences
    )
    return Table(
        caption="Two one-sided tests at 0.05 with a margin of one point: the 90 % interval must lie within it.",
        heads=(text("Pair"), column("difference"), text("Within one point")),
        rows=rows,
    )


def _truth(study: SftVsRl) -> Table | None:
    if study.truth is None:
        return None
    rows = tuple(
        TableRow(
            name=text(known.name),
            cells=(
                number(known.label_match),
                number(known.macro_f1),
                number(known.min_class_recall),
            ),
        )
        for known in study.truth.all
    )
    return Table(
        caption="Computed from the posteriors that were planted, for ever more papers; no run is in it.",
        heads=(
            text("Policy"),
            column("label_match"),
            column("macro-F1"),
            column("min recall"),
        ),
        rows=rows,
    )


def _told_rates(study: SftVsRl) -> str:
    told = "; ".join(
        f"{WORDS[arm]}: " + ", ".join(f"{one.validation:.3f} at {one.rate:g}" for one in rates)
        for arm, rates in study.rates.items()
    )
    return f"Validation score by learning rate. {told}."


def _curves(figure: Figure, study: SftVsRl) -> None:
    axes = one(figure)
    for place, (arm, rates) in enumerate(study.rates.items()):
        mark = series_mark(place)
        axes.plot(
            [each.rate for each in rates],
            [each.validation for each in rates],
            color=mark.color,
            linestyle=mark.dash,
            marker=mark.marker,
            label=WORDS[arm],
        )
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("validation score")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4)


def _tried(study: SftVsRl) -> Table:
    most = max((len(rates) for rates in study.rates.values()), default=0)
    return Table(
        caption=(
            f"Score of the chosen checkpoint on the validation split, seed {study.tuning_seed}; the test split was "
            f"not looked at to choose. {CAPTION}"
        ),
        heads=(text("Arm"), *(column(f"rate {place + 1}") for place in range(most))),
        rows=tuple(
            TableRow(
                name=text(WORDS[arm]),
                cells=tuple(_tried_cell(each, study.row(WORDS[arm]).rate) for each in rates),
            )
            for arm, rates in study.rates.items()
        ),
    )


def _tried_cell(tried: Tried, chosen: float | None) -> Cell:
    under = ", ".join(part for part in (f"{tried.rate:g}", rate_words(tried, chosen)) if part)
    return Cell(text=f"{tried.validation:.3f}", under=under, number=True)


def _seconds(seconds: Mapping[StudyArm, float]) -> Table:
    rows = tuple(
        TableRow(name=text(WORDS[arm]), cells=(number(value, digits=1),))
        for arm, value in seconds.items()
    )
    return Table(
        caption=(
            "Seconds of sampling, scoring and training in one run, a mean over seeds, as this machine was then, with "
            "other runs beside it. No two runs of the study have these in common; all else on this page they have."
        ),
        heads=(text("Arm"), column("seconds")),
        rows=rows,
    )
