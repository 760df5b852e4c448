"""Results of `tinsmith analyse` as tables, sentences and JSON: optimal policies of rewards, and counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from tinsmith.cli.analyse.inputs import LABELS, STATED_N, seed_exp5, seed_ladder
from tinsmith.cli.columns import figures_table, open_console
from tinsmith.lab.labels.rewards import REWARDS, make_reward, reward_optimum
from tinsmith.lab.labels.task import TASKS, Task
from tinsmith.stats.consistency import CountRange, Recovery, ReportedTable, Solution, recover
from tinsmith.stats.incentives import (
    Optimum,
    Policy,
    Posteriors,
    Sensitivity,
    best_deterministic,
    best_policy,
    sensitivity,
    table_optimum,
)
from tinsmith.stats.intervals import wilson
from tinsmith.stats.rates import ClassMetric, FloatArray, Metric, collapsed_macro_f1
from tinsmith.types.errors import ConfigError

WEIGHTS = (1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0)
_LISTED_KINDS = 64
_PLAIN = "strong"


@dataclass(frozen=True, slots=True)
class Survey:
    """Rewards, the best policies for the scores themselves, and class weights."""

    rewards: tuple[tuple[str, Optimum], ...]  # By name.
    best: tuple[tuple[str, Policy], ...]
    turning_of: str  # The reward whose class weights are turned.
    turning: Sequence[tuple[Sensitivity, tuple[float, ...]]]
    """Each label's share of the optimum, and the macro-F1 at each of WEIGHTS, by its class weight."""


def survey(
    posteriors: Posteriors, names: tuple[str, ...], matrix: FloatArray | None, settings: Mapping[str, object]
) -> Survey:
    """Analyse the named rewards (default: all), or one table."""
    if matrix is not None:
        rewards = (("matrix", table_optimum(posteriors, matrix)),)
    else:
        task = _task(posteriors)
        if settings and len(names) != 1:
            allowed = "exactly one --reward with --set or --class-weight"
            raise ConfigError("settings belong to one reward", field="--reward", value=names, allowed=allowed)
        rewards = tuple((name, _optimum(name, task, posteriors, settings)) for name in names or REWARDS)
    tables = {name: optimum for name, optimum in rewards if not optimum.reacts}
    plain = _PLAIN if _PLAIN in tables else next(iter(tables), "")
    turning = _turning(posteriors, tables[plain].matrix) if plain else ()
    return Survey(rewards, _best(posteriors), plain, turning)


def survey_value(posteriors: Posteriors, survey: Survey) -> dict[str, object]:
    """Return the survey as values of JSON; policies are listed where there are at most 64 kinds of papers."""
    return {
        "labels": posteriors.labels,
        "kinds": posteriors.num_kinds,
        "prior": dict(zip(posteriors.labels, posteriors.prior.tolist(), strict=True)),
        "rewards": [
            {
                "name": name,
                **_scores(one.policy),
                "greedy": _scores(one.greedy),
                **{key: getattr(one, key) for key in ("reward", "gap", "dead", "ruling", "resting_collapses")},
                "other_rests": [_scores(other) for other in one.others],
                "warnings": one.warnings(),
            }
            for name, one in survey.rewards
        ],
        "best": [{"name": name, **_scores(policy)} for name, policy in survey.best],
        "class_weights": [
            {
                "reward": survey.turning_of,
                "label": turns.label,
                "window": [_finite(end) for end in turns.window],
                "weights": WEIGHTS,
                "predicted_share": [turns.share_at(w) for w in WEIGHTS],
                "macro_f1": macro_f1,
            }
            for turns, macro_f1 in survey.turning
        ],
    }


def _task(posteriors: Posteriors) -> Task:
    for task in TASKS.values():
        if task.labels == posteriors.labels:
            return task
    what = "rewards with a name are only defined for a task's labels"
    allowed = "; ".join(", ".join(task.labels) for task in TASKS.values())
    fix = "give the reward as a table: --matrix FILE.json"
    raise ConfigError(what, field="labels", value=posteriors.labels, allowed=allowed, fix=fix)


def _optimum(name: str, task: Task, posteriors: Posteriors, settings: Mapping[str, object]) -> Optimum:
    given = dict(settings)
    if name in REWARDS and "prior" in REWARDS[name].settings:
        given["prior"] = dict(zip(posteriors.labels, posteriors.prior.tolist(), strict=True))
    return reward_optimum(posteriors, lambda: make_reward(name, task, **given))


def _best(posteriors: Posteriors) -> tuple[tuple[str, Policy], ...]:
    names = {Metric.LABEL_MATCH: "accuracy", Metric.MACRO_F1: "macro_f1", Metric.G_MEAN: "g_mean"}
    plain = (Metric.MACRO_F1, Metric.MIN_CLASS_RECALL, Metric.G_MEAN)
    rules = {metric: best_deterministic(posteriors, metric) for metric in plain}
    return (
        *((f"highest {name}", best_policy(posteriors, metric)) for metric, name in names.items()),
        *((f"{metric.value}, plain rule", rule) for metric, rule in rules.items() if rule is not None),
    )


def _turning(posteriors: Posteriors, matrix: FloatArray) -> list[tuple[Sensitivity, tuple[float, ...]]]:
    def score(y: int, weight: float) -> float:
        weighted = matrix.copy()
        weighted[y] *= weight
        return table_optimum(posteriors, weighted).policy.score(Metric.MACRO_F1)

    return [
        (turns, tuple(score(y, weight) for weight in WEIGHTS))
        for y, label in enumerate(posteriors.labels)
        if (turns := sensitivity(posteriors, matrix, label)) is not None
    ]


def _scores(policy: Policy) -> dict[str, object]:
    def by_label(metric: ClassMetric) -> dict[str, float | None]:
        values = policy.class_score(metric).tolist()
        return {label: _finite(value) for label, value in zip(policy.labels, values, strict=True)}

    scores: dict[str, object] = {
        "accuracy": policy.score(Metric.LABEL_MATCH),
        "macro_f1": policy.score(Metric.MACRO_F1),
        "min_class_recall": policy.score(Metric.MIN_CLASS_RECALL),
        "recall": by_label(ClassMetric.RECALL),
        "predicted_share": by_label(ClassMetric.PREDICTED_SHARE),
    }
    if len(policy.probabilities) <= _LISTED_KINDS:
        scores["policy"] = policy.probabilities.tolist()
    return scores


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_SHOWN_KINDS = 6
_SHOWN_SOLUTIONS = 20
_KNIFE_EDGE = 1.5
_WIDE = 110  # Columns of text from which on the tables show everything.


def print_survey(posteriors: Posteriors, survey: Survey, source: str) -> None:
    """Print the optimum of each reward, and the warnings."""
    console, short = open_console(), _short(posteriors.labels)
    console.print(
        f"{posteriors.num_kinds:,} kinds of papers from {source}; "
        f"{', '.join(f'{letter} {label}' for label, letter in short.items())}; priors {_slashed(posteriors.prior)}\n",
        soft_wrap=True,
    )
    rules = posteriors.num_kinds <= _SHOWN_KINDS and console.width >= _WIDE
    slashes = "/".join(short.values())
    heads = ("acc", "macro-F1", f"recall {slashes}", f"share {slashes}", "greedy F1")
    table = figures_table("reward makes optimal", *(["answers to each kind"] if rules else []), *heads)
    if rules:
        table.columns[1].justify = "left"
    for name, optimum in survey.rewards:
        greedy = optimum.greedy.score(Metric.MACRO_F1)
        table.add_row(name, *_cells(optimum.policy, short, rules), f"{greedy:.3f}")
    table.add_row("")
    for name, policy in survey.best:
        table.add_row(name, *_cells(policy, short, rules), "")
    console.print(table)
    for name, optimum in survey.rewards:
        for warning in optimum.warnings():
            console.print(f"! {name}: {warning}", soft_wrap=True)
    if survey.turning:
        _print_turning(console, survey)


def _print_turning(console: Console, survey: Survey) -> None:
    wide = console.width >= _WIDE
    console.print(
        f"\n{survey.turning_of}, every paper of a label counted several times: the label's share of the "
        f"optimum's answers{' and the macro-F1' if wide else ''}",
        soft_wrap=True,
    )
    table = figures_table("label", *(f"x{weight:g}" for weight in WEIGHTS))
    for turns, macro_f1 in survey.turning:
        cells = [
            f"{turns.share_at(weight):.2f}" + (f" {f1:.3f}" if wide else "")
            for weight, f1 in zip(WEIGHTS, macro_f1, strict=True)
        ]
        table.add_row(turns.label, *cells)
    console.print(table)
    for turns, _ in survey.turning:
        low, high = turns.window
        if math.isfinite(high) and turns.width < _KNIFE_EDGE:
            console.print(
                f"! {turns.label} goes from a tenth to nine tenths of the answers between the "
                f"weights {low:.3g} and {high:.3g}: a fixed class weight is a knife-edge here",
                soft_wrap=True,
            )


def print_recovery(table: ReportedTable, recovery: Recovery) -> None:
    """Print every solution with the counts of each line, or why there is none."""
    console = open_console()
    sample_size = f"n = {table.n}" if table.n else f"n from {recovery.tried[0]} to {recovery.tried[1]}"
    if not recovery.solutions:
        console.print(f"no integer solution with {sample_size}: no such items can print as these rates")
        for reason in recovery.reasons:
            console.print(f"  {reason}", soft_wrap=True)
        return
    more = " or more" if recovery.truncated else ""
    if len(recovery.solutions) == 1:
        console.print(f"one solution with {sample_size}")
        _print_solution(console, recovery.columns, recovery.solutions[0])
        return
    console.print(f"{len(recovery.solutions)}{more} solutions with {sample_size}")
    listed = figures_table("n", *recovery.columns)
    for solution in recovery.solutions[:_SHOWN_SOLUTIONS]:
        listed.add_row(str(solution.n), *map(str, solution.sizes))
    console.print(listed)
    left = len(recovery.solutions) - _SHOWN_SOLUTIONS
    if left > 0:
        console.print(f"and {left}{more} others; --json lists them")


def _print_solution(console: Console, columns: Sequence[str], solution: Solution) -> None:
    sizes = ", ".join(f"{size} {column}" for size, column in zip(solution.sizes, columns, strict=True))
    console.print(f"n = {solution.n}: {sizes}", soft_wrap=True)
    slashes = "/".join(_short(columns).values())
    table = figures_table("line", f"right {slashes}", "right", "accuracy [95 %]", f"answers {slashes}", "invalid")
    for line in solution.lines:
        right, answers = (" ".join(map(str, counts)) for counts in (line.correct, line.answered))
        low, high, n = line.total.low, line.total.high, solution.n
        accuracy = f"{low / n:.3f} {wilson(low, n)}" if low == high else f"{low / n:.3f}-{high / n:.3f}"
        table.add_row(line.name, right, str(line.total), accuracy, answers, str(line.invalid))
    console.print(table)


def recovery_value(table: ReportedTable, recovery: Recovery) -> dict[str, object]:
    """Return all solutions as values of JSON; a count that is not certain is a pair of ends."""
    return {
        "labels": table.labels,
        "n": table.n,
        "tried_n": recovery.tried,
        "columns": recovery.columns,
        "truncated": recovery.truncated,
        "reasons": recovery.reasons,
        "solutions": [
            {
                "n": solution.n,
                "sizes": dict(zip(recovery.columns, solution.sizes, strict=True)),
                "lines": [
                    {
                        "name": line.name,
                        "right": dict(zip(recovery.columns, map(_ends, line.correct), strict=True)),
                        "right_in_all": _ends(line.total),
                        "said": dict(zip(recovery.columns, map(_ends, line.answered), strict=True)),
                        "invalid": _ends(line.invalid),
                    }
                    for line in solution.lines
                ],
            }
            for solution in recovery.solutions
        ],
    }


def _ends(count: CountRange) -> int | list[int]:
    return count.low if count.certain else [count.low, count.high]


def _cells(policy: Policy, short: dict[str, str], shown: bool) -> list[str]:
    cells = [
        f"{policy.score(Metric.LABEL_MATCH):.3f}",
        f"{policy.score(Metric.MACRO_F1):.3f}",
        _slashed(policy.class_score(ClassMetric.RECALL)),
        _slashed(policy.class_score(ClassMetric.PREDICTED_SHARE)),
    ]
    return [_answers(policy, short), *cells] if shown else cells


def _answers(policy: Policy, short: dict[str, str]) -> str:
    """Return "c n c n", or ".66d+.34c" for a kind with several answers."""
    names = list(short.values())
    kinds: list[str] = []
    for row in policy.probabilities.tolist():
        answers = [(share, name) for share, name in zip(row, names, strict=True) if share >= 0.005]
        if len(answers) == 1:
            kinds.append(answers[0][1])
        else:
            kinds.append("+".join(f"{share:.2f}"[1:] + name for share, name in answers))
    return " ".join(kinds)


def _short(labels: Sequence[str]) -> dict[str, str]:
    """Return the labels' first letters, or numbers where those are not distinct."""
    letters = [label[0] for label in labels]
    names = letters if len(set(letters)) == len(labels) else [f"#{i}" for i in range(len(labels))]
    return dict(zip(labels, names, strict=True))


def _slashed(values: FloatArray) -> str:
    return "/".join("-" if math.isnan(value) else f"{value:.2f}" for value in values.tolist())


def print_seeds() -> None:
    """Print both tables' counts, and the conclusions."""
    console = open_console()
    console.print(f"Baseline to Exp4, as stated on the same {STATED_N} papers")
    ladder, recovery = seed_ladder(), recover(seed_ladder())
    print_recovery(ladder, recovery)
    for sentence in _ladder_sentences(recovery.solutions[0]):
        console.print(f"! {sentence}", soft_wrap=True)
    console.print(f"\nExp5, as stated on the same {STATED_N} papers")
    print_recovery(seed_exp5(STATED_N), recover(seed_exp5(STATED_N)))
    console.print("\nExp5, any number of papers")
    anywhere = recover(seed_exp5())
    print_recovery(seed_exp5(), anywhere)
    for sentence in _exp5_sentences(anywhere.solutions[0], recovery.solutions[0]):
        console.print(f"! {sentence}", soft_wrap=True)


def seeds_value() -> dict[str, object]:
    """Return the three searches as values of JSON."""
    tables = {"ladder": seed_ladder(), "exp5_as_stated": seed_exp5(STATED_N), "exp5": seed_exp5()}
    return {name: recovery_value(table, recover(table)) for name, table in tables.items()}


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
        f"{line.name.removeprefix('Exp5 ')} {line.correct[0].low / line.answered[0].low:.4f}" for line in solution.lines
    )
    return [
        f"not the same papers as Baseline to Exp4: {solution.n} of them, {size} {LABELS[0]}, "
        f"against {ladder.n} and {ladder.sizes[0]}",
        f"precision on {LABELS[0]} against its share {prior:.4f} of the papers: {precision}",
        f"always answering {LABELS[0]} has macro-F1 {collapsed_macro_f1(prior, len(LABELS)):.4f}: "
        "the last line is that",
    ]
