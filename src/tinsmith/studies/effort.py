"""Ways to train on a task at equal effort: arms with what each looks at, claims, gains, answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import msgspec

import tinsmith as ts
from tinsmith.lab.page.examples import shown_replies
from tinsmith.lab.runs.files import GENERAL, Kind
from tinsmith.lab.study.keys import numbers
from tinsmith.lab.study.measures import corrected, ends_of, estimated, gain_of, item_score
from tinsmith.lab.study.record import DRAWS, CurveRecord, ExampleRecord, Panel, Shown, apart
from tinsmith.lab.study.study import UNTRAINED, ArmValue
from tinsmith.pages.document import Reply
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.types.errors import ConfigError
from tinsmith.types.page_names import p_cell
from tinsmith.types.seeds import derive

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
        drawn = CurveRecord.of("sizes", self.score.label, lines, axis="items to train on", shares=False)
        return [drawn] if lines else []


def arms_of(text: str) -> list[str]:
    """Return the arms that are named, in the order of the page."""
    named = {name.strip() for name in text.split(",")}
    if not named <= {ZERO, *LABELS} or not named & set(CONTROLS):
        what = "name the arms, at least one of which is trained on right answers"
        raise ConfigError(what, field="arms", value=text, allowed=", ".join((ZERO, *LABELS)))
    return [name for name in LABELS if name in named]


def sizes_of(text: str) -> list[int]:
    """Return numbers of items to train on, beside all of them."""
    found = sorted(numbers("sizes", text, int)) if text else []
    if len(set(found)) < len(found) or (found and found[0] < 1):
        allowed = "different ones, 1 or more, with commas between them"
        raise ConfigError("these are numbers of items to train on", field="sizes", value=text, allowed=allowed)
    return found


GAIN_HEADS: Final = ("measure", "before", "after", apart("gain"), "p|Holm", "finding")
SHOWN: Final = 6  # Held-out items whose answers stand beside each other.


def all_gains(results: ts.Results, measures: Mapping[str, str]) -> list[list[Shown]]:
    """Return what every arm gained in every measure, sampled and greedily.

    p is corrected by Holm: the study's score, sampled, over the arms, and all other measures together.
    """
    gains = {
        (label, name, greedy): gain_of(arm, ts.PerItem(name, name, metric), results.draws, greedy=greedy)
        for label, arm in results.reported_arms.items()
        for name, metric in measures.items()
        for greedy in (False, True)
    }
    first = [key for key in gains if key[1:] == (item_score(results.study.score).label, False)]
    for family in (first, [key for key in gains if key not in first]):
        gains |= zip(family, corrected([gains[key] for key in family]), strict=True)
    rows: list[list[Shown]] = []
    for (_, name, greedy), one in gains.items():
        finding = ("more" if one.gain.value > 0 else "less") if one.holds else "cannot tell"
        named = f"{name}, {'greedy' if greedy else 'sampled'}"
        rows.append([one.words, named, one.before, one.after, one.gain, p_cell(one.p_holm), finding])
    return rows


def forgotten(results: ts.Results) -> list[list[Shown]]:
    """Return how much less each arm foresees general texts, after training less before."""
    rows: list[list[Shown]] = []
    for arm in results.reported_arms.values():
        if (general := general_texts(arm)) is None:
            rows.append([arm.arm.label, "no general text was read", None])
        else:
            gap = mean_difference(general[1], general[0], results.draws.tables, paired=True)
            rows.append([arm.arm.label, f"{general[1].num_items:,}", from_estimate(gap)])
    return rows


def general_texts(arm: ts.ArmRuns) -> tuple[MeanRuns, MeanRuns] | None:
    """Return how well the base and the trained models foresee each general text; None where none was read."""
    files = [read.run.folder / GENERAL for read in arm.reads]
    found = [msgspec.json.decode(file.read_bytes())["texts"] if file.is_file() else () for file in files]
    if not all(found):
        return None
    before, after = (
        [{one["name"]: Fraction(repr(one[when])) for one in texts} for texts in found] for when in ("before", "after")
    )
    return MeanRuns.of(arm.arm.label, before), MeanRuns.of(arm.arm.label, after)


def baselines(results: ts.Results, score: ts.PerItem) -> list[list[Shown]]:
    """Return what the baselines of the task have in a score, and what the model has before training."""
    first = next(iter(results.arms.values()))
    found: list[list[Shown]] = [["before training", results.before(first.arm.name, score)]]
    for one in first.reads[0].task.baselines:
        values = first.baseline(one.name, score)
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
        before = {label: some[0].first_answers.get(item) for label, some in exams.items()}
        alike = len({None if one is None else one.text for one in before.values()}) == 1
        replies: list[Reply] = []
        for label, some in exams.items():
            start, last = before[label], some[-1].first_answers.get(item)
            if start is not None and (not alike or not replies):
                replies += shown_replies(start, "before training" if alike else f"{label}, before")
            if last is None:
                replies.append(Reply(title=f"{label}, after", text="(the rollout failed)"))
            elif len(some) > 1:
                replies += shown_replies(last, f"{label}, after")
        examples.append(ExampleRecord(title=item, prompt=prompts[item], replies=tuple(replies)))
    return tuple(examples)
