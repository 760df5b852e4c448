"""Experiments under challenge over their seeds, as sentences and as tables."""

from __future__ import annotations

from tinsmith.pages.measures import from_estimate
from tinsmith.pages.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    number,
    signed_cell,
    text,
    whole,
)
from tinsmith.pages.wording import counted, signed
from tinsmith.stats.estimates import Estimate
from tinsmith.stats.seeded_shares import MeanDifference
from tinsmith.studies.debate.pages.over_seeds import (
    BARE,
    BEYOND,
    SHOWN,
    SHOWN_CAVING,
    SHOWN_PUT_RIGHT,
    Held,
    OverSeeds,
    Seeded,
    SeededFigure,
)

_Any = Held[Estimate] | Held[MeanDifference]


def seeded_story(found: OverSeeds) -> tuple[str, ...]:
    """Return the sentences about experiments; none where no experiment has several seeds."""
    by_name = {one.name: one for one in found.experiments}
    told = [_caving_words(one, one.found, by_name) for one in found.caving if one.found]
    held = bool(told)
    told += [
        f"{one.first} and {one.second} are not compared over seeds: {one.why}."
        for one in (*found.caving, *found.firsts)
        if one.why
    ]
    told += [_first_words(one, one.found) for one in found.firsts if one.found]
    told += [_means_words(one) for one in found.experiments if not one.first.alone]
    if held:
        told.append(
            "A seed that a setting was chosen by does not count as a new one; whether one was cannot be seen here."
        )
    return tuple(told)


def _caving_words(one: _Any, ratio: Estimate, by_name: dict[str, Seeded]) -> str:
    told = f" ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})" if ratio.interval else ""
    mine, theirs = (
        ", ".join(
            _value(value, signed_one=False).text
            for seed, value in zip(by_name[name].seeds, by_name[name].figure(SHOWN_CAVING).by_seed, strict=True)
            if seed in wanted
        )
        for name, wanted in ((one.first, one.first_seeds), (one.second, one.second_seeds))
    )
    return (
        f"Over {_seeds_words(one)} {one.first} caves {ratio.value:.2f} times as often as {one.second}{told}: "
        f"by seed {mine} against {theirs}."
    )


def _first_words(one: _Any, found: MeanDifference) -> str:
    interval = found.interval
    told = f"{signed(interval.low)} to {signed(interval.high)}, " if interval else ""
    return (
        f"Over {_seeds_words(one)} and {counted(one.num_items, 'paper')} the first answers of {one.first} are "
        f"{signed(found.value)} away from those of {one.second} ({told}standard error {found.standard_error:.3f}): "
        f"{'not below' if found.not_below else 'below'} them by more than one standard error."
    )


def _seeds_words(one: _Any) -> str:
    own, other = (", ".join(map(str, seeds)) for seeds in (one.first_seeds, one.second_seeds))
    return f"seeds {own}" if one.paired else f"seeds {own} against seeds {other}"


def _means_words(one: Seeded) -> str:
    told = [
        f"{words} {_mean(one.figure(shown)).text}"
        for words, shown in (
            ("caving", SHOWN_CAVING),
            ("put right after a truthful challenge", SHOWN_PUT_RIGHT),
            ("J without evidence", BARE),
            ("J without evidence less that of the null arm", BEYOND),
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
        name = text(one.name, f"mean of its seeds, {counted(one.num_items, 'paper')}")
        rows.append(TableRow(name=name, cells=tuple(map(_mean, one.figures))))
        for place, seed in enumerate(one.seeds):
            values = [(each.by_seed[place], each.shown.signed) for each in one.figures]
            cells = tuple(_value(value, signed_one=signed_one) for value, signed_one in values)
            rows.append(TableRow(name=text(f"seed {seed}"), cells=cells))
    return Table(
        caption="Sampled answers to test papers. Each mean stands above its 95 % percentile interval over seeds and "
        "papers; over a handful of seeds that is rather too narrow.",
        heads=(text("Experiment"), *(column(shown.words, shown.under) for shown in SHOWN)),
        rows=tuple(rows),
    )


def held_table(found: OverSeeds) -> Table | None:
    """Return caving ratios and first answers over seeds."""
    rows: list[TableRow] = []
    for title, group in (
        ("Caving, as a ratio of means", found.caving),
        ("First answers, less those that nobody challenged, as a difference of means", found.firsts),
    ):
        if group:
            rows.append(TableRow(name=text(title), kind=RowKind.GROUP))
            rows += [_held_row(one) for one in group]
    if not rows:
        return None
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


def _held_row(one: _Any) -> TableRow:
    name = text(one.first, f"against {one.second}, {_seeds_words(one)}")
    if one.found is None:
        return TableRow(name=name, remark=f"Not compared: {one.why}.")
    if isinstance(one.found, Estimate):
        blank = Cell(text="", number=True)
        found = (measured(from_estimate(one.found), digits=2), blank, blank)
    else:
        found = (
            signed_cell(one.found.value, one.found.interval),
            number(one.found.standard_error),
            text("yes" if one.found.not_below else "no"),
        )
    return TableRow(name=name, cells=(whole(one.num_items), *found))


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
