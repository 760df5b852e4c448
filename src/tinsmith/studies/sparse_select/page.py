"""The page of sparse selection: rewards beside the tokens that they took, the gaps to GRPO, and the claims."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.lab.study.tried_rates import rate_words
from tinsmith.pages.document import Block, Document, Section, drawn, note
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import (
    Cell,
    Table,
    TableRow,
    absent,
    column,
    measured,
    number,
    plain,
    signed_cell,
    table_of,
    text,
    whole,
)
from tinsmith.pages.wording import counted
from tinsmith.stats.intervals import Interval
from tinsmith.studies.sparse_select.outcome import ArmFigures, Behind, SparseFound
from tinsmith.studies.sparse_select.settings import BASE_WORDS, QUESTION, WORDS


def sparse_page(found: SparseFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page."""
    return study_document(
        title=f"Sparse selection on {found.task}",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} items"),
            ("Seeds", ", ".join(map(str, found.seeds))),
            ("Settings chosen on seed", str(found.tuning_seed)),
        ),
        sentences=sentences,
        beside=(_rewards(found),),
        sections=(
            Section("arms", "Arms", (_arms(found), _behind(found))),
            *([Section("rates", "Learning rates", (_rates(found),))] if found.rates else []),
            Section(
                "claims",
                "Claims",
                (
                    note("The first may draw no more rollouts to train on than the second."),
                    claims_table([of_claim(one) for one in found.beats], "reward"),
                ),
            ),
            seconds_section(seconds),
            Section("hashes", "Hashes", (_hashes(found),)),
            settings_section(found),
        ),
    )


def _rewards(found: SparseFound) -> Block:
    rows = [BASE_WORDS, *(arm.words for arm in found.arms)]
    sampled = [found.base[0], *(arm.sampled for arm in found.arms)]
    greedy = [found.base[1], *(arm.greedy for arm in found.arms)]
    panel = Panel(
        title="reward, held out; 95 % intervals over seeds and items",
        dots=[Dots("greedy", series_mark(0), greedy), Dots("sampled", series_mark(1), sampled)],
    )
    told = "; ".join(f"{row} {one.value:.3f}" for row, one in zip(rows, sampled, strict=True))
    return drawn(dots_svg("rewards", f"Reward, sampled. {told}.", rows, [panel]), "Missing: nothing was scored.")


def _arms(found: SparseFound) -> Table:
    base = TableRow(
        name=text(BASE_WORDS), cells=(measured(found.base[0]), measured(found.base[1]), *[absent("not trained")] * 4)
    )
    return Table(
        caption=(
            "Held-out items after the last step: means over seeds, 95 % intervals over seeds and items. Rollouts and "
            "tokens are those drawn to train on. Pushed: the share of the trained answers' tokens whose base entropy "
            "is above the threshold."
        ),
        heads=(
            text("Arm"),
            column("reward", "sampled"),
            column("reward", "greedy"),
            column("lowest and highest seed", "sampled"),
            column("rollouts"),
            column("tokens", "sampled"),
            column("pushed", "share"),
        ),
        rows=(base, *(TableRow(name=_name(arm), cells=_cells(arm)) for arm in found.arms)),
    )


def _name(arm: ArmFigures) -> Cell:
    return text(arm.words, f"{arm.steps} steps, rate {arm.rate:g}, {counted(len(arm.by_seed), 'seed')}")


def _cells(arm: ArmFigures) -> tuple[Cell, ...]:
    ends = f"{min(arm.by_seed):.3f}\u2013{max(arm.by_seed):.3f}"
    return (
        measured(arm.sampled),
        measured(arm.greedy),
        Cell(text=ends, number=True),
        whole(round(arm.rollouts)),
        whole(round(arm.tokens)),
        number(arm.gated, "all"),
    )


def _behind(found: SparseFound) -> Table:
    return table_of(
        "Sampled reward less GRPO's, on the same items; the standard error is of the gap, over items and seeds.",
        found.behind,
        ("Arm", lambda one: text(WORDS[one.name])),
        ("gap|95 % interval", _gap),
        ("standard error", lambda one: number(one.standard_error)),
        ("tokens|of GRPO's", lambda one: number(one.tokens)),
        (text("Within one standard error"), lambda one: text("yes" if one.came_out else "no")),
    )


def _gap(one: Behind) -> Cell:
    low, high = one.gap.low, one.gap.high
    interval = None if low is None or high is None else Interval(low, high, 0.95)
    return signed_cell(one.gap.value, interval)


def _rates(found: SparseFound) -> Table:
    chosen = {arm.words: arm.rate for arm in found.arms}
    return table_of(
        f"Reward on a fifth of the training items, seed {found.tuning_seed}; what is held out was not looked at to "
        "choose. GRPO's rate was chosen by hand on the same seed.",
        [(name, one) for name, tried in found.rates.items() for one in tried],
        ("Arm", lambda row: text(row[0])),
        ("rate", lambda row: Cell(text=f"{row[1].rate:g}", number=True)),
        ("validation|sampled", lambda row: number(row[1].validation)),
        ("validation|greedy", lambda row: number(row[1].tie_break)),
        (text("Finding"), lambda row: text(rate_words(row[1], chosen.get(row[0])))),
    )


def _hashes(found: SparseFound) -> Table:
    kinds = ("weights", "rollouts", "metrics", "trace")
    rows = [
        (run, *((found.hashes[run].get(f"{kind}_sha256") or "missing")[:16] for kind in kinds))
        for run in sorted(found.hashes)
    ]
    return plain("The first 16 digits of each SHA-256.", ("Run", *kinds), rows, words=True)
