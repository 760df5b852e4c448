"""What the study is asked for: GRPO, and sparse selection with as many of the base's rollouts or a tenth of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.key_text import unreadable
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import Pushed, RlSettings
from tinsmith.lab.study.arms import Opened, Study, StudyArm
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import DRY_RUN, StudyKey, StudyKeys, count, learning_rates
from tinsmith.lab.study.task_study import GENERATOR, SUMS, OpenSource, keys_of_source, sized_presets, studied_source
from tinsmith.lab.user_task.chosen_items import Examined
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource

NAME: Final = "sparse_select"
QUESTION: Final = "Does training at a few uncertain tokens of rollouts that the base drew once do what GRPO does?"


class Size(StrEnum):
    """How much the study does."""

    SMALLEST = "smallest"
    NANO = "nano"


class ArmName(StrEnum):
    """What is trained."""

    GRPO = "grpo"
    EQUAL = "sparse"
    TENTH = "sparse_tenth"
    GOOD = "sparse_good"


WORDS: Final[Mapping[ArmName, str]] = MappingProxyType(
    {
        ArmName.GRPO: "GRPO",
        ArmName.EQUAL: "sparse selection",
        ArmName.TENTH: "sparse selection, a tenth of the rollouts",
        ArmName.GOOD: "sparse selection, good answers alone",
    }
)
BASE_WORDS: Final = "the base"

SIZES: Final[Mapping[Size, Mapping[str, str]]] = MappingProxyType(
    {
        Size.SMALLEST: {
            "seeds": "1",
            "steps": "20",
            "sparse_steps": "20",
            "sparse_rates": "1e-3",
            "held_out_items": "24",
            "practice": "200",
        },
        Size.NANO: {"seeds": "1,2,3,4,5", "practice": "400"},
    }
)
AT_SMALL: Final[Mapping[str, str]] = MappingProxyType(
    {
        **SUMS,
        "seeds": "1",
        "steps": "24",
        "groups_per_batch": "8",
        "learning_rate": "3e-4",
        "sparse_steps": "24",
        "sparse_rates": "1e-4",
        "eval_items": "60",
    }
)
"""The same on a small pretrained model, which has read no demonstrations of crossroads: sums, as for the microscope."""

_OWN_TASK: Final = "crossroads"
_ROLLOUTS: Final = 20
"""Of each item, as in the paper, where there are items enough."""
_TENTH: Final = 10
_RL = TASK_KINDS[Kind.TASK].keys
_SPARSE = TASK_KINDS[Kind.TASK_SPARSE].keys
_RL_ALONE: Final = _RL.known - _SPARSE.known
_SPARSE_ALONE: Final = _SPARSE.known - _RL.known - {"asked_items", "base_rollouts", "pushed"}
_SET: Final = frozenset(
    [
        "kind",
        "seed",
        "asked_items",
        "base_rollouts",
        "pushed",
        "sft_steps",
        "base_url",
        "log_path",
        "stop_after",
        "behavior_if_log_dir_exists",
        "quiet",
    ]
)

_KEYS: Final = StudyKeys(
    own=(
        StudyKey("size", Size.NANO.value, "smallest (about a minute) or nano."),
        StudyKey("task", _OWN_TASK, "What is trained on: a kept task, or FILE.py."),
        GENERATOR,
        StudyKey("out", "runs/sparse-select", "The study's folder."),
        StudyKey("seeds", SIZES[Size.NANO]["seeds"], "That are reported."),
        StudyKey("tuning_seed", "0", "On which the settings were chosen; none of the others."),
        StudyKey(
            "sparse_rates",
            "1e-4,3e-4,1e-3,3e-3",
            "Learning rates of sparse selection; several: each arm's is chosen on a validation part.",
        ),
        StudyKey("sparse_steps", "60", "Its optimizer steps."),
        DRY_RUN,
        *CLUSTER_KEYS,
    ),
    passed_on=(_RL.known | _SPARSE_ALONE) - _SET,
    set_by_study=_SET,
    instead="seeds, sparse_rates, sparse_steps and out",
    more="learning_rate and steps are GRPO's. The task's own keys are the study's too, and any key that both kinds of "
    "run share is one of every run.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseStudy:
    """See the module."""

    study: Study
    budget: Mapping[ArmName, int]
    """Rollouts that an arm may draw to train on."""
    own: Mapping[str, str]

    def deciding(self) -> dict[str, object]:
        """Return what decides the results, but for the items and the base."""
        shared = {key: value for key, value in self.study.shared.items() if key != "quiet"}
        arms = {f"{arm.name}.{key}": value for arm in self.study.arms for key, value in arm.keys.items()}
        return {**shared, **self.own, **arms}


def sparse_keys(source: TaskSource | None = None) -> StudyKeys:
    """Return the keys of the study, with the own ones of its task."""
    if source is None:
        return _KEYS
    return StudyKeys(
        own=_KEYS.own,
        passed_on=_KEYS.passed_on | {key.name for key in source.keys},
        set_by_study=_KEYS.set_by_study,
        instead=_KEYS.instead,
        more=_KEYS.more,
    )


def sparse_study(overrides: Mapping[str, str], open_source: OpenSource) -> SparseStudy:
    """Read `key=value`: the study's own keys, the task's, and those of its runs.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    given = {**sized_presets(_presets(overrides), _KEYS, overrides, _OWN_TASK), **overrides}
    source = studied_source(given, open_source, "sparse selection is of runs on a task")
    assert source.found_at is not None, "another is refused"
    keys = sparse_keys(source)
    keys.require(overrides)
    own = keys_of_source(source, given)
    passed_on = keys.runs_keys({key: given[key] for key in given if key not in own})
    apart = _RL_ALONE | _SPARSE_ALONE | {"steps", "learning_rate"}
    shared = {"split_seed": "0", **{k: v for k, v in passed_on.items() if k not in apart}}
    rewarded = {k: v for k, v in passed_on.items() if k in _RL_ALONE | {"steps"}}
    rate = {k: v for k, v in passed_on.items() if k == "learning_rate"}
    plan = open_task(source, {**own, **shared, **rewarded, **rate})
    assert isinstance(plan.settings, RlSettings)
    opened = Opened(found_at=source.found_at, keys=own)
    total = plan.settings.steps * plan.settings.groups_per_batch * plan.settings.group_size
    arms = [
        StudyArm(
            ArmName.GRPO.value,
            WORDS[ArmName.GRPO],
            plan.experiment,
            (plan.settings.learning_rate,),
            {**rewarded, "kind": Kind.TASK.value},
            opened,
        )
    ]
    sparse = {k: v for k, v in passed_on.items() if k in _SPARSE_ALONE}
    sparse |= {"kind": Kind.TASK_SPARSE.value}
    sparse |= {"steps": str(count("sparse_steps", keys.value(given, "sparse_steps"), 1))}
    rates = learning_rates("sparse_rates", keys.value(given, "sparse_rates"))
    items = _items(source, own)
    budget = {ArmName.GRPO: total, ArmName.EQUAL: total, ArmName.TENTH: total // _TENTH, ArmName.GOOD: total}
    for name in (ArmName.EQUAL, ArmName.TENTH, ArmName.GOOD):
        pushed = Pushed.GOOD if name is ArmName.GOOD else Pushed.BOTH
        own_keys = {**sparse, **_drawn(budget[name], items), "pushed": pushed.value}
        made = open_task(source, {**own, **shared, **own_keys, "learning_rate": repr(rates[0])})
        arm = StudyArm(name.value, WORDS[name], made.experiment, rates, own_keys, opened)
        apart = {**own_keys, "examined": Examined.VALIDATION.value}
        arms.append(replace(arm, tuned_as=replace(arm, name=f"{name}-validation", keys=apart)))
    study = Study(name=NAME, question=QUESTION, arms=tuple(arms), shared=shared)
    return SparseStudy(study=study.asked(keys, given), budget=budget, own=own)


def _presets(overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a size, or a place, stands for.

    Raises:
        ConfigError: there is no such size.
    """
    text = overrides.get("size", Size.NANO.value)
    if text not in list(Size):
        raise unreadable("size", text, ", ".join(Size))
    if overrides.get("at") == At.SMALL.value and "size" not in overrides:
        return AT_SMALL
    return SIZES[Size(text)]


def _items(source: TaskSource, own: Mapping[str, str]) -> int:
    """Return how many items a task that says so has to train on; 0: it does not say."""
    key = next((one for one in source.keys if one.name == "items"), None)
    return 0 if key is None else int(key.read(own.get("items")))


def _drawn(budget: int, items: int) -> dict[str, str]:
    """Return how many items are asked, and how often: as many rollouts as there are in the budget, and no more."""
    asked = max(1, budget // _ROLLOUTS)
    if items and asked > items:
        return {"asked_items": str(items), "base_rollouts": str(max(2, budget // items))}
    rollouts = min(_ROLLOUTS, max(2, budget // asked))
    return {"asked_items": str(asked), "base_rollouts": str(rollouts)}
