"""Ways to train on a task at equal effort: arms with what each looks at, their claims, and figures by effort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.measures import ArmRuns, Results, estimated
from tinsmith.lab.study.record import DRAWS, CurveRecord, Shown
from tinsmith.lab.study.rows import reported_arms
from tinsmith.lab.study.study import UNTRAINED, Arm, ArmValue, Beats, Learned, PerItem, baseline, tuned
from tinsmith.pages.measures import Measure as Figure
from tinsmith.types.errors import ConfigError

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

    supervised: int
    """Items looked at by example."""
    batch_size: int
    rewarded: int
    """Items looked at by reward."""
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


def efforts_of(steps: int, groups: int, batch: int) -> tuple[Effort, Effort, Effort]:
    """Return the efforts of SFT, of RL, and of one after the other, which looks at half of the items each way."""
    items = steps * groups
    half = items // 2
    if steps % 2:
        raise ConfigError(
            "half of what is looked at has to be whole steps", field="steps", value=steps, allowed="an even number"
        )
    if half % batch:
        raise ConfigError(
            "half of what is looked at has to be whole supervised steps",
            field="batch_size",
            value=batch,
            allowed=f"a divisor of {half}, half of steps * groups_per_batch",
        )

    def effort(taught: int, rewarded: int) -> Effort:
        return Effort(supervised=taught, batch_size=batch, rewarded=rewarded, groups_per_batch=groups)

    return effort(items, 0), effort(0, items), effort(half, half)


def method_of(name: str) -> str:
    """Return how an arm is trained, whatever its labels are."""
    return next((method for method, control in CONTROLS.items() if control == name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """Settings of a study of learning."""

    names: list[str]
    efforts: Mapping[str, Effort]
    rates: Mapping[str, tuple[float, ...]]
    """Of SFT and of RL; several are tried."""
    looks: int
    score: PerItem
    measures: Mapping[str, str]
    """All that is measured: by what it is called, by its name in an evaluation."""

    def effort(self, one: ArmRuns) -> Effort:
        """Return what an arm looks at."""
        return self.efforts[method_of(one.arm.name.split("-")[0])]

    def rate(self, name: str) -> ArmValue:
        """Return the rate of a method: what its arm chooses, or the one that is given where it is no arm."""
        return tuned(name) if name in self.names else self.rates[name][0]

    def arm(self, name: str, items: int = 0) -> Arm:
        """Return an arm, on so many training items; 0: on all."""
        method, effort = method_of(name), self.efforts[method_of(name)]
        every = max(1, -(-effort.steps // self.looks))
        keys: dict[str, ArmValue] = {**effort.keys(), "steps": effort.steps, "eval_every": every, "save_every": every}
        by_example = SFT if method == SFT else RL
        keys["learning_rate"] = self.rates[name] if name in self.rates and not items else self.rate(by_example)
        keys |= {"sft_learning_rate": self.rate(SFT)} if method == THEN else {}
        keys |= {"shuffle_labels": True} if name not in CONTROLS else {}
        keys |= {"train_items": items} if items else {}
        shown = f"{LABELS[name]}, {items:,} items" if items else LABELS[name]
        return Arm.of(f"{name}-items={items}" if items else name, shown, keys, is_aside=bool(items))

    def looked_at(self, one: ArmRuns) -> int:
        """Return how many items an arm looks at."""
        return self.effort(one).items

    def claims(self, arms: Mapping[str, ArmRuns]) -> list[Beats | Learned]:
        """Return that each way to train beats the model before, every baseline, and the ways before it."""
        trained = [name for name in self.names if name in CONTROLS]
        found: list[Beats | Learned] = []
        for place, name in enumerate(trained):
            known = [one.name for one in arms[name].read.reads[0].task.baselines if one.exact(self.score.metric)]
            found += [Beats(name, second) for second in (UNTRAINED, *map(baseline, known), *trained[:place])]
            found.append(Learned(name, CONTROLS[name] if CONTROLS[name] in self.names else ""))
        return found

    def over_items(self, arm: ArmRuns) -> Mapping[int, Figure]:
        """Return the score by how many items were looked at."""
        effort = self.effort(arm)
        steps = enumerate(arm.read.steps)
        return {
            effort.seen(step): estimated(arm.per_item(self.score, at or -len(arm.read.steps)), DRAWS)
            for at, step in steps
        }

    def effort_rows(self, results: Results) -> list[list[Shown]]:
        """Return what each run of an arm looks at, and how many rollouts failed."""
        rows: list[list[Shown]] = []
        for arm in reported_arms(results).values():
            one, reads = self.effort(arm), arm.read.reads
            failed = f"{sum(sum(run.failures.values()) for run in reads):,} of {sum(run.rollouts for run in reads):,}"
            counts = (one.items, one.supervised, one.rewarded, one.steps)
            rows.append([arm.arm.label, *(f"{value:,}" for value in counts), failed])
        return rows

    def by_size(self, results: Results) -> list[tuple[str, int, Figure]]:
        """Return the score of every arm by how many items there were to train on; nothing without sizes."""
        if len(results.arms) == len(self.names):
            return []
        found: list[tuple[str, int, Figure]] = []
        for name, arm in results.arms.items():
            base, _, size = name.partition("-items=")
            items = int(size) if size else arm.read.reads[0].run.config.data.train
            if items is not None:
                found.append((LABELS[base], items, estimated(arm.per_item(self.score), results.draws)))
        return sorted(found, key=lambda row: row[1])

    def sizes_drawn(self, results: Results) -> list[CurveRecord]:
        """Return the score over how many items there were, a line for each arm."""
        rows = self.by_size(results)
        lines: list[tuple[str, tuple[int, ...], tuple[Figure, ...]]] = []
        for label in dict.fromkeys(label for label, *_ in rows):
            mine = [(size, value) for one, size, value in rows if one == label]
            lines.append((label, tuple(size for size, _ in mine), tuple(value for _, value in mine)))
        label, axis = self.score.label, "items to train on"
        drawn = CurveRecord(name="sizes", label=label, axis=axis, shares=False, lines=tuple(lines))
        return [drawn] if rows else []
