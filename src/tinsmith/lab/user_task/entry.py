"""Experiments on tasks: their kinds of training, their plans and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tinsmith.lab.experiment.experiment import REWARD_PREFIX, Experiment, KeyHelp, Plan, key_help, kind_of, make_plan
from tinsmith.lab.experiment.key_text import (
    OPTIONS,
    SMALL_MODEL,
    WITHOUT_LABELS,
    WITHOUT_SLICE,
    At,
    KindEntry,
    RunFrame,
    Values,
    meant_key,
    shown_value,
    unknown_key,
)
from tinsmith.lab.experiment.materials import RATE, require_own_rates
from tinsmith.lab.judge.records import RULES, JudgeCalls
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.schedule import NONE
from tinsmith.lab.settings import RlSettings, SftSettings, SparseSettings, Watched
from tinsmith.lab.user_task.functions import TaskSource
from tinsmith.lab.user_task.items import Examined
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError, near

if TYPE_CHECKING:
    from tinsmith.lab.papers.run_data import PaperData
    from tinsmith.lab.user_task.run_data import TaskData
    from tinsmith.types.waits import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFrame(RunFrame):
    """The keys that are no loop's settings."""

    kind: Kind = Kind.TASK
    eval_samples: int = 4
    """Sampled answers per held-out item in an evaluation."""
    watch_forgetting: bool = False
    """Measure forgetting at the end: trained model and base are compared on fixed general texts."""
    examined: Examined = Examined.HELD_OUT
    """Items to evaluate on: held_out, or validation (a fifth of the training items, for choosing settings)."""
    split_seed: int = -1
    """Seed that draws held-out and validation items; below 0: the run's seed."""
    shuffle_labels: bool = False
    """Negative control: each training item is rewarded and answered as if it were another one, so that nothing can be
    learned."""

    def __post_init__(self) -> None:
        if self.eval_samples < 1:
            what = "an evaluation needs at least one answer"
            raise ConfigError(what, field="eval_samples", value=self.eval_samples, allowed="1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFrame(TaskFrame):
    """The keys of a task whose reward is a judge."""

    kind: Kind = Kind.RLVR
    judge_model: str = RULES
    """Judge: rules, a model of an OpenAI-compatible endpoint, a name or tinker:// path at base_url, or a folder."""
    judge_temperature: float = 0.0
    """Sampling temperature of the judge."""
    judge_max_tokens: int = 0
    """Maximum tokens of an answer of the judge; 0: the endpoint's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(JudgeCalls):
    """Settings of calls to a judge: circumstances of a task whose reward is a judge."""

    prices: Path | None = None
    """TOML file of prices, which adds to those of the package or replaces them."""


_EVERYWHERE: Final = {"lora_rank": 16, "eval_every": 20, "save_every": 20, "select_by": "last"}
_NANO: Final = {**_EVERYWHERE, "max_tokens": 32, "eval_items": 100}
_SMALL: Final = {
    **_EVERYWHERE,
    "model_name": SMALL_MODEL,
    "grad_clip_norm": 1.0,
    "max_tokens": 48,
    "eval_items": 50,
    "watch_forgetting": True,
}
_SEED: Final = {**_EVERYWHERE, "lora_rank": 32, "max_tokens": 512, "eval_items": 200, "watch_forgetting": True}
_GROUPS: Final = {"group_size": 8, "groups_per_batch": 8}


def _sizes(nano: Values, small: Values, seed: Values) -> Mapping[At, Values]:
    return {At.NANO: {**_NANO, **nano}, At.SMALL: {**_SMALL, **small}, At.SEED: {**_SEED, **seed}}


_RL: Final = _sizes(
    {**_GROUPS, "steps": 60, "learning_rate": 6e-4},
    {**_GROUPS, "steps": 40, "learning_rate": 3e-4},
    {"steps": 100, "learning_rate": 4e-5, "group_size": 8, "groups_per_batch": 32},
)
_SPARSE: Final = _sizes(
    {"steps": 150, "learning_rate": 1e-3, "batch_size": 16},
    {"steps": 150, "learning_rate": 1e-4, "batch_size": 8},
    {"steps": 150, "learning_rate": 1e-4, "batch_size": 8},
)
_SFT: Final = _sizes(
    {"steps": 60, "learning_rate": 2e-3, "batch_size": 16},
    {"steps": 40, "learning_rate": 3e-4, "batch_size": 32},
    {"steps": 100, "learning_rate": 1e-4, "batch_size": 64},
)
TASK_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.TASK: KindEntry(TaskFrame, RlSettings, _RL, without=WITHOUT_LABELS),
        Kind.TASK_SPARSE: KindEntry(TaskFrame, SparseSettings, _SPARSE, without=WITHOUT_LABELS | {"order"}),
        Kind.TASK_SFT: KindEntry(TaskFrame, SftSettings, _SFT, without=WITHOUT_LABELS),
    }
)
JUDGED_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {Kind.RLVR: KindEntry(JudgedFrame, RlSettings, _RL, without=WITHOUT_SLICE | OPTIONS, asking=Asking)}
)
"""Kinds of training on a task with a judge as reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTaskEntry:
    """Subject of experiments: one label, both labels, any task, or a task with a judge."""

    kinds: Mapping[Kind, KindEntry]  # Ways to train; they differ in their loop and not in their frame.
    function: Callable[..., Task] | None = None
    """Returns the task of an experiment with a name; its arguments are keys."""
    experiments: list[Experiment] = field(default_factory=list[Experiment], compare=False, repr=False)
    """Experiments on it, registered by their definitions; empty for a task without a name."""
    task: Task | None = None
    """None before a source is opened, or an experiment's keys are known."""
    source: TaskSource | None = None  # The source of the task; None: it is that of an experiment with a name.
    own_keys: Mapping[str, Value] = field(default_factory=dict[str, Any])  # Values of the source's own keys.

    def check(self, plan: Plan) -> Plan:
        """Open the task of an experiment; a task without a name comes from its source."""
        if isinstance(plan.asking, Asking) and plan.asking.prices is not None and not plan.asking.prices.is_file():
            raise ConfigError("no such file", field="prices", value=str(plan.asking.prices))
        if self.function is None:
            require_own_rates(plan)
            return plan
        settings = {f"{REWARD_PREFIX}{key}": value for key, value in plan.reward_settings.items()}
        task = self.function(**plan.own, **settings)
        if task.run is not None:
            task.run.check(plan)
        return replace(plan, experiment=replace(plan.experiment, subject=replace(self, task=task)))

    def named(self, plan: Plan) -> Mapping[str, object]:
        """Return the task's identity; empty for a task without a name, whose code identifies its runs."""
        return {} if self.function is None else self.task_of(plan).identity

    def task_of(self, plan: Plan) -> Task:
        """Return the task that was opened."""
        if self.task is None:
            what = "a task of your own is run from its file"
            raise ConfigError(what, field="experiment", value=plan.experiment.name, fix="tinsmith run FILE.py")
        return self.task

    def run_data(self, plan: Plan, say: Say) -> TaskData | PaperData:
        """Find or build the data of a plan."""
        run = self.task_of(plan).run
        if run is not None:
            return run.run_data(plan, say)
        from tinsmith.lab.user_task.run_data import task_data

        return task_data(plan)

    def forecast(self, plan: Plan) -> Sequence[str]:
        """Return the lines of a dry run; nothing is built."""
        run = self.task_of(plan).run
        if run is not None:
            if plan.circumstances.check_reward:
                what, fix = "these rewards are checked by another command", "tinsmith analyse incentives"
                raise ConfigError(what, field="check_reward", value=True, fix=fix)
            return run.forecast(plan)
        from tinsmith.lab.user_task.run_data import task_data

        return task_data(plan).forecast()


USER_TASK: Final = UserTaskEntry(kinds=TASK_KINDS)
"""Whatever a source says."""
JUDGED_TASK: Final = UserTaskEntry(kinds=JUDGED_KINDS)
"""The same for a task whose reward is a judge."""


EVERY_KEY: Final = frozenset({"test_items"}).union(*(one.known for one in {**TASK_KINDS, **JUDGED_KINDS}.values()))
"""Keys that runs on tasks may have, of whatever kind they are."""
_QUESTION: Final = "What does the model learn of this task?"


def open_task(source: TaskSource, overrides: Mapping[str, str]) -> Plan:
    """Return the plan of a source's task, with `key=value` overrides of a command line."""
    own = {key.name for key in source.keys}
    for key in overrides:
        if key not in EVERY_KEY | own:
            listed = {each.name for each in task_help(source, {k: overrides[k] for k in own & overrides.keys()})[1]}
            of_another_kind = near(key, EVERY_KEY) and not near(meant_key(key, listed), listed)
            raise unknown_key(key, overrides[key], EVERY_KEY | own if of_another_kind else listed)
    experiment = _experiment(source, overrides)
    plan = make_plan(experiment, {key: overrides[key] for key in overrides if key not in own})
    _require_given(plan, overrides)
    files = {key.name for key in source.keys if key.is_file}
    changed = {key: experiment.subject.own_keys[key] for key in sorted((own - files) & overrides.keys())}
    return replace(plan, overrides=MappingProxyType({**changed, **plan.overrides}))


def _require_given(plan: Plan, overrides: Mapping[str, str]) -> None:
    task, settings, kind = plan.experiment.subject.task_of(plan), plan.settings, plan.frame.kind
    examples, watched = settings.by_example(0), settings.watch is Watched.CONFIDENCE
    penalty = getattr(settings, "confidence_penalty", 0.0)
    foreseen = getattr(settings, "env_loss_coef", 0.0)
    forgets = isinstance(plan.frame, TaskFrame) and plan.frame.watch_forgetting
    reads = forgets or settings.watch is not Watched.NOTHING or foreseen

    def refuse(what: str, key: str, value: object, fix: str) -> NoReturn:
        raise ConfigError(what, field=key, value=value, fix=f"give the task {fix}")

    if task.answer is None and examples is not None and not isinstance(examples, SparseSettings):
        key, value = "kind" if kind is Kind.TASK_SFT else "sft_steps", overrides.get("sft_steps", kind.value)
        what = "supervised training needs right answers, and this task has none"
        refuse(what, key, value, "answer=..., a function of the item, or train it by reward alone")
    if task.options is None and getattr(settings, "force_options", False):
        what = "this task does not list its possible answers"
        refuse(what, "force_options", True, "options=..., a function of the item")
    if task.aside is None and getattr(settings, "interleave", NONE) != NONE:
        what = "this task sets no items aside for batches of their own"
        refuse(what, "interleave", overrides.get("interleave"), "aside=..., a function of the item")
    if task.talk is None and (foreseen or settings.watch is Watched.ENVIRONMENT):
        key, value = ("env_loss_coef", foreseen) if foreseen else ("watch", settings.watch.value)
        refuse("nothing is answered to replies, and so nothing foreseen, in a task of one turn", key, value, "turns")
    if (penalty or watched) and (task.probed is None or task.talk is not None):
        key, value = ("watch", settings.watch.value) if watched else ("confidence_penalty", penalty)
        what = "this needs a task with one turn and `probed`: where its reasoning ends, and its possible answers"
        refuse(what, key, value, "probed=Probed(before_answer=..., options=..., gold=...)")
    if task.talk is not None and task.talk.several_agents and (examples is not None or reads):
        by_example = ("sft_steps", overrides.get("sft_steps", kind.value))
        key, value = ("watch", settings.watch.value) if examples is None else by_example
        fix = "agents=1; or leave out supervised steps, other losses and other measurements (watch_forgetting=false)"
        refuse("several agents can only be trained by reward", key, value, fix)


def task_help(source: TaskSource, overrides: Mapping[str, str]) -> tuple[str, list[KeyHelp]]:
    """Return a task's name and question, and its keys, its own ones first."""
    experiment, unknown = _experiment(source, overrides), "A key of this task (its file says no more)."
    shared, values = key_help(experiment, overrides), experiment.subject.own_keys
    mine = [
        KeyHelp(
            name=key.name,
            values=dict.fromkeys(shared[0].values, shown_value(values[key.name])),
            words=key.words or unknown,
            circumstance=False,
        )
        for key in source.keys
    ]
    words = f"Way to train. One of: {', '.join(experiment.subject.kinds)}."
    usual = dict.fromkeys(shared[0].values, kind_of(experiment, overrides).value)
    kind = KeyHelp(name="kind", values=usual, words=words, circumstance=False)
    return f"{experiment.name}: {experiment.question}", [*mine, kind, *shared]


def _experiment(source: TaskSource, overrides: Mapping[str, str]) -> Experiment:
    """Return the experiment that a task is; its subject has the values of the source's own keys."""
    values = {key.name: key.read(overrides.get(key.name)) for key in source.keys}
    clash = next((name for name in values if name in EVERY_KEY), None)
    if clash is not None:
        fix = "give the argument of task() another name"
        raise source.located(ConfigError("every run has a key of this name", field=clash, fix=fix))
    task = source.make(values)
    subject = JUDGED_TASK if isinstance(task.reward, JudgedReward) else USER_TASK
    own = frozenset({"test_items"} if task.tested else ())
    kinds = {kind: replace(entry, without=entry.without - own) for kind, entry in subject.kinds.items()}
    shared = {key: value for key, value in task.keys.items() if not isinstance(value, Mapping)}
    sized = {at: own for at in At if isinstance(own := task.keys.get(at.value), Mapping)}
    if source.is_packaged and RATE in shared:  # that of its small base, and of no other model
        sized[At.NANO] = {RATE: shared.pop(RATE), **sized.get(At.NANO, {})}
    return Experiment(
        name=task.name or source.title,
        question=task.question or _QUESTION,
        subject=replace(subject, kinds=kinds, task=task, source=source, own_keys=values),
        parent=None,
        delta={"kind": next(iter(kinds)).value, **_settings(source, kinds, shared)},
        sizes={at: _settings(source, kinds, own) for at, own in sized.items()},
    )


def _settings(source: TaskSource, kinds: Mapping[Kind, KindEntry], values: Mapping[str, Value]) -> dict[str, Value]:
    circumstances = next(iter(kinds.values())).circumstances - {"model_name"}
    types = {key: kind for each in kinds.values() for key, kind in each.kinds.items()}
    allowed = frozenset(types) - circumstances - {"at"}
    for key in values:
        if key not in allowed:
            raise source.located(unknown_key(key, str(values[key]), allowed))
    return {key: value if types[key] is type(value) else shown_value(value) for key, value in values.items()}
