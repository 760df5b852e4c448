"""Which quantities of one run are drawn over its steps, and what each figure is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinsmith.analysis.alarms import AlarmKind, Limits
from tinsmith.reports.curves import Chart, Flag, Limit, Line, chart_svg, smoothing
from tinsmith.reports.document import Plate
from tinsmith.reports.palette import INK, INVALID_MARK, Mark, class_mark, series_mark
from tinsmith.runs.kinds import Kind
from tinsmith.runs.run_records import Run

_LIMITS = Limits()
TERMS = ("parse", "contract", "task", "think")


def series(run: Run, key: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the steps that have a value of `key`, and the values."""
    found = [
        (step, value) for step, row in run.metrics.items() if (value := row.get(key)) is not None
    ]
    return tuple(step for step, _ in found), tuple(value for _, value in found)


def line(run: Run, key: str, label: str, mark: Mark) -> Line:
    """Return one metric as a line."""
    steps, values = series(run, key)
    return Line(label=label, mark=mark, steps=steps, values=values)


def flags_of(run: Run, *kinds: AlarmKind) -> tuple[Flag, ...]:
    """Return the alarms of some kinds, numbered as in the table of alarms."""
    slots = {label: class_mark(label, place) for place, label in enumerate(run.labels)}
    return tuple(
        Flag(number, alarm.step, alarm.value, slots.get(alarm.label or ""))
        for number, alarm in enumerate(run.alarms, start=1)
        if alarm.step is not None and alarm.kind in kinds
    )


def run_plates(run: Run) -> list[Plate]:
    """Return the figures over time of a run, in their order on the page."""
    makers: Sequence[Callable[[Run], Plate | None]] = (
        _shares,
        _recalls,
        _scores,
        _rewards if run.config.kind is Kind.RL else _nll,
        _informative,
        _worth,
        _duals,
        _drift,
        _gradient,
    )
    return [plate for make in makers if (plate := make(run)) is not None]


def class_plates(run: Run, prefix: str) -> list[Plate]:
    """Return the figures that tell of classes, with ids that begin with `prefix`: one of several tasks on a page."""
    makers = (_shares, _recalls, _scores, _informative, _worth)
    return [plate for make in makers if (plate := make(run, prefix)) is not None]


def per_class(run: Run, group: str) -> list[Line]:
    """Return a metric of every class as lines."""
    return [
        line(run, f"{group}/{label}", label, class_mark(label, place))
        for place, label in enumerate(run.labels)
    ]


def plate(title: str, note: str, chart: Chart, missing: str) -> Plate:
    """Draw a chart, or say what is missing."""
    longest = max((len(one.steps) for one in chart.lines), default=0)
    width = smoothing(longest)
    if width > 1:
        note = f"{note} Thick: mean of {width} steps."
    svg = chart_svg(chart)
    return Plate(title=title, note=note if svg else missing, svg=svg)


def last_values(lines: Sequence[Line]) -> str:
    """Say the first and last value of every line, for a screen reader."""
    told = [
        f"{one.label} from {one.values[0]:.3f} to {one.values[-1]:.3f}"
        for one in lines
        if one.values
    ]
    return ", ".join(told)


_NO_EVALUATION = "Missing: the validation split was never answered."


def _shares(run: Run, prefix: str = "") -> Plate:
    lines = per_class(run, "eval/predicted_share")
    lines.append(line(run, "eval/invalid_rate", "invalid", INVALID_MARK))
    return plate(
        "Predicted share by class",
        "Validation split, sampled. A class above the limit in three evaluations running raises an alarm.",
        Chart(
            name=f"{prefix}shares",
            label=f"Share of all answers by class over steps: {last_values(lines)}.",
            lines=lines,
            shares=True,
            limits=(Limit(_LIMITS.max_share, f"alarm above {_LIMITS.max_share:g}"),),
            flags=flags_of(run, AlarmKind.SHARE, AlarmKind.INFORMATION),
        ),
        _NO_EVALUATION,
    )


def _recalls(run: Run, prefix: str = "") -> Plate:
    lines = per_class(run, "eval/recall")
    return plate(
        "Recall by class",
        "Validation split, sampled.",
        Chart(
            name=f"{prefix}recalls",
            label=f"Recall by class over steps: {last_values(lines)}.",
            lines=lines,
            shares=True,
            limits=(Limit(_LIMITS.min_recall, f"alarm below {_LIMITS.min_recall:g}"),),
            flags=flags_of(run, AlarmKind.RECALL, AlarmKind.CHANCE),
        ),
        _NO_EVALUATION,
    )


def _scores(run: Run, prefix: str = "") -> Plate:
    names = (("macro_f1", "macro-F1"), ("label_match", "label_match"))
    lines = [
        line(run, f"eval/{key}", words, series_mark(i)) for i, (key, words) in enumerate(names)
    ]
    lines += [
        line(run, f"eval_greedy/{key}", f"{words}, greedy", series_mark(2 + i))
        for i, (key, words) in enumerate(names)
    ]
    return plate(
        "Scores, sampled and greedy",
        "Validation split. A balanced policy that draws its answers may fall back to one class when it is greedy.",
        Chart(
            name=f"{prefix}scores",
            label=f"Macro-F1 and label_match over steps: {last_values(lines)}.",
            lines=lines,
            shares=True,
            flags=flags_of(run, AlarmKind.GOODHART),
        ),
        _NO_EVALUATION,
    )


def _rewards(run: Run) -> Plate:
    lines = [line(run, "train/reward/total", "total", Mark(INK, "-", "o"))]
    lines += [line(run, f"train/reward/{t}", t, series_mark(i)) for i, t in enumerate(TERMS)]
    return plate(
        "Reward by term",
        "Mean over the training rollouts of a step.",
        Chart(
            name="rewards",
            label=f"Mean reward by term over steps: {last_values(lines)}.",
            lines=lines,
            unit="reward",
        ),
        "Missing: no step has a reward.",
    )


def _nll(run: Run) -> Plate:
    lines = [line(run, "train/nll", "training loss", series_mark(0))]
    return plate(
        "Training loss",
        "Negative log-likelihood of the answer's tokens.",
        Chart(
            name="nll",
            label=f"Training loss over steps: {last_values(lines)}.",
            lines=lines,
            unit="nats a token",
        ),
        "Missing: no step has a loss.",
    )


def _informative(run: Run, prefix: str = "") -> Plate | None:
    if run.config.kind is not Kind.RL:
        return None
    lines = per_class(run, "train/groups/informative")
    limit = _LIMITS.min_informative_rate
    return plate(
        "Informative groups by class",
        "Share of the groups whose rewards differ. A class without any teaches nothing more, and is lost for good.",
        Chart(
            name=f"{prefix}groups",
            label=f"Share of groups that carry a gradient, by class, over steps: {last_values(lines)}.",
            lines=lines,
            shares=True,
            limits=(Limit(limit, f"alarm below {limit:g}"),),
            flags=flags_of(run, AlarmKind.GROUPS),
        ),
        "Missing: no step says which groups were informative.",
    )


def _worth(run: Run, prefix: str = "") -> Plate | None:
    lines = per_class(run, "reward/correct")
    if not any(line.steps for line in lines):
        return None
    return plate(
        "What a right answer is worth",
        "By class: this reward reacts to what was answered so far.",
        Chart(
            name=f"{prefix}worth",
            label=f"Reward of a right answer by class over steps: {last_values(lines)}.",
            lines=lines,
            unit="reward",
        ),
        "",
    )


def _duals(run: Run) -> Plate | None:
    lines = per_class(run, "reward/dual")
    if not any(line.steps for line in lines):
        return None
    return plate(
        "Price of a class's recall",
        "The dual variables: they rise while a recall is below its target.",
        Chart(
            name="duals",
            label=f"Dual variable by class over steps: {last_values(lines)}.",
            lines=lines,
            unit="price",
        ),
        "",
    )


def _drift(run: Run) -> Plate:
    lines = [
        line(run, "kl/base", "to the base, training rollouts", series_mark(0)),
        line(run, "eval/kl_base", "to the base, validation", series_mark(1)),
        line(run, "optim/kl_sample_train", "sampler to trainer", series_mark(3)),
    ]
    return plate(
        "KL divergence",
        "Estimated on sampled tokens. Sampler to trainer is zero where the two are one model.",
        Chart(
            name="kl",
            label=f"KL divergence over steps: {last_values(lines)}.",
            lines=lines,
            unit="nats a token",
        ),
        "Missing: no step has a KL divergence.",
    )


def _gradient(run: Run) -> Plate:
    lines = [line(run, "optim/grad_norm", "gradient norm", series_mark(2))]
    return plate(
        "Gradient norm",
        "Before clipping, at every optimizer step.",
        Chart(
            name="gradient",
            label=f"Gradient norm over steps: {last_values(lines)}.",
            lines=lines,
            unit="norm",
        ),
        "Missing: no step has a gradient norm.",
    )
