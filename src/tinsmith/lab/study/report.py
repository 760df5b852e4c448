"""What came out of a study, in sentences and as a page: the same for every study, from its values alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tinsmith.lab.page.examples import prompt_block
from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.study.keys import FEWEST_RATES
from tinsmith.lab.study.record import (
    ArmGain,
    Column,
    CurveRecord,
    Expected,
    KeptPage,
    Seconds,
    Shown,
    StudyRecord,
    TableRecord,
    Tried,
    gain_words,
)
from tinsmith.lab.study.record import Panel as PanelRecord
from tinsmith.lab.study.tried_rates import CAPTION, chance_words, rate_words
from tinsmith.pages import drawing
from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.document import Block, Document, Drawing, Example, Facts, Fold, Section, Story, drawn, note
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, absent, column, measured, number, plain, shown, table_of, text
from tinsmith.pages.wording import counted, listed, p_words, signed
from tinsmith.stats.gate.claim import ENOUGH_SEEDS, Claim, ClaimKind, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_GATE = (
    "Beats: on the same items, trained on no more of them. Learned: above the model before training, the task's "
    "baselines, and the control. Missing evidence refuses as a failed check does."
)


def sentences(found: StudyRecord) -> tuple[str, ...]:
    """Return what may be said: expectations first, then every arm, the claims, and the limits of all of it.

    Where nothing was expected and no gain is measured, notes lead: they hold the scores.
    """
    lead = () if found.expectations or found.gains else found.notes
    return (
        *lead,
        *_expectations(found.expectations, len(found.seeds)),
        *(f"{_capital(one.words)}: {found.score} {gain_words(one)}." for one in found.gains),
        *(f"{_capital(one.words)}: {more.score} {gain_words(one)}." for more in found.more_gains for one in more.gains),
        *_claims("ends above another", found.beats),
        *_claims("learned something that nothing simpler explains", found.learned),
        *(() if lead else found.notes),
        *_limits(found),
    )


def _expectations(expected: Sequence[Expected], seeds: int) -> list[str]:
    """Return how many were met, and then which were not; the figures of the others stand in their table."""
    if not expected:
        return []
    met = [one.text for one in expected if one.met]
    missed = [f"{one.text} ({one.figures})" for one in expected if not one.met]
    head = f"Over {counted(seeds, 'seed')}, {len(met)} of {counted(len(expected), 'expectation')} were met"
    told = [f"{head}: {listed(met)}." if met else f"{head}."]
    return told + ([f"Not met: {listed(missed)}."] if missed else [])


def _claims(what: str, claims: Sequence[Claim]) -> list[str]:
    told = [_ruled(one) for verdict in Verdict for one in claims if one.verdict is verdict]
    allowed = sum(one.verdict is Verdict.ALLOWED for one in claims)
    return (
        [f"The gate allows {allowed} of {len(claims)} claims that an arm {what}: {'; '.join(told)}."] if claims else []
    )


def _ruled(claim: Claim) -> str:
    beside = f" in {claim.metric}" if claim.kind is ClaimKind.LEARNED else f" over {claim.second} in {claim.metric}"
    if claim.verdict is Verdict.ALLOWED:
        return f"{claim.first}{beside} ({signed(claim.value)})"
    failed = listed(list(dict.fromkeys(one.name.value for one in claim.checks if not one.passed)))
    return f"not {claim.first}{beside} ({signed(claim.value)}; {failed})"


def _capital(words: str) -> str:
    """Return words as a sentence begins; a key stays as it is spelled."""
    return words if "=" in words else words[:1].upper() + words[1:]


def _limits(study: StudyRecord) -> list[str]:
    """Say what a reader must know before anything of a study is repeated elsewhere."""
    found: list[str] = []
    if len(study.seeds) < ENOUGH_SEEDS:
        found.append(
            f"{counted(len(study.seeds), 'seed')} an arm {'speaks' if len(study.seeds) == 1 else 'speak'} for these "
            f"models; for the methods it takes {ENOUGH_SEEDS}."
        )
    if min((len(rates) for rates in study.rates.values()), default=0) < FEWEST_RATES:
        found.append(
            f"Fewer than {FEWEST_RATES} learning rates were tried for an arm, so that tuning may explain a difference."
        )
    alike = chance_words(study.rates)
    if alike:
        found.append(alike)
    at_an_end = [
        name
        for name, rates in study.rates.items()
        if len(rates) > 1 and study.chosen[name] in (rates[0].rate, rates[-1].rate)
    ]
    if at_an_end:
        found.append(
            f"The chosen rate of {listed(at_an_end)} is an end of what was tried; a better one may lie beyond."
        )
    return found


def page_of_study(found: StudyRecord, seconds: Mapping[str, Seconds], more: Sequence[Section] = ()) -> Document:
    """Return the page of a study; `seconds` by the labels of the arms, `more` after the tables."""
    facts = (
        ("Items", found.data[:16]),
        ("Held out", f"{found.num_items:,} items"),
        ("Seeds", ", ".join(map(str, found.seeds))),
        ("Settings chosen on seed", str(found.tuning_seed)),
    )
    return Document(
        kind="Report of a study",
        title=found.title,
        question=found.question,
        facts=facts,
        sections=(
            Section("summary", "Summary", [Story(sentences(found)), *pictures(found)]),
            *result_sections(found, more=more),
            _seconds(seconds),
            _hashes(found.hashes),
            _settings(found),
        ),
    )


def pictures(found: StudyRecord, name: str = "arms") -> list[Block]:
    """Return the picture beside the sentences."""
    return [*_panels(found, name), *map(_curve, found.curves[:1] if not found.panels else ())]


def result_sections(found: StudyRecord, prefix: str = "", more: Sequence[Section] = ()) -> list[Section]:
    """Return all that was measured; `prefix` begins the titles of one of several studies on a page."""
    gains = [(found.score, found.gains), *((one.score, one.gains) for one in found.more_gains)]
    folded = [Fold(one.title, _table_blocks(one)) for one in found.tables if one.is_folded]
    rates = (Drawing(_rates_figure(found.rates)), _rates(found)) if found.rates else ()
    tables = [(one.title, _table_blocks(one)) for one in found.tables if not one.is_folded]
    before: list[tuple[str, Sequence[Block]]] = [
        ("Expectations", (_expected(found),) if found.expectations else ()),
        ("Gains", [_gains(*one) for one in gains] if found.gains else ()),
        *tables,
    ]
    after: list[tuple[str, Sequence[Block]]] = [
        ("Training curves", [*map(_curve, found.curves if found.panels else found.curves[1:]), *folded]),
        ("Answers", example_blocks(found) if found.examples else ()),
        ("Learning rates", rates),
        ("Claims", _claim_blocks(found)),
    ]
    parts = [
        [Section(_name(f"{prefix}{title}"), f"{prefix}{title}", blocks) for title, blocks in some if blocks]
        for some in (before, after)
    ]
    return [*parts[0], *more, *parts[1]]


def kept_markdown(page: KeptPage) -> str:
    """Return the published page of kept values."""
    closing = "\n".join(page.remarks)
    return document_markdown(page_of_study(page.results, page.seconds)) + (f"\n{closing}\n" if closing else "")


def _name(title: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")


def _expected(found: StudyRecord) -> Table:
    caption = f"What {found.source} reports, and what came out here." if found.source else "Expected before the runs."
    return table_of(
        caption,
        found.expectations,
        ("Expected", lambda one: text(one.text)),
        (text("Met"), lambda one: text("yes" if one.met else "no")),
        (text("Figures"), lambda one: text(one.figures)),
    )


def _gains(score: str, gains: Sequence[ArmGain]) -> Table:
    """Return the arms before and after."""
    caption = (
        f"{_capital(score)}, held-out items, sampled: means over seeds and items, 95 % intervals over both; p "
        "corrected over the arms."
    )

    def moved(one: ArmGain) -> Cell:
        under = ""
        if one.gain.low is not None and one.gain.high is not None:
            under = f"{signed(one.gain.low)} to {signed(one.gain.high)}"
        return Cell(text=signed(one.gain.value), under=under, number=True)

    def greedy(one: ArmGain) -> Cell:
        return Cell(text=f"{one.greedy_before:.3f} to {one.greedy_after:.3f}", number=True)

    return table_of(
        caption,
        gains,
        ("Arm", lambda one: text(one.words)),
        ("before", lambda one: measured(one.before)),
        ("after", lambda one: measured(one.after)),
        ("gain|95 % interval", moved),
        ("p|Holm", lambda one: Cell(text=p_words(one.p_holm).removeprefix("p "), number=True)),
        (column("greedily", "before and after"), greedy),
    )


def _table_blocks(record: TableRecord) -> list[Block]:
    rows = [(name, *cells) for name, cells in record.rows]
    table = shown_table(record.caption, record.names, record.columns, rows)
    return [*([note(record.note)] if record.note else []), table]


def shown_table(caption: str, names: str, columns: Sequence[str | Column], rows: Sequence[Sequence[Shown]]) -> Table:
    """Return a table of figures and words: each row begins with its name, below which stands what follows a `|`."""
    heads = [one if isinstance(one, Column) else Column(head=one) for one in columns]

    def cell(place: int, column: Column) -> Callable[[Sequence[Shown]], Cell]:
        return lambda row: written(row[place], column)

    def head(place: int, column: Column) -> str | Cell:
        # At the left where all its cells are words.
        is_text = all(isinstance(row[place], str) for row in rows)
        return text(*column.head.split("|")) if is_text else column.head

    return table_of(
        caption,
        rows,
        (names, lambda row: text(*str(row[0]).split("|"))),
        *((head(place, one), cell(place, one)) for place, one in enumerate(heads, start=1)),
    )


def written(shown: Shown, column: Column) -> Cell:
    """Return a cell: a figure with its interval below it, or words."""
    if shown is None:
        return absent(column.missing)
    if isinstance(shown, str):
        return text(shown)
    has_sign = column.form.startswith("+")
    ends = ""
    if shown.low is not None and shown.high is not None:
        between = " to " if has_sign else "\u2013"
        ends = f"{_figure(shown.low, column.form)}{between}{_figure(shown.high, column.form)}"
    return Cell(text=_figure(shown.value, column.form), under=ends, number=True)


def _figure(value: float, form: str) -> str:
    if form == "d":
        return f"{round(value):,}"
    shown = format(value, form)
    return shown[1:] if form.startswith("+") and float(shown) == 0.0 else shown


def _panels(found: StudyRecord, name: str) -> list[Block]:
    if not found.panels:
        return []
    panels: list[Panel] = []
    for place, one in enumerate(found.panels):
        ends = _ends(one)
        after = Dots("after" if one.before else one.title, series_mark(0 if one.before else place), one.after)
        dots = [Dots("before", series_mark(6), one.before), after] if one.before else [after]
        panels.append(Panel(title=one.title, dots=dots, high=max(1.0, *ends), low=min(ends)))
    rows = found.panel_rows or found.arms
    first = zip(rows, found.panels[0].after, strict=True)
    told = "; ".join(f"{label} {'missing' if one is None else f'{one.value:.3f}'}" for label, one in first)
    svg = dots_svg(name, f"{found.panels[0].title}: {told}.", list(rows), panels, width=7.6)
    return [drawn(svg, "Missing: nothing was evaluated.")]


def _ends(panel: PanelRecord) -> list[float]:
    figures = [one for one in (*panel.before, *panel.after) if one is not None]
    return [0.0, *(end for one in figures for end in (one.value, one.low, one.high) if end is not None)]


def _curve(curve: CurveRecord) -> Block:
    lines = [
        Line(
            label=label,
            mark=series_mark(place),
            steps=places,
            values=[one.value for one in figures],
            low=[one.value if one.low is None else one.low for one in figures] if _banded(figures) else None,
            high=[one.value if one.high is None else one.high for one in figures] if _banded(figures) else None,
        )
        for place, (label, places, figures) in enumerate(curve.lines)
    ]
    ends = ", ".join(f"{one.label} from {one.values[0]:.3f} to {one.values[-1]:.3f}" for one in lines if one.values)
    label = f"{_capital(curve.label)} by {curve.axis}: {ends}."
    chart = Chart(name=curve.name, label=label, lines=lines, axis=curve.axis, unit=curve.label, shares=curve.shares)
    return drawn(chart_svg(chart), "Missing: nothing was measured.")


def _banded(figures: Sequence[Figure]) -> bool:
    return any(one.low is not None for one in figures)


def _rates(found: StudyRecord) -> Table:
    return table_of(
        f"Score on a part of the training items, seed {found.tuning_seed}; what is held out was not used. {CAPTION}",
        [(label, one) for label, tried in found.rates.items() for one in tried],
        ("Arm", lambda row: text(row[0])),
        ("rate", lambda row: Cell(text=f"{row[1].rate:g}", number=True)),
        ("validation|sampled", lambda row: Cell(text=f"{row[1].validation:.3f}", number=True)),
        ("validation|greedy", lambda row: Cell(text=f"{row[1].tie_break:.3f}", number=True)),
        ("behind|95 % interval", lambda row: _behind(row[1])),
        (text("Finding"), lambda row: text(rate_words(row[1], found.chosen.get(row[0])))),
    )


def example_blocks(found: StudyRecord) -> list[Block]:
    """Return held-out items as every arm answered them."""
    chosen = note(
        f"{len(found.examples)} held-out items, drawn whatever was answered; of each the first sampled answer in the "
        "runs with the first seed. Before training all runs are one model; where they drew the same, it stands once."
    )
    return [chosen, *(Example(one.title, [prompt_block(one.prompt)], one.replies) for one in found.examples)]


def _behind(tried: Tried) -> Cell:
    return absent("") if tried.behind is None else written(tried.behind, Column(head="", form="+.3f"))


def _claim_blocks(found: StudyRecord) -> list[Block]:
    tables = (
        ("One beats the other", found.beats),
        ("Something was learned that nothing simpler explains", found.learned),
    )
    shown = [(title, claims, listed(list(dict.fromkeys(one.metric for one in claims)))) for title, claims in tables]
    folds = [Fold(title, [claims_table(claims, metrics)]) for title, claims, metrics in shown if claims]
    return [note(_GATE), *folds]


def _rates_figure(tried: Mapping[str, Sequence[Tried]]) -> Markup:
    """Draw what each learning rate scored on validation, by the name of the arm."""
    told = "; ".join(
        f"{name}: " + ", ".join(f"{each.validation:.3f} at {each.rate:g}" for each in rates)
        for name, rates in tried.items()
    )
    return drawing.draw(
        "rates", f"Validation score by learning rate. {told}.", lambda at: _rate_lines(at, tried), width=9.6
    )


def _rate_lines(figure: Canvas, tried: Mapping[str, Sequence[Tried]]) -> None:
    axes = drawing.one(figure)
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


def _seconds(seconds: Mapping[str, Seconds]) -> Section:
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


def _hashes(hashes: Mapping[str, Mapping[str, str | None]]) -> Section:
    """Return what the runs of a study give again, wherever and however often they are run."""
    known = {kind for each in hashes.values() for kind in each}
    kinds = ("weights", "rollouts", "metrics", "trace", *(["file"] if "file_sha256" in known else []))
    rows = [(run, *((hashes[run].get(f"{kind}_sha256") or "missing")[:16] for kind in kinds)) for run in sorted(hashes)]
    table = plain("The first 16 digits of each SHA-256.", ("Run", *kinds), rows, words=True)
    return Section("hashes", "Hashes", (table,))


def _settings(study: StudyRecord) -> Section:
    """Return what decided the results."""
    pairs = tuple((key, shown(study.settings[key])) for key in sorted(study.settings))
    return Section("settings", "Settings", (Facts(pairs),))
