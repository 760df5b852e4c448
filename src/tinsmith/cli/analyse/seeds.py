"""What the source notes' two tables say about the items behind them: `tinsmith analyse consistency --seeds`."""

from __future__ import annotations

import json

from tinsmith.cli.analyse.tables import open_console, print_recovery, recovery_value
from tinsmith.stats.confusion import collapsed_macro_f1
from tinsmith.stats.consistency.reported import ReportedTable
from tinsmith.stats.consistency.solutions import Recovery, Solution
from tinsmith.stats.consistency.solving import recover
from tinsmith.stats.intervals import wilson
from tinsmith.studies.disruption.published_tables import LABELS, STATED_N, seed_exp5, seed_ladder


def print_seeds() -> None:
    """Print both tables' counts, and what follows from them."""
    console = open_console()
    console.print(f"Baseline to Exp4, as stated on the same {STATED_N} papers")
    ladder, found = seed_ladder(), recover(seed_ladder())
    print_recovery(ladder, found)
    for sentence in _ladder_sentences(found.solutions[0]):
        console.print(f"! {sentence}", soft_wrap=True)
    console.print(f"\nExp5, as stated on the same {STATED_N} papers")
    stated = seed_exp5(STATED_N)
    print_recovery(stated, recover(stated))
    console.print("\nExp5, any number of papers")
    free, anywhere = _exp5()
    print_recovery(free, anywhere)
    for sentence in _exp5_sentences(anywhere.solutions[0], found.solutions[0]):
        console.print(f"! {sentence}", soft_wrap=True)


def seeds_json() -> str:
    """Return the three searches as JSON."""
    ladder, stated = seed_ladder(), seed_exp5(STATED_N)
    free, anywhere = _exp5()
    return json.dumps(
        {
            "ladder": recovery_value(ladder, recover(ladder)),
            "exp5_as_stated": recovery_value(stated, recover(stated)),
            "exp5": recovery_value(free, anywhere),
        },
        indent=2,
    )


def _exp5() -> tuple[ReportedTable, Recovery]:
    free = seed_exp5()
    return free, recover(free)


def _ladder_sentences(solution: Solution) -> list[str]:
    constant, largest = solution.best_constant, LABELS[solution.sizes.index(max(solution.sizes))]
    above = [line.name for line in solution.lines if wilson(line.total.low, solution.n).above(constant)]
    balanced = [
        sum(c.low / size for c, size in zip(line.correct, solution.sizes, strict=True)) / len(solution.sizes)
        for line in solution.lines
    ]
    shown = ", ".join(f"{line.name} {value:.3f}" for line, value in zip(solution.lines, balanced, strict=True))
    return [
        f"always answering {largest} scores {constant:.3f}; "
        + (f"above it: {', '.join(above)}" if above else "no line's interval lies above it"),
        f"balanced accuracy, chance being {1 / len(solution.sizes):.3f}: {shown}",
    ]


def _exp5_sentences(solution: Solution, ladder: Solution) -> list[str]:
    size, prior = solution.sizes[0], solution.sizes[0] / solution.n
    precision = ", ".join(
        f"{line.name.removeprefix('Exp5 ')} {line.correct[0].low / line.said[0].low:.4f}" for line in solution.lines
    )
    return [
        f"not the same papers as Baseline to Exp4: {solution.n} of them, {size} {LABELS[0]}, "
        f"against {ladder.n} and {ladder.sizes[0]}",
        f"precision on {LABELS[0]} against its share {prior:.4f} of the papers: {precision}",
        f"always answering {LABELS[0]} has macro-F1 {collapsed_macro_f1(prior, len(LABELS)):.4f}: "
        "the last line is that",
    ]
