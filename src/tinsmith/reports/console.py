"""The comparison on a terminal: the test scores of every arm above those of the baselines, in 80 columns."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from tinsmith.reports.comparison_page import Compared
from tinsmith.reports.measures import Measure, Measures
from tinsmith.reports.snapshot import baseline_systems


def summary_table(compared: Compared) -> Table:
    """Return the test scores of every arm, sampled and greedy, above those of the slice's baselines."""
    sizes = sorted({one.num_items for one in compared.tested.values()})
    papers = f", {sizes[0]:,} papers" if len(sizes) == 1 else ""
    title = f"Test split{papers}: label_match, macro-F1 with 95 % interval and greedy"
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    names = max(len(f"{arm.name}, {len(arm.members)} seeds") for arm in compared.arms)
    table.add_column("run", no_wrap=True, min_width=names)
    table.add_column("match", justify="right", no_wrap=True)
    table.add_column("macro-F1", justify="right", no_wrap=True)
    table.add_column("greedy", justify="right", no_wrap=True)
    table.add_column("min recall", justify="right", min_width=6)
    table.add_column("most said", no_wrap=True)
    table.add_column("JSON", justify="right", no_wrap=True)
    for arm in compared.arms:
        one, greedy = compared.tested.get(arm.name), compared.greedy.get(arm.name)
        seeds = f", {len(arm.members)} seeds" if len(arm.members) > 1 else ""
        name = Text(f"{arm.name}{seeds}")
        if one is None:
            table.add_row(name, *["missing"] * 6)
            continue
        table.add_row(
            name,
            _figure(one.measures.get("label_match")),
            _interval(one.measures.get("macro_f1")),
            _figure(greedy.measures.get("macro_f1") if greedy else None),
            _figure(one.measures.get("min_class_recall")),
            Text(_most_said(one.measures, arm.labels)),
            _figure(one.measures.get("parse_ok")),
        )
    table.add_section()
    for system in baseline_systems(compared.baselines) if compared.baselines else ():
        table.add_row(
            Text(system.name),
            _figure(system.measures.get("label_match")),
            _interval(system.measures.get("macro_f1")),
            "",
            _figure(system.measures.get("min_class_recall")),
        )
    return table


def _figure(measure: Measure | None) -> str:
    return "missing" if measure is None else f"{measure.value:.3f}"


def _interval(measure: Measure | None) -> str:
    if measure is None or measure.low is None or measure.high is None:
        return _figure(measure)
    return f"{measure.value:.3f} {measure.low:.2f}-{measure.high:.2f}"


def _most_said(measures: Measures, labels: tuple[str, ...]) -> str:
    """Return the class with the largest share of the answers, and that share."""
    shares = {
        label: measure.value
        for label in labels
        if (measure := measures.get(f"predicted_share/{label}")) is not None
    }
    top = max(shares, key=shares.__getitem__, default=None)
    return "missing" if top is None else f"{top} {100 * shares[top]:.0f} %"
