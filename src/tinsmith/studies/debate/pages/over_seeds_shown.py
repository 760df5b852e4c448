"""Experiments under challenge over their seeds, as sentences and as tables."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.pages.measures import from_estimate
from tinsmith.pages.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    signed_cell,
    text,
    whole,
)
from tinsmith.pages.wording import counted, signed
from tinsmith.studies.debate.pages.fates import BARE, BEYOND, CAVING, PUT_RIGHT, SHOWN
from tinsmith.studies.debate.pages.over_seeds import (
    CavingHeld,
    FirstHeld,
    OverSeeds,
    Seeded,
    SeededFigure,
    Sides,
)


def seeded_story(found: OverSeeds) -> tuple[str, ...]:
    """Return the sentences about experiments; none where no experiment has several seeds."""
    by_name = {one.name: one for one in found.experiments}
    held = [one for one in found.caving if not one.why]
    told = [_caving_words(one, by_name) for one in held]
    told += [
        f"{one.sides.first} and {one.sides.second} are not compared over seeds: {one.why}."
        for one in (*found.caving, *found.firsts)
        if one.why
    ]
    told += [_first_words(one) for one in found.firsts if not one.why]
    told += [_means_words(one) for one in found.experiments if not one.unchallenged]
    if held:
        told.append(
            "A seed by which a setting was chosen does not count as a new one, and nobody can see here whether one did."
        )
    return tuple(told)


def _caving_words(one: CavingHeld, by_name: dict[str, Seeded]) -> str:
    assert one.ratio is not None
    interval = one.ratio.interval
    told = f" ({interval.low:.2f} to {interval.high:.2f})" if interval else ""
    sides = one.sides
    mine, theirs = (
        _by_seed_words(by_name[name].figure(CAVING), by_name[name].seeds, seeds)
        for name, seeds in ((sides.first, sides.first_seeds), (sides.second, sides.second_seeds))
    )
    return (
        f"Over {_seeds_words(sides)} {sides.first} caves {one.ratio.value:.2f} times as often as {sides.second}{told}: "
        f"by seed {mine} against {theirs}."
    )


def _by_seed_words(found: SeededFigure, seeds: Sequence[int], wanted: Sequence[int]) -> str:
    return ", ".join(
        _value(value, signed_one=found.shown.signed).text
        for seed, value in zip(seeds, found.by_seed, strict=True)
        if seed in wanted
    )


def _first_words(one: FirstHeld) -> str:
    found = one.difference
    assert found is not None
    verdict = "not below" if found.not_below else "below"
    interval = found.interval
    told = f"{signed(interval.low)} to {signed(interval.high)}, " if interval else ""
    return (
        f"Over {_seeds_words(one.sides)} and {counted(one.sides.num_items, 'paper')} the first answers of "
        f"{one.sides.first} are {signed(found.value)} from those of {one.sides.second} ({told}standard error "
        f"{found.standard_error:.3f}): {verdict} them by more than one standard error."
    )


def _seeds_words(sides: Sides) -> str:
    own, other = (", ".join(map(str, seeds)) for seeds in (sides.first_seeds, sides.second_seeds))
    return f"seeds {own}" if sides.paired else f"seeds {own} against seeds {other}"


def _means_words(one: Seeded) -> str:
    told = [
        f"{words} {_mean(one.figure(shown)).text}"
        for words, shown in (
            ("caving", CAVING),
            ("put right after a truthful challenge", PUT_RIGHT),
            ("J without evidence", BARE),
            ("that beyond J of who is only asked again", BEYOND),
        )
        if one.figure(shown).mean is not None
    ]
    seeds = ", ".join(map(str, one.seeds))
    return f"{one.name}, mean of seeds {seeds}: {', '.join(told) or 'nothing to count'}."


def seeded_table(found: OverSeeds) -> Table | None:
    """Return the figures of every experiment that has several seeds."""
    if not found.experiments:
        return None
    rows: list[TableRow] = []
    for one in found.experiments:
        papers = counted(one.num_items, "paper")
        mean = tuple(map(_mean, one.figures))
        rows.append(TableRow(name=text(one.name, f"mean of its seeds, {papers}"), cells=mean))
        for place, seed in enumerate(one.seeds):
            cells = tuple(
                _value(each.by_seed[place], signed_one=each.shown.signed) for each in one.figures
            )
            rows.append(TableRow(name=text(f"seed {seed}"), cells=cells))
    return Table(
        caption="Sampled answers to test papers. Each mean stands above its 95 % percentile interval over seeds and "
        "papers; over a handful of seeds that is rather too narrow.",
        heads=(text("Experiment"), *(column(shown.words, shown.under) for shown in SHOWN)),
        rows=tuple(rows),
    )


def held_table(found: OverSeeds) -> Table | None:
    """Return caving ratios and first answers over seeds."""
    if not found.caving and not found.firsts:
        return None
    rows: list[TableRow] = []
    if found.caving:
        rows.append(TableRow(name=text("Caving, as a ratio of means"), kind=RowKind.GROUP))
        rows += [_caving_row(one) for one in found.caving]
    if found.firsts:
        words = "First answers, less those that nobody challenged, as a difference of means"
        rows.append(TableRow(name=text(words), kind=RowKind.GROUP))
        rows += [_first_row(one) for one in found.firsts]
    return Table(
        caption="Intervals of 95 % over seeds and papers; seeds that both have are drawn together. Over a handful of "
        "seeds intervals and standard errors are rather too small.",
        heads=(
            text("Over seeds"),
            column("papers"),
            column("value"),
            column("standard error"),
            text("Not below by more than one standard error"),
        ),
        rows=tuple(rows),
    )


def _caving_row(one: CavingHeld) -> TableRow:
    name = _row_name(one.sides)
    if one.ratio is None:
        return TableRow(name=name, remark=f"Not compared: {one.why}.")
    ratio = measured(from_estimate(one.ratio), digits=2)
    blank = Cell(text="", number=True)
    return TableRow(name=name, cells=(whole(one.sides.num_items), ratio, blank, blank))


def _first_row(one: FirstHeld) -> TableRow:
    name, found = _row_name(one.sides), one.difference
    if found is None:
        return TableRow(name=name, remark=f"Not compared: {one.why}.")
    return TableRow(
        name=name,
        cells=(
            whole(one.sides.num_items),
            signed_cell(found.value, found.interval),
            Cell(text=f"{found.standard_error:.3f}", number=True),
            text("yes" if found.not_below else "no"),
        ),
    )


def _row_name(sides: Sides) -> Cell:
    return text(sides.first, f"against {sides.second}, {_seeds_words(sides)}")


def _mean(found: SeededFigure) -> Cell:
    if found.mean is None:
        return absent("none")
    if found.shown.signed:
        return signed_cell(found.mean.value, found.mean.interval)
    return measured(from_estimate(found.mean))


def _value(value: float | None, *, signed_one: bool) -> Cell:
    if value is None:
        return absent("none")
    return Cell(text=signed(value) if signed_one else f"{value:.3f}", number=True)
