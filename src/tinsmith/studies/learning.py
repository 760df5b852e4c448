"""Supervised training, RL, and one after the other, on any task, beside their controls on shuffled labels.

    tinsmith run study/learning task=FILE.py [key=value ...]
    tinsmith run study/taste | study/instructions | study/reasoning [key=value ...]

Effort is counted in training items that are looked at, again where they come again: SFT reads an item's right answer,
RL samples a group of answers to it and learns what each earns, SFT then RL does half of each. Tokens and time differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import tinsmith as ts
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.study.checks import no_gain
from tinsmith.lab.study.keys import GENERATOR, StudyKey, count, learning_rates
from tinsmith.lab.study.record import Column
from tinsmith.lab.study.sizes import Request
from tinsmith.lab.study.study import Curves, Points
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.studies.effort import (
    CONTROLS,
    GAIN_HEADS,
    LABELS,
    REWARD,
    RL,
    SFT,
    THEN,
    ZERO,
    Learning,
    all_gains,
    answers_side_by_side,
    arms_of,
    baselines,
    efforts_of,
    ends_and_baselines,
    forgotten,
    method_of,
    sizes_of,
)
from tinsmith.types.errors import ConfigError


def with_arms(study: ts.Study, request: Request) -> ts.Study:
    """Return the study of what is learned of the task that is asked for."""
    given, own = request.given, request.own

    def first(key: str) -> dict[str, float]:
        return {"learning_rate": learning_rates(key, own[key])[0]} if own[key] else {}

    counts = {key: given[key] for key in ("steps", "groups_per_batch") if key in given}
    plan = request.plan({"sft_steps": 0, **counts, **first("rl_rates")})
    settings, entry = plan.settings, plan.experiment.subject
    assert isinstance(settings, RlSettings)
    assert isinstance(entry, UserTaskEntry)
    task = entry.task_of(plan)
    names = arms_of(own["arms"])
    if "arms" not in given and task.answer is None:
        names = [name for name in names if method_of(name) == RL]
    batch = count("batch_size", own["batch_size"] or str(settings.groups_per_batch), 1)
    efforts = efforts_of(settings.steps, settings.groups_per_batch, batch)
    by_example = settings
    if any(method_of(name) != RL for name in names):
        by_example = request.plan(first("sft_rates"), Kind.TASK_SFT).settings
    usual = {SFT: by_example.learning_rate, RL: settings.learning_rate}
    rates = {name: learning_rates(f"{name}_rates", own[f"{name}_rates"] or repr(one)) for name, one in usual.items()}
    for name, found in rates.items():
        if len(found) > 1 and name not in names:
            fix = f"name one rate, or add {name} to arms"
            what = f"of several learning rates the arm {name} chooses one"
            raise ConfigError(what, field=f"{name}_rates", value=own[f"{name}_rates"], fix=fix)
    looks, sizes = count("looks", own["looks"], 1), sizes_of(own["sizes"])
    apart = {name: name for name in task.rewards if name not in task.metrics} if len(task.rewards) > 1 else {}
    metrics = {name: f"metric/{name}" for name in task.metrics}
    measures = {REWARD: "total", **apart, **metrics}
    if own["score"] not in (REWARD, *metrics):
        allowed = [REWARD, *metrics]
        raise ConfigError("the task has no such metric", field="score", value=own["score"], allowed=allowed)
    score = ts.PerItem(own["score"], own["score"], measures[own["score"]])
    one = Learning(names=names, efforts=efforts, rates=rates, looks=looks, score=score, measures=measures)
    controls = [name for name in names if name not in CONTROLS]
    missing = [LABELS[name] for name in names if name in CONTROLS and CONTROLS[name] not in names]
    return replace(
        study,
        title=f"What is learned of {plan.experiment.name}",
        question=plan.experiment.question,
        arms=[one.arm(name, items) for items in (0, *sizes) for name in names],
        score=score,
        effort=one.looked_at,
        claims=one.claims,
        expectations=[ts.Expectation(f"{LABELS[name]}: no gain is shown", no_gain(name)) for name in controls],
        tables=tables(one, has_sizes=bool(sizes)),
        pictures=(
            Points(lambda results: ends_and_baselines(results, score)),
            ts.Curve(name="seen", label=score.label, read=one.over_items, axis="training items looked at"),
            Curves(one.sizes_drawn),
        ),
        notes=[
            *study.notes,
            *([f"Without a control on shuffled labels here: {', '.join(missing)}."] if missing else []),
        ],
    )


def tables(one: Learning, *, has_sizes: bool) -> list[ts.Listing]:
    """Return the tables of the page."""
    sized = ts.Listing(
        "Over the items there are",
        "Held-out items, sampled, after training that looks at as many items however few there are.",
        ("items|to train on", one.score.label),
        lambda results: [[label, f"{size:,}", value] for label, size, value in one.by_size(results)],
    )
    return [
        ts.Listing(
            "Effort",
            "What each run of an arm looks at; rollouts that failed have no reward and are in no mean.",
            ("items looked at", "by example", "by reward", "steps", "failed rollouts|of all seeds"),
            one.effort_rows,
        ),
        ts.Listing(
            "All measures",
            "Means over seeds and held-out items, 95 % intervals over both. p is corrected by Holm: the score, "
            "sampled, over the arms, and all other measures together.",
            GAIN_HEADS,
            lambda results: all_gains(results, one.measures),
        ),
        ts.Listing(
            "Baselines", "Answers without a model.", (one.score.label,), lambda results: baselines(results, one.score)
        ),
        *([sized] if has_sizes else []),
        ts.Listing(
            "Forgetting",
            "Mean log-probability of a token of general texts (watch_forgetting=true), after training less before, in "
            "nats: below 0 is forgotten. 95 % intervals over seeds and texts.",
            ("texts", Column(head="change|nats a token", form="+.3f", missing="not known")),
            forgotten,
        ),
    ]


study = ts.Study(
    name="study/learning",
    question="What do supervised training, RL, and one after the other teach of a task, at equal effort?",
    task="",
    arms=(),
    complete=with_arms,
    own=(
        StudyKey("task", "", "Task to train on: FILE.py, or a packaged task such as reasoning_gym."),
        GENERATOR,
        StudyKey("out", "", "Folder of the study; empty: runs/study-learning-TASK[-GENERATOR]."),
        StudyKey(
            "arms",
            f"{ZERO},{SFT},{RL},{THEN},shuffled",
            f"Arms, of {', '.join((ZERO, *LABELS))}; a task without right answers has RL alone.",
        ),
        StudyKey("score", REWARD, "Score of the claims: reward, or one of the task's metrics."),
        StudyKey("steps", "", "Steps of RL; empty: the task's."),
        StudyKey("groups_per_batch", "", "Items per step of RL; empty: the task's."),
        StudyKey("batch_size", "", "Items per supervised step; SFT takes as many steps as it needs. Empty: as RL."),
        StudyKey("sft_rates", "", "Learning rates to try in supervised steps; empty: the task's."),
        StudyKey("rl_rates", "", "Learning rates to try in RL; empty: the task's."),
        StudyKey("looks", "4", "Evaluations per run after the first one."),
        StudyKey("sizes", "", "Numbers of training items to compare, such as 200,800; each arm is trained with each."),
    ),
    fixed=frozenset(["train_items", "sft_steps", "sft_learning_rate", "sft_batch_size"]),
    keys={"split_seed": 0, "watch_forgetting": True},
    sizes={"nano": ts.Size(seeds=(1, 2, 3))},
    examples=answers_side_by_side,
    notes=("Effort is counted in training items that are looked at; tokens and seconds are not equal.",),
)


def of_task(task: str, score: str) -> ts.Study:
    """Return the study of what is learned of a packaged task."""
    defaults = {"task": task, "score": score}
    own = [replace(key, default=defaults.get(key.name, key.default)) for key in study.own]
    return replace(study, task=task, own=own)


taste: Final = of_task("taste", "right")
instructions: Final = of_task("instructions", "instruction_strict")
reasoning: Final = of_task("reasoning_gym", "solved")
