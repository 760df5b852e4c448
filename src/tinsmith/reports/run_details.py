"""What every run's page ends with: its alarms as a table, and its settings, identity and circumstances as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from tinsmith.reports.run_records import Config, Kind, Run
from tinsmith.reports.tables import Cell, Table, TableRow, column, number, shown, text, whole

_DATA: Final = {Kind.RLVR: "Tasks", Kind.TASK: "Items"}
"""What the data of a run are called where they are no papers."""


def alarms_table(run: Run) -> Table | None:
    """Return the alarms with the numbers that figures use; None where there are none."""
    if not run.alarms:
        return None
    return Table(
        caption="",
        heads=(
            text("Alarm"),
            text("What was seen"),
            column("step"),
            column("value"),
            column("limit"),
        ),
        rows=tuple(
            TableRow(
                name=Cell(text=f"A{place}", tags=()),
                cells=(
                    text(alarm.message or f"{alarm.kind} {alarm.label or ''}".strip()),
                    whole(alarm.step, "not stated"),
                    number(alarm.value, "not stated"),
                    number(alarm.threshold, "not stated"),
                ),
            )
            for place, alarm in enumerate(run.alarms, start=1)
        ),
    )


def details(run: Run) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the headed lists of names and values at the end of a run's page."""
    config, manifest = run.config, run.manifest
    data = config.data
    settings = {**config.settings, **{f"task.{k}": v for k, v in _fields(config.task).items()}}
    identity = {
        key: value
        for key, value in (manifest.identity if manifest else {}).items()
        if key not in Config.__struct_fields__ and key not in ("schema", "title")
    }
    sections: list[tuple[str, Mapping[str, object]]] = [
        ("Settings", settings),
        ("Reward", config.reward or {}),
        (_DATA.get(config.kind, "Papers"), _fields(data)),
        (
            "Identity: the same identity gives the same results",
            {"identity_sha256": config.identity_sha256, **identity},
        ),
        ("Hashes of what it left", dict(manifest.hashes) if manifest else {}),
        ("Circumstances: these decide nothing", manifest.circumstances if manifest else {}),
        ("Median seconds of a step", _timings(run)),
        ("Checkpoints", {f"step {one.step}": one.state_path for one in run.checkpoints}),
    ]
    return tuple((title, tuple(flattened(values))) for title, values in sections)


def _fields(record: object) -> dict[str, object]:
    """Return the fields of a record that say anything."""
    names: Sequence[str] = getattr(record, "__struct_fields__", ())
    found = {name: getattr(record, name) for name in names}
    return {name: value for name, value in found.items() if value not in (None, "", ())}


def flattened(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested mappings as pairs of dotted name and text, in their order."""
    pairs: list[tuple[str, str]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner:
            pairs += flattened(inner, f"{name}.")
        else:
            pairs.append((name, shown(inner)))
    return pairs


def _timings(run: Run) -> dict[str, object]:
    names = sorted({key for row in run.timings for key in row if key != "step"})
    medians: dict[str, object] = {}
    for name in names:
        # A phase that most steps do not have (evaluating, saving) is told by the steps that have it.
        values = [value for row in run.timings if (value := row.get(name))]
        if values:
            medians[name.removesuffix("_s")] = f"{median(values):.3f} ({len(values)} steps)"
    return medians
