"""What a study of learning is asked for: its task, its arms at equal effort, and what all of its runs have in common.

Effort is counted in training items that are looked at, again where they come again: SFT looks at batch_size items a
step, RL at groups_per_batch; SFT then RL looks at half of them each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.study.arms import Opened, Study, StudyArm
from tinsmith.lab.study.keys import count, learning_rates, numbers
from tinsmith.lab.study.task_study import OpenSource, keys_of_source, studied_source
from tinsmith.lab.user_task.chosen_items import Examined
from tinsmith.lab.user_task.entry import OpenedTask, UserTaskEntry
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.studies.learning.keys import CONTROLS, QUESTION, REWARD, RL_KEYS, TRAINED, WORDS, ArmName, learning_keys
from tinsmith.types.errors import ConfigError

_BY_REWARD: Final[Mapping[str, str]] = MappingProxyType({"kind": Kind.TASK.value, "sft_steps": "0"})
"""What training by reward alone is, whatever the task's own keys say."""
_EVALUATE: Final = "evaluate"
"""The key by which a task has a validation part of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How many training items a run looks at, and in which steps."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """See the module."""

    study: Study
    """With the arms that depend on no other."""
    source: TaskSource
    own: Mapping[str, str]
    """Keys of the task's source."""
    task: str
    """What `tinsmith run` opens it by."""
    name: str
    """What the task is called."""
    arms: tuple[ArmName, ...]
    score: str
    """Its name in an evaluation: `total`, a term, or `metric/NAME`."""
    sft_rates: tuple[float, ...]
    rl_rates: tuple[float, ...]
    efforts: Mapping[ArmName, Effort]
    looks: int
    sizes: tuple[int, ...]
    rewarded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys of RL alone."""

    @property
    def trained(self) -> tuple[ArmName, ...]:
        """Its arms but for the one that is not trained, those on shuffled labels last."""
        return tuple(name for name in self.arms if name is not ArmName.ZERO_SHOT)

    def effort(self, name: ArmName) -> Effort:
        """Return what an arm looks at; a control looks at what its method does."""
        return self.efforts[method_of(name)]

    def arm(self, name: ArmName, rates: tuple[float, ...], sft_rate: float) -> StudyArm:
        """Return an arm; `sft_rate` is that of supervised steps before RL."""
        effort = self.effort(name)
        every = str(max(1, -(-effort.steps // self.looks)))
        keys = {"steps": str(effort.steps), "eval_every": every, "save_every": every}
        if method_of(name) is ArmName.SFT:
            keys |= {"kind": Kind.TASK_SFT.value, "batch_size": str(effort.batch_size)}
        else:
            keys |= {**_BY_REWARD, **self.rewarded}
            keys |= {"groups_per_batch": str(effort.groups_per_batch)}
        if effort.supervised and effort.rewarded:
            keys |= {
                "sft_steps": str(effort.sft_steps),
                "sft_batch_size": str(effort.batch_size),
                "sft_learning_rate": repr(sft_rate),
            }
        if name not in TRAINED:
            keys |= {"shuffle_labels": "true"}
        made = self._made(name.value, WORDS[name], rates, keys, self.own)
        if len(rates) < 2:
            return made
        apart, own = {**keys, "examined": Examined.VALIDATION.value}, self.own
        if any(key.name == _EVALUATE for key in self.source.keys):
            apart, own = keys, {**own, _EVALUATE: Examined.VALIDATION.value}
        return replace(made, tuned_as=self._made(f"{name}-validation", made.words, rates, apart, own))

    def first_arms(self) -> tuple[StudyArm, ...]:
        """Return SFT and RL, whose rates the others take."""
        tried = {ArmName.SFT: self.sft_rates, ArmName.RL: self.rl_rates}
        return tuple(self.arm(name, rates, rates[0]) for name, rates in tried.items() if name in self.arms)

    def later_arms(self, *, sft: float, rl: float) -> tuple[StudyArm, ...]:
        """Return the arms that the rates of SFT and RL decide on."""
        return tuple(
            self.arm(name, (sft if method_of(name) is ArmName.SFT else rl,), sft)
            for name in self.trained
            if name not in (ArmName.SFT, ArmName.RL)
        )

    def sized(self, arm: StudyArm, rate: float, size: int) -> StudyArm:
        """Return an arm at its rate on so many training items."""
        keys = {**arm.keys, "train_items": str(size)}
        return replace(
            arm,
            name=f"{arm.name}-items={size}",
            words=f"{arm.words}, {size:,} items",
            rates=(rate,),
            keys=keys,
            tuned_as=None,
        )

    def _made(
        self, name: str, words: str, rates: tuple[float, ...], keys: Mapping[str, str], own: Mapping[str, str]
    ) -> StudyArm:
        rated = {**keys, "learning_rate": repr(rates[0])}
        plan = open_task(self.source, {**own, **self.study.shared, **rated})
        opened = Opened(found_at=self.task, keys=own)
        return StudyArm(name, words, plan.experiment, rates, keys, opened)

    def deciding(self) -> dict[str, object]:
        """Return what decides the study's results, but for the items and the base."""
        return {
            "task": self.name,
            "own_keys": dict(self.own),
            "score": self.score,
            "sft_rates": list(self.sft_rates),
            "rl_rates": list(self.rl_rates),
            "items_seen": {name.value: self.efforts[name].items for name in self.efforts},
            **self.rewarded,
            **{key: value for key, value in self.study.shared.items() if key != "quiet"},
        }


def method_of(name: ArmName) -> ArmName:
    """Return how an arm is trained, whatever its labels are."""
    return next((method for method, control in CONTROLS.items() if control is name), name)


def learning_settings(
    presets: Mapping[str, str], overrides: Mapping[str, str], open_source: OpenSource
) -> LearningSettings:
    """Read `key=value`: the study's own keys, the task's, and any key that SFT and RL share, for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, arms or effort that do not do, or a value that cannot be read.
    """
    given = {**presets, **overrides}
    source = studied_source(given, open_source, "a study of learning is about a task")
    task = source.found_at
    assert task is not None, "another is refused"
    keys = learning_keys(presets, source.keys)
    keys.require(overrides)
    own = keys_of_source(source, given)
    passed_on = keys.runs_keys({key: given[key] for key in given if key not in own})
    rewarded = {key: value for key, value in passed_on.items() if key in RL_KEYS}
    shared = {key: value for key, value in passed_on.items() if key not in RL_KEYS}
    shared = {"watch_forgetting": "true", "split_seed": "0", **shared}
    by_reward = open_task(source, {**own, **shared, **_BY_REWARD, **_count_keys(given), **_first(given, "rl_rates")})
    opened = _opened(by_reward)
    arms = _arms(keys.value(given, "arms"))
    if "arms" not in given and opened.task.answer is None:
        arms = tuple(name for name in arms if name is ArmName.ZERO_SHOT or method_of(name) is ArmName.RL)
    efforts = _efforts(given, by_reward.settings)
    sft_rates, rl_rates = _rates(given, source, {**own, **shared}, by_reward, arms)
    named = "-".join(["study-learning", _plain(task), *([given["generator"]] if "generator" in given else [])])
    out = given.get("out", f"runs/{named}")
    study = Study(name="study/learning", question=QUESTION, arms=(), shared=shared)
    settings = LearningSettings(
        study=study.asked(keys, {**given, "out": out}),
        source=source,
        own=own,
        task=task,
        name=opened.name,
        arms=arms,
        score=_score(keys.value(given, "score"), by_reward),
        sft_rates=sft_rates,
        rl_rates=rl_rates,
        efforts=efforts,
        looks=count("looks", keys.value(given, "looks"), 1),
        sizes=_sizes(given.get("sizes", "")),
        rewarded=rewarded,
    )
    return replace(settings, study=replace(settings.study, arms=settings.first_arms()))


def _plain(task: str) -> str:
    return Path(task).stem if task.endswith(".py") else task.replace(":", "-").replace("/", "-")


def _arms(text: str) -> tuple[ArmName, ...]:
    named = {name.strip() for name in text.split(",")}
    if not named <= set(ArmName) or not named & set(TRAINED):
        raise ConfigError(
            "name the arms, at least one of which is trained on right answers",
            field="arms",
            value=text,
            allowed=", ".join(ArmName),
        )
    return tuple(name for name in WORDS if name in named)


def _count_keys(given: Mapping[str, str]) -> dict[str, str]:
    return {key: given[key] for key in ("steps", "groups_per_batch") if key in given}


def _first(given: Mapping[str, str], key: str) -> dict[str, str]:
    """Return a learning rate to open a task with, where there are any: a model may have none of its own."""
    return {"learning_rate": repr(learning_rates(key, given[key])[0])} if key in given else {}


def _efforts(given: Mapping[str, str], usual: object) -> dict[ArmName, Effort]:
    """Return what each method looks at: as many items, all by example, all by reward, or half of them each."""
    assert isinstance(usual, RlSettings)
    groups = usual.groups_per_batch
    batch = count("batch_size", given.get("batch_size", str(groups)), 1)
    items = usual.steps * groups
    half = items // 2
    if usual.steps % 2:
        raise ConfigError(
            "half of what is looked at has to be whole steps",
            field="steps",
            value=usual.steps,
            allowed="an even number",
        )
    if half % batch:
        raise ConfigError(
            "half of what is looked at has to be whole supervised steps",
            field="batch_size",
            value=batch,
            allowed=f"a divisor of {half}, half of steps * groups_per_batch",
        )
    sides = {ArmName.SFT: (items, 0), ArmName.RL: (0, items), ArmName.SFT_THEN_RL: (half, half)}
    return {
        name: Effort(supervised=taught, batch_size=batch, rewarded=rewarded, groups_per_batch=groups)
        for name, (taught, rewarded) in sides.items()
    }


def _rates(
    given: Mapping[str, str], source: TaskSource, shared: Mapping[str, str], by_reward: Plan, arms: tuple[ArmName, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the learning rates to try, by example and by reward; where none are given, the task's."""
    by_example = by_reward
    if any(method_of(name) is not ArmName.RL for name in arms if name is not ArmName.ZERO_SHOT):
        by_example = open_task(source, {**shared, "kind": Kind.TASK_SFT.value, **_first(given, "sft_rates")})
    usual = {"sft_rates": by_example, "rl_rates": by_reward}
    sft, rl = (learning_rates(key, given.get(key, repr(plan.settings.learning_rate))) for key, plan in usual.items())
    for key, found, arm in (("sft_rates", sft, ArmName.SFT), ("rl_rates", rl, ArmName.RL)):
        if len(found) > 1 and arm not in arms:
            raise ConfigError(
                f"of several learning rates the arm {arm} chooses one",
                field=key,
                value=given[key],
                fix=f"name one rate, or add {arm} to arms",
            )
    return sft, rl


def _score(text: str, plan: Plan) -> str:
    metrics = list(_opened(plan).task.metrics)
    if text == REWARD:
        return "total"
    if text not in metrics:
        raise ConfigError(
            "the task has no such metric", field="score", value=text, allowed=", ".join([REWARD, *metrics])
        )
    return f"metric/{text}"


def _opened(plan: Plan) -> OpenedTask:
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry)
    assert entry.opened is not None, "it was opened by its source"
    return entry.opened


def _sizes(text: str) -> tuple[int, ...]:
    found = tuple(sorted(numbers("sizes", text, int))) if text else ()
    if len(set(found)) < len(found) or (found and found[0] < 1):
        raise ConfigError(
            "these are numbers of items to train on",
            field="sizes",
            value=text,
            allowed="different ones, 1 or more, with commas between them",
        )
    return found
