"""Supervised training, RL, and one after the other, on any task, beside their controls on shuffled labels.

    tinsmith run study/learning task=FILE.py [key=value ...]
    tinsmith run study/taste | study/instructions | study/reasoning [key=value ...]

Effort is counted in training items that are looked at, again where they come again: SFT reads an item's right answer,
RL samples a group of answers to it and learns what each earns, SFT then RL does half of each. Tokens and time differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import tinsmith as ts
from tinsmith.lab.page.examples import shown_replies
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.study.checks import no_gain
from tinsmith.lab.study.keys import GENERATOR, StudyKey, count, learning_rates, numbers
from tinsmith.lab.study.measures import corrected, ends_of, estimated, gain_of, item_score
from tinsmith.lab.study.record import DRAWS, Column, CurveRecord, ExampleRecord, Panel, Shown
from tinsmith.lab.study.sizes import Asked, opened_task
from tinsmith.lab.study.study import UNTRAINED, ArmValue, Curves, Points
from tinsmith.pages.document import Reply
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate, p_words
from tinsmith.stats.mean_runs import mean_difference
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

GAIN_HEADS: Final = (
    *("measure", "before", "after", Column(head="gain|95 % interval", form="+.3f"), "p|Holm", "finding"),
)
SHOWN: Final = 6  # Held-out items whose answers stand beside each other.


def all_gains(results: ts.Results, measures: Mapping[str, str]) -> list[list[Shown]]:
    """Return what every arm gained in every measure, sampled and greedily.

    p is corrected by Holm: the study's score, sampled, over the arms, and all other measures together.
    """
    found = {
        (label, name, greedy): gain_of(arm, ts.PerItem(name, name, metric), results.draws, greedy=greedy)
        for label, arm in results.reported_arms.items()
        for name, metric in measures.items()
        for greedy in (False, True)
    }
    first = [key for key in found if key[1:] == (item_score(results.study.score).label, False)]
    for family in (first, [key for key in found if key not in first]):
        found |= zip(family, corrected([found[key] for key in family]), strict=True)
    rows: list[list[Shown]] = []
    for (_, name, greedy), one in found.items():
        finding = ("more" if one.gain.value > 0 else "less") if one.holds else "cannot tell"
        p_shown = p_words(one.p_holm).removeprefix("p ").removeprefix("= ")
        named = f"{name}, {'greedy' if greedy else 'sampled'}"
        rows.append([one.words, named, one.before, one.after, one.gain, p_shown, finding])
    return rows


def forgotten(results: ts.Results) -> list[list[Shown]]:
    """Return how much less each arm foresees general texts, after training less before."""
    rows: list[list[Shown]] = []
    for arm in results.reported_arms.values():
        if (general := arm.general()) is None:
            rows.append([arm.arm.label, "no general text was read", None])
        else:
            gap = mean_difference(general[1], general[0], results.draws.tables, paired=True)
            rows.append([arm.arm.label, f"{general[1].num_items:,}", from_estimate(gap)])
    return rows


def baselines(results: ts.Results, score: ts.PerItem) -> list[list[Shown]]:
    """Return what the baselines of the task have in a score, and what the model has before training."""
    first = next(iter(results.arms.values()))
    found: list[list[Shown]] = [["before training", results.before(first.arm.name, score)]]
    for one in first.reads[0].task.baselines:
        values = first.baseline(one.name, score.metric)
        found.append([one.name, "failed" if values is None else estimated(values, results.draws)])
    return found


def ends_and_baselines(results: ts.Results, score: ts.PerItem) -> tuple[list[str], list[Panel]]:
    """Return every arm before and after training, and the baselines, as a picture has them."""
    known, ends = baselines(results, score)[1:], ends_of(results, score)
    values = [None if isinstance(one, str) else one for _, one in known]
    panel = Panel(title=ends.title, before=(*ends.before, *[None] * len(known)), after=(*ends.after, *values))
    return [*results.reported, *(str(name) for name, _ in known)], [panel]


def answers_side_by_side(results: ts.Results) -> tuple[ExampleRecord, ...]:
    """Return some held-out items as every arm answered them, before and after, in the run with the first seed.

    Before training all runs are one model: where they drew the same, it stands once.
    """
    exams = {arm.arm.label: arm.reads[0].sampled for arm in results.reported_arms.values()}
    prompts = {one.id: one.prompt for one in next(iter(results.arms.values())).reads[0].task.items}
    examples: list[ExampleRecord] = []
    for item in sorted(prompts, key=lambda name: derive(0, "shown", name))[:SHOWN]:
        before = {label: some[0].shown.get(item) for label, some in exams.items()}
        alike = len({None if one is None else one.text for one in before.values()}) == 1
        replies: list[Reply] = []
        for label, some in exams.items():
            start, last = before[label], some[-1].shown.get(item)
            if start is not None and (not alike or not replies):
                replies += shown_replies(start, "before training" if alike else f"{label}, before")
            if last is None:
                replies.append(Reply(title=f"{label}, after", text="(the rollout failed)"))
            elif len(some) > 1:
                replies += shown_replies(last, f"{label}, after")
        examples.append(ExampleRecord(title=item, prompt=prompts[item], replies=tuple(replies)))
    return tuple(examples)


ZERO, SFT, RL, THEN = "zero_shot", "sft", "rl", "sft_then_rl"
CONTROLS: Final[Mapping[str, str]] = {SFT: "shuffled_sft", RL: "shuffled", THEN: "shuffled_sft_then_rl"}
"""Of each way to train, the same way on shuffled labels."""
LABELS: Final[Mapping[str, str]] = {SFT: "SFT", RL: "RL", THEN: "SFT then RL"} | {
    CONTROLS[name]: f"{label}, shuffled labels" for name, label in ((RL, "RL"), (SFT, "SFT"), (THEN, "SFT then RL"))
}
REWARD: Final = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Number of training items that a run looks at, and its steps."""

    supervised: int  # Items looked at by example.
    batch_size: int
    rewarded: int  # Items looked at by reward.
    groups_per_batch: int

    @property
    def items(self) -> int:
        """All of them."""
        return self.supervised + self.rewarded

    @property
    def sft_steps(self) -> int:
        """Supervised steps, which come first."""
        return self.supervised // self.batch_size

    @property
    def steps(self) -> int:
        """All steps."""
        return self.sft_steps + self.rewarded // self.groups_per_batch

    def seen(self, step: int) -> int:
        """Return how many items were looked at before a step."""
        taught = min(step, self.sft_steps)
        return taught * self.batch_size + (step - taught) * self.groups_per_batch

    def keys(self) -> dict[str, str | int | bool]:
        """Return the keys of a run that looks at so many."""
        if not self.rewarded:
            return {"kind": Kind.TASK_SFT.value, "batch_size": self.batch_size}
        keys = {"kind": Kind.TASK.value, "sft_steps": self.sft_steps, "groups_per_batch": self.groups_per_batch}
        return {**keys, "sft_batch_size": self.batch_size} if self.supervised else keys


def efforts_of(steps: int, groups: int, batch: int) -> dict[str, Effort]:
    """Return the efforts of SFT, of RL, and of one after the other, which looks at half of the items each way."""
    items = steps * groups
    half = items // 2
    if steps % 2:
        raise ConfigError(
            "half of what is looked at has to be whole steps", field="steps", value=steps, allowed="an even number"
        )
    if half % batch:
        what = "half of what is looked at has to be whole supervised steps"
        allowed = f"a divisor of {half}, half of steps * groups_per_batch"
        raise ConfigError(what, field="batch_size", value=batch, allowed=allowed)

    def effort(taught: int, rewarded: int) -> Effort:
        return Effort(supervised=taught, batch_size=batch, rewarded=rewarded, groups_per_batch=groups)

    return {SFT: effort(items, 0), RL: effort(0, items), THEN: effort(half, half)}


def method_of(name: str) -> str:
    """Return how an arm is trained, whatever its labels are."""
    return next((method for method, control in CONTROLS.items() if control == name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """Settings of a study of learning."""

    names: list[str]
    efforts: Mapping[str, Effort]
    rates: Mapping[str, tuple[float, ...]]  # Of SFT and of RL; several are tried.
    looks: int
    score: ts.PerItem
    measures: Mapping[str, str]  # All that is measured: by what it is called, by its name in an evaluation.

    def effort(self, one: ts.ArmRuns) -> Effort:
        """Return what an arm looks at."""
        return self.efforts[method_of(one.arm.name.split("-")[0])]

    def arm(self, name: str, items: int = 0) -> ts.Arm:
        """Return an arm, on so many training items; 0: on all."""
        method, effort = method_of(name), self.efforts[method_of(name)]
        every = max(1, -(-effort.steps // self.looks))
        keys: dict[str, ArmValue] = {**effort.keys(), "steps": effort.steps, "eval_every": every, "save_every": every}
        # The rate of a method is what its arm chooses, or the one that is given where it is no arm.
        chosen = {way: ts.tuned(way) if way in self.names else rates[0] for way, rates in self.rates.items()}
        is_tried = name in self.rates and not items
        keys["learning_rate"] = self.rates[name] if is_tried else chosen[SFT if method == SFT else RL]
        keys |= {"sft_learning_rate": chosen[SFT]} if method == THEN else {}
        keys |= {"shuffle_labels": True} if name not in CONTROLS else {}
        keys |= {"train_items": items} if items else {}
        shown = f"{LABELS[name]}, {items:,} items" if items else LABELS[name]
        return ts.Arm(f"{name}-items={items}" if items else name, shown, keys, is_aside=bool(items))

    def looked_at(self, one: ts.ArmRuns) -> int:
        """Return how many items an arm looks at."""
        return self.effort(one).items

    def claims(self, arms: Mapping[str, ts.ArmRuns]) -> list[ts.Beats | ts.Learned]:
        """Return that each way to train beats the model before, every baseline, and the ways before it."""
        trained = [name for name in self.names if name in CONTROLS]
        found: list[ts.Beats | ts.Learned] = []
        for place, name in enumerate(trained):
            known = [one.name for one in arms[name].reads[0].task.baselines if one.exact(self.score.metric)]
            found += [ts.Beats(name, second) for second in (UNTRAINED, *map(ts.baseline, known), *trained[:place])]
            found.append(ts.Learned(name, CONTROLS[name] if CONTROLS[name] in self.names else ""))
        return found

    def over_items(self, arm: ts.ArmRuns) -> Mapping[int, Figure]:
        """Return the score by how many items were looked at."""
        items_seen = self.effort(arm).seen
        return {items_seen(step): estimated(arm.at_step(self.score, step), DRAWS) for step in arm.steps}

    def effort_rows(self, results: ts.Results) -> list[list[Shown]]:
        """Return what each run of an arm looks at, and how many rollouts failed."""
        rows: list[list[Shown]] = []
        for arm in results.reported_arms.values():
            one, reads = self.effort(arm), arm.reads
            failed = f"{sum(sum(run.failures.values()) for run in reads):,} of {sum(run.rollouts for run in reads):,}"
            counts = (one.items, one.supervised, one.rewarded, one.steps)
            rows.append([arm.arm.label, *(f"{value:,}" for value in counts), failed])
        return rows

    def by_size(self, results: ts.Results) -> list[tuple[str, int, Figure]]:
        """Return the score of every arm by how many items there were to train on; nothing without sizes."""
        if len(results.arms) == len(self.names):
            return []
        found: list[tuple[str, int, Figure]] = []
        for name, arm in results.arms.items():
            base, _, size = name.partition("-items=")
            items = int(size) if size else arm.reads[0].run.config.data.train
            if items is not None:
                found.append((LABELS[base], items, results.after(name, self.score)))
        return sorted(found, key=lambda row: row[1])

    def sizes_drawn(self, results: ts.Results) -> list[CurveRecord]:
        """Return the score over how many items there were, a line for each arm."""
        lines: dict[str, dict[int, Figure]] = {}
        for label, size, value in self.by_size(results):
            lines.setdefault(label, {})[size] = value
        drawn = tuple((label, tuple(some), tuple(some.values())) for label, some in lines.items())
        axis = "items to train on"
        return (
            [CurveRecord(name="sizes", label=self.score.label, axis=axis, shares=False, lines=drawn)] if drawn else []
        )


def arms_asked(text: str) -> list[str]:
    """Return the arms that are named, in the order of the page."""
    named = {name.strip() for name in text.split(",")}
    if not named <= {ZERO, *LABELS} or not named & set(CONTROLS):
        what = "name the arms, at least one of which is trained on right answers"
        raise ConfigError(what, field="arms", value=text, allowed=", ".join((ZERO, *LABELS)))
    return [name for name in LABELS if name in named]


def sizes_asked(text: str) -> list[int]:
    """Return numbers of items to train on, beside all of them."""
    found = sorted(numbers("sizes", text, int)) if text else []
    if len(set(found)) < len(found) or (found and found[0] < 1):
        allowed = "different ones, 1 or more, with commas between them"
        raise ConfigError("these are numbers of items to train on", field="sizes", value=text, allowed=allowed)
    return found


def with_arms(study: ts.Study, asked: Asked) -> ts.Study:
    """Return the study of what is learned of the task that is asked for."""
    given, own = asked.given, asked.own

    def first(key: str) -> dict[str, float]:
        return {"learning_rate": learning_rates(key, own[key])[0]} if own[key] else {}

    counts = {key: given[key] for key in ("steps", "groups_per_batch") if key in given}
    plan = asked.plan({"sft_steps": 0, **counts, **first("rl_rates")})
    settings, task = plan.settings, opened_task(plan)
    assert isinstance(settings, RlSettings)
    names = arms_asked(own["arms"])
    if "arms" not in given and task.answer is None:
        names = [name for name in names if method_of(name) == RL]
    batch = count("batch_size", own["batch_size"] or str(settings.groups_per_batch), 1)
    efforts = efforts_of(settings.steps, settings.groups_per_batch, batch)
    by_example = settings
    if any(method_of(name) != RL for name in names):
        by_example = asked.plan(first("sft_rates"), Kind.TASK_SFT).settings
    usual = {SFT: by_example.learning_rate, RL: settings.learning_rate}
    rates = {name: learning_rates(f"{name}_rates", own[f"{name}_rates"] or repr(one)) for name, one in usual.items()}
    for name, found in rates.items():
        if len(found) > 1 and name not in names:
            fix = f"name one rate, or add {name} to arms"
            what = f"of several learning rates the arm {name} chooses one"
            raise ConfigError(what, field=f"{name}_rates", value=own[f"{name}_rates"], fix=fix)
    looks, sizes = count("looks", own["looks"], 1), sizes_asked(own["sizes"])
    apart = {name: name for name in task.rewards if name not in task.metrics} if len(task.rewards) > 1 else {}
    metrics = {name: f"metric/{name}" for name in task.metrics}
    measures = {REWARD: "total", **apart, **metrics}
    if own["score"] not in (REWARD, *metrics):
        allowed = ", ".join([REWARD, *metrics])
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
        expectations=[ts.Expectation(f"{LABELS[name]}: nothing is learned", no_gain(name)) for name in controls],
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


presets: Final = {
    "study/learning": study,
    "study/taste": of_task("taste", "right"),
    "study/instructions": of_task("instructions", "instruction_strict"),
    "study/reasoning": of_task("reasoning_gym", "solved"),
}
"""By the name on a command line."""
