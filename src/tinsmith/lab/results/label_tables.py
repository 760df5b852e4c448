"""Tables about arms on labels: scores, evaluations, confusion, stated confidence, alarms, experiments, both labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import fsum, prod
from typing import Final

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.labels.contracts import Outcome
from tinsmith.lab.results.arms import OFFSETS, LabelArm, LabelRun, by_descent, label_arms
from tinsmith.lab.results.run_details import status_words, steps_words
from tinsmith.lab.results.systems import BASELINE_WORDS, EVALUATIONS, System, baseline_systems, standing_rows
from tinsmith.lab.runs.reader import seedless
from tinsmith.lab.runs.records import SPLIT_WORDS, Split
from tinsmith.lab.runs.records import Row as Metrics
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Column, CurveRecord, Panel, Shown, apart
from tinsmith.lab.study.study import Curves, Listing, Points
from tinsmith.pages.measures import BOOTSTRAP, Measure, from_estimate, within
from tinsmith.pages.tables import shown
from tinsmith.stats.evaluation import STATED, Answered, Evaluation, Evaluations, calibration
from tinsmith.stats.intervals import wilson
from tinsmith.types.page_names import reward_name, setting_text

CAPTION: Final = (
    "The test split, or the last validation where it was not reached. Means over seeds with 95 % intervals over seeds "
    "and papers; of one seed, over papers. Sampled: at the training temperature. Selected: by validation."
)
PROGRESS: Final = {
    "eval/macro_f1": "macro-F1",
    "eval_greedy/macro_f1": "macro-F1, greedy",
    "eval/min_class_recall": "smallest recall",
}
"""Metrics of the validation split that are drawn over the steps."""
Row = list[Shown]
_BELOW: Final = "\u2192 "  # Before an experiment, once for each of its forebears on the page.
_SHOWN: Final = (Split.TEST, Split.TEST_GREEDY, *EVALUATIONS)
_PANELS: Final = {"macro_f1": "macro-F1", "min_class_recall": "smallest recall", "parse_ok": "JSON"}
_FORM: Final = ("parse_ok", "format_strict_ok", "invalid_rate")
_TESTS: Final = (Split.TEST, Split.TEST_GREEDY, Split.TEST_LAST, Split.TEST_LAST_GREEDY)


def tables_of(arms: Sequence[LabelArm]) -> list[Listing]:
    """Return the tables beside the arms' scores that have any data."""
    alone = len(arms) == 1
    return [
        *(_evaluations(arms[0].reads[0]) if alone else []),
        *_confusion(_alike(arms)),
        *_confidence(_alike(arms)),
        # The page of a run has its own table of them.
        *([] if alone and not arms[0].reads[0].two_labels else _alarms(arms)),
        *_experiments(arms),
        *([] if alone else _runs(arms)),
    ]


def _alike(arms: Sequence[LabelArm]) -> list[LabelArm]:
    """Return the arms that answer the question of the first."""
    return [arm for arm in arms if arm.first.labels == arms[0].first.labels]


def listing(title: str, caption: str, heads: Sequence[str], rows: Sequence[Row], names: str) -> list[Listing]:
    """Return a table of rows that are known, or none where there are no rows."""
    return [Listing(title, caption, heads, lambda _: rows, names)] if rows else []


Further = Callable[[Results], Mapping[str, Sequence[Shown]]]
"""Returns further cells of an arm's first row, by its name."""


def scores_of(
    caption: str = CAPTION, heads: Sequence[Column] = (), further: Further = lambda _: {}, names: str = "Arm"
) -> Listing:
    """Return the table of scores: every arm on the test split, or at its last validation, then the baselines."""
    return Listing(
        "Scores",
        caption,
        lambda results: (*_heads(next(iter(label_arms(results).values()))), *heads),
        lambda results: _score_rows(list(label_arms(results).values()), len(heads), further(results)),
        names,
    )


def _heads(arm: LabelArm) -> tuple[str, ...]:
    recalls, shares = ([f"{kind}|{label}" for label in arm.first.labels] for kind in ("recall", "share"))
    chance = f"balanced accuracy|chance {arm.chance:.3f}" if arm.first.labels else "balanced accuracy"
    scores, form = ("accuracy", "macro-F1", chance, "min recall"), ("valid JSON", "exact form", "invalid rate")
    return ("n", *scores, *recalls, *form, *shares)


def _score_rows(arms: Sequence[LabelArm], width: int, further: Mapping[str, Sequence[Shown]]) -> list[Row]:
    arms = _alike(arms)
    recalls, shares = ([f"{kind}/{label}" for label in arms[0].first.labels] for kind in ("recall", "predicted_share"))
    scores = ("label_match", "macro_f1", "balanced_accuracy", "min_class_recall", *recalls)
    keys = (*scores, *_FORM, *shares)
    rows: list[Row] = []
    for arm in arms:
        rate = "" if arm.tuned is None or arm.tuned.rate is None else f", rate {arm.tuned.rate:g}"
        for place, (split, system) in enumerate(arm.systems.items()):
            split_name = f"{system.name}{', the last one' if split in EVALUATIONS else ''}"
            is_offset = split is Split.TEST_OFFSET
            label = f"{arm.name}{OFFSETS if is_offset else ''}|"
            name = f"{split_name[:1].upper()}{split_name[1:]}|" if len(arms) == 1 else f"{label}{split_name}, "
            end = "" if is_offset else rate
            more = [""] * width if place else further.get(arm.arm.name, [None] * width)
            cells = (system.measures.get(key) for key in keys)
            rows.append([f"{name}{system.what}{end}", _count(system), *cells, *more])
            lenient = _lenient(arm, split) if len(arm.reads) == 1 else {}
            if lenient:
                cells = (lenient.get(key, "") for key in keys)
                named = f"{name.partition('|')[0]}|read leniently: text around the JSON forgiven{end}"
                rows.append([named, "", *cells, *[""] * width])
    for system in baselines_of(arms):
        known = (system.measures.get(key) if key in scores else "n/a" for key in keys)
        rows.append([f"{system.name}|{system.what}", _count(system), *known, *["n/a"] * width])
    return rows


def standings_of(*arms: str) -> Listing:
    """Return the table of arms' differences to the baselines of their slice."""

    def rows(results: Results) -> list[list[Shown]]:
        found = label_arms(results)
        return standing_rows([found[name] for name in arms or found], results.draws.claims)

    caption = "macro-F1 on the test split, sampled, less a baseline's: a difference without any gate."
    return Listing("Against the baselines", caption, ("Baseline", apart("difference"), "Finding"), rows)


def progress_of(*arms: str) -> Curves:
    """Return validation scores of arms over their steps, with bands from the lowest seed to the highest."""

    def read(results: Results) -> list[CurveRecord]:
        named = {arm.name: arm for name, arm in label_arms(results).items() if name in arms}
        return [
            curve(f"{title}, validation", metric, {name: (arm, metric) for name, arm in named.items()})
            for metric, title in PROGRESS.items()
        ]

    return Curves(read)


def curve(label: str, name: str, lines: Mapping[str, tuple[LabelArm, str]]) -> CurveRecord:
    """Return metrics of arms over their steps, by name of the line: means over seeds, with the lowest and highest."""
    found = {line: _band([run.metrics for run in arm.runs], key) for line, (arm, key) in lines.items()}
    return CurveRecord.of(name.replace("/", "-"), label, found, shares=True)


def _band(runs: Sequence[Mapping[int, Metrics]], key: str) -> dict[int, Measure]:
    known = {step: [rows.get(step, {}).get(key) for rows in runs] for step in runs[0]}
    whole = {step: [one for one in some if one is not None] for step, some in known.items() if None not in some}
    return {
        step: Measure(sum(some) / len(some), *((min(some), max(some)) if len(some) > 1 else ()))
        for step, some in whole.items()
    }


def settings_of(arms: Mapping[str, LabelArm]) -> dict[str, object]:
    """Return the settings that decided the results: the common ones, and each arm's own."""
    own = {name: seedless(arm.config.settings) for name, arm in arms.items()}
    first = next(iter(own.values()))
    found = {key: value for key, value in first.items() if all(one.get(key) == value for one in own.values())}
    differing = {f"{name}.{key}": value for name, one in own.items() for key, value in one.items() if key not in found}
    return {**found, **differing}


def baselines_of(arms: Sequence[LabelArm]) -> list[System]:
    """Return the baselines of the first slice that has any."""
    return baseline_systems(next((arm.first.baselines for arm in arms if arm.first.baselines), None))


def _panels(results: Results) -> tuple[list[str], list[Panel]]:
    arms = _alike(list(label_arms(results).values()))
    rows: dict[str, Mapping[str, Measure]] = {}
    for arm in arms:
        for place, (split, one) in enumerate(arm.systems.items()):
            if place == 0 or split is Split.TEST_OFFSET:
                rows[f"{arm.name}{OFFSETS if place else ''}"] = one.measures
    rows |= {one.name: one.measures for one in baselines_of(arms)}
    found = [
        Panel(title=title, before=(), after=tuple(one.get(key) for one in rows.values()))
        for key, title in _PANELS.items()
    ]
    return list(rows), found if rows else []


PICTURE: Final = Points(_panels)
"""The first system of every arm, decisions with offsets, and the baselines."""


def _count(one: System) -> str:
    return "not known" if one.num_items is None else f"{one.num_items:,}"


def _lenient(arm: LabelArm, split: Split) -> dict[str, Measure]:
    """Return a run's last lenient scores: with thoughts, fences and text around the JSON ignored."""
    prefix = f"{split}/lenient_"
    rows = [row for row in arm.first.metrics.values() if row.get(f"{prefix}macro_f1") is not None]
    found = rows[-1].items() if rows and split in (Split.TEST, Split.EVAL) else ()
    return {key.removeprefix(prefix): Measure(one) for key, one in found if key.startswith(prefix) and one is not None}


def _evaluations(member: LabelRun) -> list[Listing]:
    run = member.run
    selected = run.manifest.selected.step if run.manifest and run.manifest.selected else None
    classes = [(kind, label) for kind in ("predicted_share", "recall") for label in run.labels]
    keys = ("eval/label_match", "eval/macro_f1", "eval_greedy/macro_f1", *(f"eval/{k}/{label}" for k, label in classes))
    keys = (*keys, "eval/min_class_recall", "eval/label_mi", "eval/parse_ok")
    by_class = [f"{kind.removeprefix('predicted_')}|{label}" for kind, label in classes]
    heads = ("n", "accuracy", "macro-F1", "macro-F1|greedy", *by_class, "min recall", "label MI|nats", "valid JSON")
    rows: list[Row] = []
    for step, metrics in run.metrics.items():
        if metrics.get("eval/label_match") is None:
            continue
        evaluation = member.evaluations.get((Split.EVAL, step))
        ends = evaluation.estimates(BOOTSTRAP) if evaluation else {}
        tags = ["selected"] if step == selected else []
        tags += [f"A{place}" for place, alarm in enumerate(run.alarms, start=1) if alarm.step == step]
        row: Row = [f"{step}|{', '.join(tags)}", f"{len(evaluation.answers):,}" if evaluation else None]
        for key in keys:
            value, found = metrics.get(key), ends.get(key.removeprefix("eval/"))
            row.append(None if value is None else within(value, found and found.interval))
        rows.append(row)
    caption = "Validation split, sampled: the policy before that update. A: number of an alarm."
    return listing("Evaluations", caption, heads, rows, "Step")


def _confusion(arms: Sequence[LabelArm]) -> list[Listing]:
    rows: list[Row] = []
    for arm in arms:
        for split in (one for one in arm.systems if one in _SHOWN):
            answers = arm.answers_on(split)
            if answers is None:
                continue
            what = f"{SPLIT_WORDS[split]}{f', {answers.num_seeds} seeds together' if answers.num_seeds > 1 else ''}"
            for label, row in zip(arm.first.labels, answers.counts().sum(axis=0).tolist(), strict=True):
                total = sum(row) or 1
                name = f"{label}|{f'{arm.name}: ' if len(arms) > 1 else ''}{what}"
                rows.append([name, *(f"{count:,} ({100 * count / total:.0f} %)" for count in row)])
    caption = "Rows are true labels: answers, and their share of the row."
    return listing("Confusion", caption, (*arms[0].first.labels, "invalid"), rows, "True label")


def _confidence(arms: Sequence[LabelArm]) -> list[Listing]:
    levels = (head for word, p in STATED.items() for head in (f"{word} ({p:g})|share right", f"{word}|papers"))
    heads = (*levels, "states none", "ECE", "Brier", "NLL|nats")
    rows: list[Row] = []
    for arm in arms:
        for member, split in ((m, one) for m in arm.reads for one in arm.systems if one in _SHOWN):
            evaluation, run = member.last(split), f"{arm.name}, seed {member.run.config.seed}|"
            if evaluation is None:
                continue
            stated = [one.confidence if one.predicted is not None else None for one in evaluation.answers]
            right = [one.predicted == one.gold for one in evaluation.answers]
            if not {*stated} <= {None, *STATED}:
                rows.append([f"{run}{SPLIT_WORDS[split]}", "cannot be read", *[None] * (len(heads) - 1)])
            elif any(stated):
                levels = [[r for one, r in zip(stated, right, strict=True) if one == word] for word in STATED]
                shares = [_share(sum(one), len(one)) if one else "never stated" for one in levels]
                cells = [cell for share, one in zip(shares, levels, strict=True) for cell in (share, f"{len(one):,}")]
                errors = calibration(stated, right)
                name = f"{run if len(arms) > 1 else ''}{SPLIT_WORDS[split]}"
                left_out = f"{stated.count(None):,}"
                rows.append([name, *cells, left_out, *(Measure(errors[key]) for key in ("ece", "brier", "nll"))])
    caption = (
        "Share of right answers by the confidence that was stated; the words are read as the probabilities in "
        "brackets. Lower errors are better."
    )
    return listing("Stated confidence", caption, heads, rows, "Answers")


def _share(right: int, items: int) -> Measure:
    return within(right / items, wilson(right, items))


def _alarms(arms: Sequence[LabelArm]) -> list[Listing]:
    rows: list[Row] = [
        [
            f"A{place}",
            f"{arm.name}, seed {member.run.config.seed}",
            alarm.words,
            None if alarm.step is None else f"{alarm.step:,}",
            *(None if one is None else Measure(one) for one in (alarm.value, alarm.threshold)),
        ]
        for arm in arms
        for member in arm.reads
        for place, alarm in enumerate(member.run.alarms, start=1)
    ]
    heads = ("Run", "Message", "step", "value", "limit")
    return listing("Alarms", "Of the collapse monitors.", heads, rows, "Alarm")


def _experiments(arms: Sequence[LabelArm]) -> list[Listing]:
    """Return every experiment with its question and own changes, below its parent if present."""
    rows: list[Row] = []
    for depth, arm in by_descent(arms):
        config = arm.config
        changes, by_hand = (
            "; ".join(f"{key} = {_setting(key, value)}" for key, value in some if key != "seed")
            for some in (config.delta.items(), sorted(config.overrides.items()))
        )
        status = "; ".join(sorted({status_words(member.run) for member in arm.reads}))
        parent = next((one.name for one in arms if one.config.name == arm.parent), config.parent or "none")
        cells = (config.question or "not stated", parent, changes or "nothing: a beginning", by_hand)
        name = f"{_BELOW * depth}{arm.name}|{config.title}, {config.kind.words}"
        rows.append([name, *cells, arm.seed_words(), status])
    heads = ("Question", "Parent", "Changes", "Set by hand", "Seeds", "Status")
    return listing("Experiments", "Each below its parent.", heads, rows, "Experiment")


def _setting(key: str, value: object) -> str:
    return reward_name(shown(value)) if key == "reward" else setting_text(key, shown(value))


def _runs(arms: Sequence[LabelArm]) -> list[Listing]:
    rows: list[Row] = [
        [
            member.run.folder.name,
            arm.name,
            "unknown" if member.run.config.seed is None else str(member.run.config.seed),
            f"{status_words(member.run)}, {steps_words(member.run)}",
            member.run.config.identity_sha256[:16] or "missing",
            f"{sum(member.failures.values()):,}",
        ]
        for arm in arms
        for member in arm.reads
    ]
    return listing("Runs", "", ("Arm", "seed", "Status", "Identity", "failed rollouts"), rows, "Run")


def last_of_both(members: Mapping[str, LabelRun], split: Split) -> Evaluations | None:
    """Return the last evaluation on a split, of all labels together."""
    found = {name: one.evaluations for name, one in members.items()}
    scored = set[tuple[str, int]].intersection(*(set(each) for each in found.values()))
    steps = [step for name, step in scored if name == split]
    return Evaluations({name: each[split, max(steps)] for name, each in found.items()}) if steps else None


def both_rows(members: Mapping[str, LabelRun]) -> list[Row]:
    """Return the exact-match rates of the run, of constants, of the prior and of the slice's baselines."""
    tested = last_of_both(members, Split.TEST)
    splits = _TESTS if tested is not None else EVALUATIONS
    known = {split: one for split in splits if (one := last_of_both(members, split)) is not None}
    rows: list[Row] = [
        _scored(f"{SPLIT_WORDS[split][:1].upper()}{SPLIT_WORDS[split][1:]}", one) for split, one in known.items()
    ]
    first = next(iter(known.values()), None)
    if first is not None:
        blank = ["n/a"] * (2 + len(members))
        golds = list(zip(*([answer.gold for answer in one.answers] for one in first.tasks.values()), strict=True))
        # Chosen on the very papers it is scored on: no constant can be better.
        labels, count = max(Counter(golds).items(), key=lambda each: (each[1], each[0]))
        name = f"Best constant pair|always {' and '.join(labels)}, chosen in hindsight"
        rows.append([name, f"{len(golds):,}", _share(count, len(golds)), *blank])
        prior = None if tested is None else _prior(members, golds)
        if prior is not None:
            name = "Prior|a guess by the training shares, label by label; expected value"
            rows.append([name, f"{len(golds):,}", Measure(prior), *blank])
    for baseline in Baseline if tested is not None else ():
        answers = {name: one.run.baseline_answers.get(baseline, {}) for name, one in members.items()}
        answered = {name: _answered(one, answers[name]) for name, one in (tested.tasks if tested else {}).items()}
        whole = {name: one for name, one in answered.items() if one is not None}
        if len(whole) == len(members):
            rows.append(_scored("|".join(BASELINE_WORDS[baseline]), Evaluations(whole)))
    return rows


def _scored(name: str, one: Evaluations) -> Row:
    alone = [each.estimates(BOOTSTRAP, ("label_match",))["label_match"] for each in one.tasks.values()]
    figures = (*one.agreement(BOOTSTRAP), *alone)
    return [name, f"{one.num_items:,}", *map(from_estimate, figures)]


def _prior(members: Mapping[str, LabelRun], golds: list[tuple[str, ...]]) -> float | None:
    """Return the exact-match rate of guessing by the training shares; None if these are unknown."""
    reports = [one.run.baselines for one in members.values()]
    shares = [{k: v / sum(one.train.values()) for k, v in one.train.items()} for one in reports if one]
    if len(shares) < len(reports):
        return None
    return fsum(prod(each[one] for each, one in zip(shares, some, strict=True)) for some in golds) / len(golds)


def _answered(tested: Evaluation, predicted: Mapping[str, str]) -> Evaluation | None:
    if any(one.item not in predicted for one in tested.answers):
        return None
    answers = (
        Answered(item=one.item, gold=one.gold, predicted=predicted[one.item], outcome=Outcome.OK.value, parse_ok=True)
        for one in tested.answers
    )
    return Evaluation(tested.labels, tuple(answers))
