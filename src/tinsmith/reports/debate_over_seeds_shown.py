"""Rewards of runs under challenge over their seeds, as sentences and as tables."""

from __future__ import annotations

from tinsmith.reports.debate_over_seeds import SHOWN, FirstHeld, Held, OverSeeds, SeededFigure
from tinsmith.reports.measures import from_estimate
from tinsmith.reports.quality_story import signed
from tinsmith.reports.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    text,
)
from tinsmith.reports.wording import counted, listed


def seeded_story(found: OverSeeds) -> tuple[str, ...]:
    """Return the sentences about rewards; none where no reward has several seeds."""
    told = [_held_words(one, found) for one in found.held]
    told += [_first_words(one) for one in found.firsts]
    if found.rewards:
        seeds = sorted({seed for one in found.rewards for seed in one.seeds})
        told.append(
            f"Of rewards this says what {counted(len(seeds), 'seed')} carry ({listed([str(seed) for seed in seeds])}); "
            "seeds by which a setting was chosen do not count as new, and nobody can see that here."
        )
    return tuple(told)


def _held_words(one: Held, found: OverSeeds) -> str:
    by_name = {each.name: each for each in found.rewards}
    mine, theirs = (by_seed_words(by_name[name].caving) for name in (one.name, one.reference))
    if one.ratio is None:
        return f"{one.name} caves in {mine}; {one.reference} never caved, so there is no ratio."
    interval = one.ratio.interval
    told = f" ({interval.low:.2f} to {interval.high:.2f})" if interval else ""
    drawn = "the same seeds" if one.paired else "seeds of their own"
    return (
        f"Over seeds {one.name} caves {one.ratio.value:.2f} times as often as {one.reference}{told}: by seed {mine} "
        f"against {theirs} ({drawn}; intervals over seeds and papers)."
    )


def _first_words(one: FirstHeld) -> str:
    found = one.difference
    verdict = "not below" if found.not_below else "below"
    interval = found.interval
    told = f"{signed(interval.low)} to {signed(interval.high)}, " if interval else ""
    return (
        f"Over seeds the first answers of {one.name} are {signed(found.value)} from those of {one.alone} ({told}"
        f"standard error {found.standard_error:.3f}): {verdict} them by more than one standard error."
    )


def by_seed_words(found: SeededFigure) -> str:
    """Return a figure under each seed, in words."""
    return ", ".join(_value(found, place).text for place in range(len(found.by_seed)))


def seeded_table(found: OverSeeds) -> Table | None:
    """Return the figures of every reward that has several seeds."""
    if not found.rewards:
        return None
    rows: list[TableRow] = []
    for one in found.rewards:
        seeds = ", ".join(str(seed) for seed in one.seeds)
        rows.append(
            TableRow(
                name=text(one.name, f"mean over seeds {seeds}"),
                cells=tuple(map(_mean, one.figures)),
            )
        )
        for place, seed in enumerate(one.seeds):
            rows.append(
                TableRow(
                    name=text(f"seed {seed}"),
                    cells=tuple(_value(each, place) for each in one.figures),
                )
            )
    return Table(
        caption="Each mean above its 95 % percentile interval over seeds and papers, sampled answers to test papers. "
        "Intervals over a handful of seeds are rather too narrow.",
        heads=(text("Reward"), *(column(shown.words, shown.under) for shown in SHOWN)),
        rows=tuple(rows),
    )


def held_table(found: OverSeeds) -> Table | None:
    """Return caving ratios and first answers over seeds."""
    if not found.held and not found.firsts:
        return None
    rows: list[TableRow] = []
    if found.held:
        rows.append(TableRow(name=text("Caving, as a ratio of means"), kind=RowKind.GROUP))
    rows += [
        TableRow(
            name=text(one.name, f"over {one.reference}"),
            cells=(
                absent("never there")
                if one.ratio is None
                else measured(from_estimate(one.ratio), digits=2),
                Cell(text="", number=True),
                text(_drawn(one.paired)),
            ),
        )
        for one in found.held
    ]
    if found.firsts:
        rows.append(
            TableRow(name=text("First answers, as a difference of means"), kind=RowKind.GROUP)
        )
    rows += [
        TableRow(
            name=text(one.name, f"less {one.alone}, {counted(one.num_items, 'paper')}"),
            cells=(_difference(one), _standard_error(one), text(_drawn(one.paired))),
        )
        for one in found.firsts
    ]
    return Table(
        caption="Intervals of 95 % over seeds and papers; where both have the same seeds, these are drawn together.",
        heads=(text("Over seeds"), column("value"), column("standard error"), text("Seeds")),
        rows=tuple(rows),
    )


def _mean(found: SeededFigure) -> Cell:
    if found.mean is None:
        return absent("none")
    interval = found.mean.interval
    if not found.shown.signed or interval is None:
        return measured(from_estimate(found.mean))
    under = f"{signed(interval.low)} to {signed(interval.high)}"
    return Cell(text=signed(found.mean.value), under=under, number=True)


def _value(found: SeededFigure, place: int) -> Cell:
    value = found.by_seed[place]
    if value is None:
        return absent("none")
    return Cell(text=signed(value) if found.shown.signed else f"{value:.3f}", number=True)


def _difference(one: FirstHeld) -> Cell:
    found = one.difference
    interval = found.interval
    under = f"{signed(interval.low)} to {signed(interval.high)}" if interval else ""
    return Cell(text=signed(found.value), under=under, number=True)


def _standard_error(one: FirstHeld) -> Cell:
    told = "not below by more" if one.difference.not_below else "below by more"
    return Cell(text=f"{one.difference.standard_error:.3f}", under=told, number=True)


def _drawn(paired: bool) -> str:
    return "the same" if paired else "others"
