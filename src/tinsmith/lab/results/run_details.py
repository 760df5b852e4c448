"""Sections common to all runs' pages: verdict, curves, settings and identity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tinsmith.lab.results.arms import Cause
from tinsmith.lab.runs.files import STOPPED_AT, Kind, Status
from tinsmith.lab.runs.records import Config, Run
from tinsmith.pages.curves import Flag, Limit, Line, chart_svg, smoothing
from tinsmith.pages.document import Block, Callout, Document, Fold, Pairs, Plate, Section, Values, missing, summary
from tinsmith.pages.drawing import INK, INVALID_MARK, Mark, class_mark, series_mark
from tinsmith.pages.measures import Measure, ranged
from tinsmith.pages.tables import Column, Shown, Table, flattened, shown_table
from tinsmith.stats.monitors import AlarmKind
from tinsmith.types.page_names import setting_text

_GUESSING: Final = {-1: "Worse than guessing", 0: "No better than guessing", 1: "Better than guessing"}
_BASELINE: Final = {-1: "below the best baseline", 0: "no better than the best baseline", 1: "above the best baseline"}
_BEFORE: Final = {-1: "Worse than before training", 0: "No gain shown", 1: "Better than before training"}
Beside = tuple[str, float, int]
"""Score for comparison: its name, value, and the system's side of it: 1 above, -1 below, 0 undecided."""


def verdict(
    score: str,
    measure: Measure,
    *,
    chance: float | None = None,
    before: Beside | None = None,
    baselines: Sequence[Beside] = (),
    more: str = "",
) -> str:
    """Return the verdict on a system's held-out score: a summary, the score, and its comparisons.

    `before` is the score before training; `more` ends the sentence, such as how often one class was the answer.
    """
    best = max(baselines, key=lambda one: one[1], default=None)
    heads: list[str] = []
    figures = [f"{score} {ranged(measure)}"]
    if chance is not None:
        heads.append(_GUESSING[side_of(measure, chance)])
        figures.append(f"chance {chance:.3f}")
    if before is not None:
        heads.append(_BEFORE[before[2]])
        figures.append(f"{before[0]} {before[1]:.3f}")
    # Below chance, where one stands to a baseline says nothing more.
    if best is not None and (chance is None or side_of(measure, chance) == 1):
        heads.append(_BASELINE[best[2]])
    figures.append(f"best baseline {best[0]} {best[1]:.3f}" if best else "no baseline is known")
    head = ", ".join(heads)
    return f"{head[:1].upper()}{head[1:]}{': ' if head else ''}{', '.join(figures)}{more and f'; {more}'}."


def side_of(measure: Measure, level: float) -> int:
    """Return 1 if the interval of a measure is above a level, -1 if below it, 0 if it contains it.

    >>> side_of(Measure(0.5, 0.4, 0.6), 0.35), side_of(Measure(0.5, 0.4, 0.6), 0.45), side_of(Measure(0.2), 0.3)
    (1, 0, -1)
    """
    low, high = (measure.value if end is None else end for end in (measure.low, measure.high))
    return (low > level) - (high < level)


STATUS_WORDS: Mapping[str, str] = {
    Status.FINISHED: "finished",
    Status.INTERRUPTED: "interrupted by hand; it can be resumed",
    Status.LOST: "stopped because its server or judge was lost; it can be resumed",
    Status.RUNNING: "still running, or killed without notice",
}


def status_words(run: Run) -> str:
    """Return a run's progress in words."""
    if run.manifest is None:
        return "not known: it has no manifest"
    return STATUS_WORDS.get(run.manifest.status, run.manifest.status or "not known")


def steps_words(run: Run) -> str:
    """Return the number of a run's finished steps in words."""
    # The line of step n is written when update n is; the last line, without an update, has the test.
    done, total = len(run.metrics), run.config.steps
    if total is None:
        return f"{done} steps"
    if stopped := sum(row.get(STOPPED_AT) or 0 for row in run.metrics.values()):
        return f"{stopped:.0f} of {total} steps; it stopped early, as rewards within groups hardly differed"
    return f"{min(done, total)} of {total} steps"


def papers_words(run: Run) -> str:
    """Return a run's papers in words, with the number in each split."""
    data = run.config.data
    name = data.name or (f"slice {data.fingerprint[:12]}" if data.fingerprint else "not stated")
    sizes = [
        f"{count:,} {split}"
        for count, split in ((data.train, "train"), (data.validation, "validation"), (data.test, "test"))
        if count is not None
    ]
    return f"{name}: {', '.join(sizes)}" if sizes else name


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
    claims: str = "",
    title: str = "",
) -> Document:
    """Return the page of one run.

    `kind` stands above the title, `sections` between the summary and the details; `top` ends the summary. `alarms` is
    the title of their table in the summary (None: they stand elsewhere), `claims` a line on what may be claimed,
    `title` the experiment in words, before its name.
    """
    found = None if alarms is None else alarms_table(run)
    raised = None if found is None else Callout(alarms or "", [found], alarm=True)
    seed = "not stated" if run.config.seed is None else str(run.config.seed)
    progress = (("Status", status_words(run)), ("Progress", steps_words(run)), ("Seed", seed))
    first = summary(story, raised, *top, limits=limits, notes=notes)
    return Document(
        kind=kind,
        title=f"{title}: {run.config.name}" if title else run.config.name,
        question=run.config.question,
        claims=claims,
        facts=(("Training", run.config.kind.words), *progress, *facts),
        sections=(first, *sections, Section("details", "Details", _details(run))),
    )


def alarms_table(run: Run) -> Table | None:
    """Return the alarms with the numbers that figures use; None where there are none."""
    if not run.alarms:
        return None
    forms = {"step": "d", "value": ".3f", "limit": ".3f"}
    heads = ("Observation", *(Column(head=name, form=form, missing="not stated") for name, form in forms.items()))
    rows: list[list[Shown]] = []
    for number, one in enumerate(run.alarms, start=1):
        figures = (one.step, one.value, one.threshold)
        rows.append([f"A{number}", one.words, *(None if value is None else Measure(value) for value in figures)])
    return shown_table("", "Alarm", heads, rows, cards=True)


def _details(run: Run) -> list[Fold]:
    config, manifest = run.config, run.manifest
    data = config.data
    of_task = {f"task.{name}": one for name, one in _fields(config.task).items()}
    identity = {
        key: value
        for key, value in (manifest.identity if manifest else {}).items()
        if key not in Config.__struct_fields__ and key not in ("schema", "title")
    }
    sections: list[tuple[str, Mapping[str, object]]] = [
        ("Settings", {"experiment": config.title, **config.settings, **of_task}),
        ("Reward", config.reward or {}),
        (config.kind.data_words, _fields(data)),
        ("Identity: the same identity gives the same results", {"identity_sha256": config.identity_sha256, **identity}),
        ("Hashes of what it left", dict(manifest.hashes) if manifest else {}),
        ("Circumstances: these decide nothing", manifest.circumstances if manifest else {}),
        ("Median seconds of a step", _timings(run)),
        ("Checkpoints", {f"step {one.step}": one.state_path for one in run.checkpoints}),
    ]
    flat = [(title, [(key, setting_text(key, one)) for key, one in flattened(values)]) for title, values in sections]
    folded = [(title, [Values(pairs) if pairs else missing("Missing.")]) for title, pairs in flat]
    return [Fold(title, blocks, opened=place == 0) for place, (title, blocks) in enumerate(folded)]


def _fields(record: object) -> dict[str, object]:
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


NO_EXAMINATION = "Missing: there was no examination."
BLACK = Mark(INK, "-", "o")  # Of a line that stands alone, or for the sum of the others.


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Series of a run's metrics to draw."""

    name: str
    title: str
    note: str
    lines: Sequence[tuple[str, str]] = ()  # Key and what it is called.
    by_class: str = ""  # Instead: a metric of every class, by its key up to the class.
    invalid: str = ""  # Beside the classes: the key of the share of answers that are none.
    missing: str = NO_EXAMINATION  # Says what there is not; empty: the figure is left out.
    unit: str = ""
    shares: bool = False
    limit: Limit | None = None
    alarms: Sequence[AlarmKind] = ()  # Kinds that are marked on it.
    only: Kind | None = None  # The kind of run that has it; None: all that show it.


GROUPS: Final = Drawn(
    name="groups",
    title="Informative groups",
    note="Share of the groups whose rewards differ; from the others nothing is learned.",
    lines=(("train/groups/informative", "informative"),),
    missing="Missing: no step says which groups were informative.",
    shares=True,
)
"""Groups with a gradient, by step."""

GRADIENT: Final = Drawn(
    name="gradient",
    title="Gradient norm",
    note="Before clipping, at every optimizer step.",
    lines=(("optim/grad_norm", "gradient norm"),),
    missing="Missing: no step has a gradient norm.",
    unit="norm",
)
"""Gradient norm by optimizer step."""


def line(run: Run, key: str, label: str, mark: Mark) -> Line:
    """Return one metric as a line, over the steps that have it."""
    found = {step: value for step, row in run.metrics.items() if (value := row.get(key)) is not None}
    return Line(label=label, mark=mark, steps=list(found), values=list(found.values()))


def flags_of(run: Run, *kinds: AlarmKind) -> tuple[Flag, ...]:
    """Return the alarms of some kinds, numbered as in the table of alarms."""
    slots = {label: class_mark(label, place) for place, label in enumerate(run.labels)}
    return tuple(
        Flag(number, alarm.step, alarm.value, slots.get(alarm.label or ""))
        for number, alarm in enumerate(run.alarms, start=1)
        if alarm.step is not None and alarm.kind in kinds
    )


def drawn_plates(run: Run, figures: Sequence[Drawn], prefix: str = "") -> list[Plate]:
    """Return the figures for which a run has data, in order; `prefix` begins their ids if a page has several tasks.

    One that has nothing to show, and no word for that, is left out.
    """
    found = [(one, _lines(run, one)) for one in figures if one.only in (None, run.config.kind)]
    shown = [(one, lines) for one, lines in found if one.missing or any(line.steps for line in lines)]
    return [chart_plate(one, lines, prefix=prefix, flags=flags_of(run, *one.alarms)) for one, lines in shown]


def _lines(run: Run, drawn: Drawn) -> list[Line]:
    """Return the lines of a figure, a class in its colour; of equal lines the first."""
    if drawn.by_class:
        classes = enumerate(run.labels)
        found = [line(run, f"{drawn.by_class}/{name}", name, class_mark(name, place)) for place, name in classes]
        return [*found, *([line(run, drawn.invalid, "invalid", INVALID_MARK)] if drawn.invalid else [])]
    lines: list[Line] = []
    for key, label in drawn.lines:
        one = line(run, key, label, series_mark(len(lines)) if len(drawn.lines) > 1 else BLACK)
        # A reward is the pass rate where no task has a tree; added up otherwise, its last bits may differ.
        if one.steps and not any(_same(one, other) for other in lines):
            lines.append(one)
    return lines


def chart_plate(drawn: Drawn, lines: Sequence[Line], *, prefix: str = "", flags: Sequence[Flag] = ()) -> Plate:
    """Draw lines, or state what is missing."""
    # For a screen reader.
    ends = [f"{one.label} from {one.values[0]:.3f} to {one.values[-1]:.3f}" for one in lines if one.values]
    label = f"{drawn.title} over steps: {', '.join(ends)}."
    limits = () if drawn.limit is None else (drawn.limit,)
    svg = chart_svg(
        f"{prefix}{drawn.name}", label, lines, unit=drawn.unit, shares=drawn.shares, limits=limits, flags=flags
    )
    if svg is None:
        return Plate(drawn.title, drawn.missing, None)
    width = smoothing(max(len(one.steps) for one in lines))
    thick = f" Thick: mean of {width} steps." if width > 1 else ""
    return Plate(drawn.title, drawn.note + thick, svg)


def _same(one: Line, other: Line) -> bool:
    return list(one.steps) == list(other.steps) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one.values, other.values, strict=True)
    )


def failures_table(failures: Mapping[Cause, int], where: str = "score") -> Table | None:
    """Return the number of failed rollouts by cause; None if none failed."""
    if not failures:
        return None
    rows = [
        (cause.where or "not stated", cause.what or "not stated", cause.split, Measure(count))
        for cause, count in failures.items()
    ]
    heads = ("What happened", "Split", Column(head="rollouts", form="d"))
    return shown_table(f"A failed rollout has no reward and is in no {where}.", "Where", heads, rows)
