"""Rows of tables about arms on labels: scores, evaluations, confusion, stated confidence, alarms, experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tinsmith.lab.results.arms import OFFSETS, Arm, Member, by_descent
from tinsmith.lab.results.run_map import status_words, steps_words
from tinsmith.lab.results.systems import EVALUATIONS, Scored, System, baseline_systems
from tinsmith.lab.runs.records import SPLIT_WORDS, Run, Split
from tinsmith.lab.study.record import Panel
from tinsmith.pages.measures import Measure, from_evaluation
from tinsmith.pages.tables import shown
from tinsmith.stats.calibration import STATED, Calibration
from tinsmith.stats.evaluation import Evaluation
from tinsmith.stats.intervals import wilson

Shown = Measure | str | None
Row = list[Shown]
_BELOW: Final = "\u2192 "
"""Before an experiment, once for each of its forebears on the page."""
_SHOWN: Final = (Split.TEST, Split.TEST_GREEDY, *EVALUATIONS)
_PANELS: Final = {"macro_f1": "macro-F1", "min_class_recall": "smallest recall", "parse_ok": "JSON"}
_FORM: Final = ("parse_ok", "format_strict_ok", "invalid_rate")
ALARM_HEADS: Final = ("Run", "Message", "step", "value", "limit")
EXPERIMENT_HEADS: Final = ("Question", "Parent", "Changes", "Set by hand", "Seeds", "Status")
CONFIDENCE_HEADS: Final = (
    *(head for word, stated in STATED.items() for head in (f"{word} ({stated:g})|share right", f"{word}|papers")),
    *("states none", "ECE", "Brier", "NLL|nats"),
)
_UNREAD: Final = ("cannot be read", *[None] * (len(CONFIDENCE_HEADS) - 1))
RUN_HEADS: Final = ("Arm", "seed", "Status", "Identity", "failed rollouts")


def score_heads(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the heads of the table of scores."""
    recalls, shares = ([f"{kind}|{label}" for label in labels] for kind in ("recall", "share"))
    chance = f"balanced accuracy|chance {1 / len(labels):.3f}" if labels else "balanced accuracy"
    scores, form = ("label_match", "macro-F1", chance, "min recall"), ("parse_ok", "format_strict_ok", "invalid rate")
    return ("n", *scores, *recalls, *form, *shares)


def score_rows(arms: Sequence[Arm], scored: Scored, own: Callable[[str], Sequence[Shown]] = lambda _: ()) -> list[Row]:
    """Return every arm on the test split, or at its last validation; then the baselines of the first slice with any.

    `own` returns further cells of an arm's first row.
    """
    recalls, shares = ([f"{kind}/{label}" for label in arms[0].labels] for kind in ("recall", "predicted_share"))
    scores = ("label_match", "macro_f1", "balanced_accuracy", "min_class_recall", *recalls)
    keys = (*scores, *_FORM, *shares)
    rows: list[Row] = []
    for arm in arms:
        for place, (split, one) in enumerate(scored[arm.name].items()):
            last = ", the last one" if split in EVALUATIONS else ""
            label = f"{arm.name}{OFFSETS if split is Split.TEST_OFFSET else ''}|"
            name = f"{one.name[:1].upper()}{one.name[1:]}{last}|" if len(arms) == 1 else f"{label}{one.name}{last}, "
            more = own(arm.name) if place == 0 else [""] * len(own(arm.name))
            cells = (one.measures.get(key) for key in keys)
            rows.append([f"{name}{one.what}", _count(one), *cells, *more])
            lenient = _lenient(arm, split) if len(arm.members) == 1 else {}
            if lenient:
                cells = (lenient.get(key, "") for key in keys)
                named = f"{name.partition('|')[0]}|read leniently: text around the JSON forgiven"
                rows.append([named, "", *cells, *[""] * len(more)])
    for one in baselines_of(arms):
        known = (one.measures.get(key) if key in scores else "n/a" for key in keys)
        rows.append([f"{one.name}|{one.what}", _count(one), *known, *["n/a"] * len(own(arms[0].name))])
    return rows


def baselines_of(arms: Sequence[Arm]) -> list[System]:
    """Return the baselines of the first slice that has any."""
    return baseline_systems(next((arm.first.baselines for arm in arms if arm.first.baselines), None))


def panels_of(arms: Sequence[Arm], scored: Scored) -> tuple[list[str], list[Panel]]:
    """Return the first system of every arm, decisions with offsets, and the baselines, as a picture has them."""
    rows: dict[str, Mapping[str, Measure]] = {}
    for arm in arms:
        for place, (split, one) in enumerate(scored[arm.name].items()):
            if place == 0 or split is Split.TEST_OFFSET:
                rows[f"{arm.name}{OFFSETS if place else ''}"] = one.measures
    rows |= {one.name: one.measures for one in baselines_of(arms)}
    found = [
        Panel(title=title, before=(), after=tuple(one.get(key) for one in rows.values()))
        for key, title in _PANELS.items()
    ]
    return list(rows), found if rows else []


def _count(one: System) -> str:
    return "not known" if one.num_items is None else f"{one.num_items:,}"


def _lenient(arm: Arm, split: Split) -> dict[str, Measure]:
    """Return a run's scores where thoughts, fences and text around the JSON are forgiven, as it last measured them."""
    prefix = f"{split}/lenient_"
    rows = [row for row in arm.first.metrics.values() if row.get(f"{prefix}macro_f1") is not None]
    found = rows[-1].items() if rows and split in (Split.TEST, Split.EVAL) else ()
    return {key.removeprefix(prefix): Measure(one) for key, one in found if key.startswith(prefix) and one is not None}


def step_heads(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the heads of the table of evaluations by step."""
    by_class = [f"{kind}|{label}" for kind in ("share", "recall") for label in labels]
    return ("n", "label_match", "macro-F1", "macro-F1|greedy", *by_class, "min recall", "label MI|nats", "parse_ok")


def step_rows(member: Member) -> list[Row]:
    """Return a run's evaluations on the validation split, sampled; values are those that training wrote."""
    run = member.run
    selected = run.manifest.selected.step if run.manifest and run.manifest.selected else None
    by_class = [f"eval/{kind}/{label}" for kind in ("predicted_share", "recall") for label in run.labels]
    rows: list[Row] = []
    for step in evaluated_steps(run):
        metrics, evaluation = run.metrics[step], member.gathered.at(Split.EVAL, step)
        ends = from_evaluation(evaluation) if evaluation else {}
        keys = ("eval/label_match", "eval/macro_f1", "eval_greedy/macro_f1", *by_class)
        keys = (*keys, "eval/min_class_recall", "eval/label_mi", "eval/parse_ok")
        tags = ["selected"] if step == selected else []
        tags += [f"A{place}" for place, alarm in enumerate(run.alarms, start=1) if alarm.step == step]
        cells = [_with_ends(metrics.get(key), ends.get(key.removeprefix("eval/"))) for key in keys]
        rows.append([f"{step}|{', '.join(tags)}", f"{len(evaluation.answers):,}" if evaluation else None, *cells])
    return rows


def evaluated_steps(run: Run) -> tuple[int, ...]:
    """Return the steps at which the validation split was answered."""
    return tuple(step for step, row in run.metrics.items() if row.get("eval/label_match") is not None)


def _with_ends(value: float | None, ends: Measure | None) -> Measure | None:
    if value is None:
        return None
    return Measure(value, ends.low, ends.high) if ends else Measure(value)


def confusion_rows(arms: Sequence[Arm], scored: Scored) -> list[Row]:
    """Return a row for each true label: answers, with their share of the row; seeds together."""
    rows: list[Row] = []
    for arm in arms:
        for split in (one for one in scored[arm.name] if one in _SHOWN):
            answers = arm.answers(split)
            if answers is None:
                continue
            what = f"{SPLIT_WORDS[split]}{f', {answers.num_seeds} seeds together' if answers.num_seeds > 1 else ''}"
            for label, row in zip(arm.labels, answers.counts().sum(axis=0).tolist(), strict=True):
                total = sum(row) or 1
                name = f"{label}|{f'{arm.name}: ' if len(arms) > 1 else ''}{what}"
                rows.append([name, *(f"{count:,} ({100 * count / total:.0f} %)" for count in row)])
    return rows


def confidence_rows(arms: Sequence[Arm], scored: Scored) -> list[Row]:
    """Return how far stated confidence can be believed, for each run and split whose answers state any."""
    rows: list[Row] = []
    for arm, member in _members(arms):
        for split in (one for one in scored[arm.name] if one in _SHOWN):
            evaluation = member.gathered.last(split)
            found = None if evaluation is None else stated(evaluation)
            if found is None and evaluation is not None:
                rows.append([f"{_run_name(arm, member)}|{SPLIT_WORDS[split]}", *_UNREAD])
            elif found is not None and found.num_items:
                levels = [cell for one in found.levels for cell in (_share(one.right, one.items), f"{one.items:,}")]
                name = f"{_run_name(arm, member)}|{SPLIT_WORDS[split]}" if len(arms) > 1 else SPLIT_WORDS[split]
                errors = map(Measure, (found.ece, found.brier, found.nll))
                rows.append([name, *levels, f"{found.left_out:,}", *errors])
    return rows


def stated(evaluation: Evaluation) -> Calibration | None:
    """Return stated confidence against being right; None where a word is none of the three."""
    words = {answer.confidence for answer in evaluation.answers if answer.predicted is not None}
    return evaluation.calibration() if words <= {None, *STATED} else None


def _share(right: int, items: int) -> Shown:
    if not items:
        return "never stated"
    ends = wilson(right, items)
    return Measure(right / items, ends.low, ends.high)


def alarm_rows(arms: Sequence[Arm]) -> list[Row]:
    """Return the alarms of the collapse monitors."""
    return [
        [
            f"A{place}",
            _run_name(arm, member),
            alarm.message or f"{alarm.kind} {alarm.label or ''}".strip(),
            None if alarm.step is None else f"{alarm.step:,}",
            *(None if one is None else Measure(one) for one in (alarm.value, alarm.threshold)),
        ]
        for arm, member in _members(arms)
        for place, alarm in enumerate(member.run.alarms, start=1)
    ]


def experiment_rows(arms: Sequence[Arm]) -> list[Row]:
    """Return every experiment with its question and only what it changes, below its parent where that is there."""
    rows: list[Row] = []
    for depth, arm in by_descent(arms):
        config = arm.first.config
        changes, by_hand = (
            "; ".join(f"{key} = {shown(value)}" for key, value in some if key != "seed")
            for some in (config.delta.items(), sorted(config.overrides.items()))
        )
        status = "; ".join(sorted({status_words(member.run) for member in arm.members}))
        told = (config.question or "not stated", config.parent or "none", changes or "nothing: a beginning", by_hand)
        rows.append([f"{_BELOW * depth}{arm.name}|{arm.kind.words}", *told, arm.seeds(), status])
    return rows


def run_rows(arms: Sequence[Arm]) -> list[Row]:
    """Return every run: how far it came, its identity, and the rollouts of it that failed."""
    return [
        [
            member.run.folder.name,
            arm.name,
            "unknown" if member.run.config.seed is None else str(member.run.config.seed),
            f"{status_words(member.run)}, {steps_words(member.run)}",
            member.run.config.identity_sha256[:16] or "missing",
            f"{sum(member.gathered.failures.values()):,}",
        ]
        for arm, member in _members(arms)
    ]


def _members(arms: Sequence[Arm]) -> Iterator[tuple[Arm, Member]]:
    return ((arm, member) for arm in arms for member in arm.members)


def _run_name(arm: Arm, member: Member) -> str:
    return f"{arm.name}, seed {member.run.config.seed}"
