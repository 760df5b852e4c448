"""What the page of every run has, whatever it is on: how it went first, and last its settings and identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tinsmith.lab.results.run_map import status_words, steps_words
from tinsmith.lab.runs.records import Config, Run
from tinsmith.pages.document import Block, Callout, Document, Fold, Pairs, Section, Values, Words, missing, summary
from tinsmith.pages.tables import Cell, Table, TableRow, column, flattened, number, text, whole


def run_document(
    run: Run,
    *,
    kind: str,
    facts: Pairs,
    story: Sequence[str],
    notes: Sequence[str],
    sections: Sequence[Section],
    limits: Sequence[str] = (),
    top: Sequence[Block] = (),
    alarms: str | None = "Alarms",
) -> Document:
    """Return the page of one run.

    Args:
        run: what the folder says.
        kind: what sort of run it is, above the title.
        facts: beside those that every run has.
        story: what happened.
        notes: what could not be read.
        sections: between the summary and the details.
        limits: what cannot be said.
        top: what ends the summary.
        alarms: the title of their table in the summary; None: they stand elsewhere.
    """
    found = None if alarms is None else alarms_table(run)
    raised = None if found is None else Callout(alarms or "", [found], alarm=True)
    seed = "not stated" if run.config.seed is None else str(run.config.seed)
    return Document(
        kind=kind,
        title=run.config.title,
        question=run.config.question,
        facts=(
            ("Training", run.config.kind.words),
            ("Status", status_words(run)),
            ("Progress", steps_words(run)),
            ("Seed", seed),
            *facts,
        ),
        sections=(
            summary(story, raised, *top, limits=limits, notes=notes),
            *sections,
            Section("details", "Details", [_fold(*each, place) for place, each in enumerate(details(run))]),
        ),
    )


def _fold(title: str, pairs: Pairs, place: int) -> Fold:
    return Fold(title, [Values(pairs) if pairs else missing("Missing.")], opened=place == 0)


def failures_section(failures: Table | None, what: str = "rollout") -> Section:
    """Return the section of what came to nothing."""
    return Section("failures", "Failures", [failures or Words(f"No {what} failed.")])


def alarms_table(run: Run) -> Table | None:
    """Return the alarms with the numbers that figures use; None where there are none."""
    if not run.alarms:
        return None
    return Table(
        caption="",
        heads=(text("Alarm"), text("What was seen"), column("step"), column("value"), column("limit")),
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


def details(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
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
        (config.kind.data_words, _fields(data)),
        ("Identity: the same identity gives the same results", {"identity_sha256": config.identity_sha256, **identity}),
        ("Hashes of what it left", dict(manifest.hashes) if manifest else {}),
        ("Circumstances: these decide nothing", manifest.circumstances if manifest else {}),
        ("Median seconds of a step", _timings(run)),
        ("Checkpoints", {f"step {one.step}": one.state_path for one in run.checkpoints}),
    ]
    return [(title, flattened(values)) for title, values in sections]


def _fields(record: object) -> dict[str, object]:
    """Return the fields of a record that say anything."""
    names: Sequence[str] = getattr(record, "__struct_fields__", ())
    found = {name: getattr(record, name) for name in names}
    return {name: value for name, value in found.items() if value not in (None, "", ())}


def _timings(run: Run) -> dict[str, object]:
    names = sorted({key for row in run.timings for key in row if key != "step"})
    medians: dict[str, object] = {}
    for name in names:
        # A phase that most steps do not have (evaluating, saving) is told by the steps that have it.
        values = [value for row in run.timings if (value := row.get(name))]
        if values:
            medians[name.removesuffix("_s")] = f"{median(values):.3f} ({len(values)} steps)"
    return medians
