"""Keys of the microscope: two policies of finished runs, or a task on which it trains some with RL first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.key_text import unreadable
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Opened, Study, StudyArm
from tinsmith.lab.study.keys import DRY_RUN, StudyKey, StudyKeys, count, numbers
from tinsmith.lab.study.task_study import GENERATOR, SUMS, OpenSource, keys_of_source, sized_presets, studied_source
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.types.errors import ConfigError

NAME: Final = "microscope"
QUESTION: Final = "Which tokens of an answer does RL change, and do those few explain what it gains?"


class Size(StrEnum):
    """Sizes of the study."""

    SMALLEST = "smallest"
    """About a minute."""
    NANO = "nano"


_ONE: Final = {"seeds": "1", "samples": "2"}
SIZES: Final[Mapping[Size, Mapping[str, str]]] = MappingProxyType(
    {
        Size.SMALLEST: {**_ONE, "steps": "40", "held_out_items": "24", "practice": "200"},
        Size.NANO: {"seeds": "1,2,3,4,5", "samples": "4", "practice": "400"},
    }
)
"""Keys by size; `steps`, `items` and the like are the task's, where it is the study's own."""
AT_SMALL: Final[Mapping[str, str]] = MappingProxyType(
    {**SUMS, **_ONE, "steps": "24", "groups_per_batch": "8", "learning_rate": "3e-4", "eval_items": "24"}
)
"""Keys on a small pretrained model, which has read no demonstrations of crossroads and takes none: sums, of which it
solves some, and learns to solve more."""
_OWN_TASK: Final = "crossroads"
_RL: Final = TASK_KINDS[Kind.TASK].keys
_SET: Final = frozenset(["kind", "seed", "base_url", "log_path", "stop_after", "behavior_if_log_dir_exists", "quiet"])

_KEYS: Final = StudyKeys(
    own=(
        StudyKey("size", Size.NANO.value, "smallest (about a minute) or nano."),
        StudyKey("task", _OWN_TASK, "What is trained on: a kept task, or FILE.py."),
        GENERATOR,
        StudyKey("first", "", "Instead of training: DIR@base, DIR@STEP or DIR@final of a run."),
        StudyKey("second", "", "The other policy, which is looked for in the first."),
        StudyKey("out", "runs/microscope", "The study's folder."),
        StudyKey("seeds", SIZES[Size.NANO]["seeds"], "Of the runs that are looked at."),
        StudyKey("tuning_seed", "0", "On which the settings were chosen; none of the others."),
        StudyKey("samples", SIZES[Size.NANO]["samples"], "Answers to an item, where sampled."),
        StudyKey("threshold", "0.7", "Nats above which the first counts as uncertain."),
        DRY_RUN,
    ),
    passed_on=_RL.known - _SET,
    set_by_study=_SET,
    instead="seeds and out",
    more="The task's own keys are the study's too, and any key of RL is one of every run.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A policy of a run that is there."""

    folder: Path
    when: str
    """`base`, a step, or `final`."""

    def __str__(self) -> str:
        """Return it as it was asked for."""
        return f"{self.folder}@{self.when}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeSettings:
    """See the module."""

    study: Study
    samples: int
    threshold: float
    sides: tuple[Side, Side] | None = None
    """None: the study trains what it looks at."""

    def deciding(self) -> dict[str, object]:
        """Return what decides the results, but for the items and the base."""
        own = self.study.arms[0].opened if self.study.arms else None
        return {
            "samples": self.samples,
            "threshold": self.threshold,
            **({} if own is None else {"task": own.found_at, **own.keys}),
            **{key: value for key, value in self.study.shared.items() if key != "quiet"},
        }


def microscope_keys(source: TaskSource | None = None) -> StudyKeys:
    """Return the keys of the study, with the own ones of its task."""
    if source is None:
        return _KEYS
    return replace(_KEYS, passed_on=_KEYS.passed_on | {key.name for key in source.keys})


def microscope_settings(overrides: Mapping[str, str], open_source: OpenSource) -> MicroscopeSettings:
    """Read `key=value`: the study's own keys, the task's, and any key of RL for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    presets = sized_presets(presets_of(overrides), _KEYS, overrides, _OWN_TASK)
    if "first" in overrides or "second" in overrides:
        return _of_sides(overrides)
    given = {**presets, **overrides}
    source = studied_source(given, open_source, "the microscope looks at runs on a task")
    assert source.found_at is not None, "another is refused"
    keys = microscope_keys(source)
    keys.require(overrides)
    own = keys_of_source(source, given)
    passed_on = keys.runs_keys({key: given[key] for key in given if key not in own})
    shared = {"split_seed": "0", **passed_on}
    plan = open_task(source, {**own, **shared})
    opened = Opened(found_at=source.found_at, keys=own)
    arm = StudyArm("grpo", "GRPO", plan.experiment, (plan.settings.learning_rate,), opened=opened)
    study = Study(name=NAME, question=QUESTION, arms=(arm,), shared=shared)
    return _settings(study, keys, given)


def _settings(
    study: Study, keys: StudyKeys, given: Mapping[str, str], sides: tuple[Side, Side] | None = None
) -> MicroscopeSettings:
    text = keys.value(given, "threshold")
    found = numbers("threshold", text, float)
    if len(found) != 1 or not 0.0 <= found[0] < 100.0:
        raise unreadable("threshold", text, "nats, 0 or more")
    samples = count("samples", keys.value(given, "samples"), 1)
    return MicroscopeSettings(study=study.asked(keys, given), samples=samples, threshold=found[0], sides=sides)


def presets_of(overrides: Mapping[str, str]) -> Mapping[str, str]:
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


def _of_sides(overrides: Mapping[str, str]) -> MicroscopeSettings:
    """Read two policies that are there; nothing is trained."""
    allowed = {"first", "second", "out", "samples", "threshold", "dry_run", "size"}
    for key, value in overrides.items():
        if key not in allowed:
            raise ConfigError(
                "nothing is trained where two policies are named",
                field=key,
                value=value,
                allowed=", ".join(sorted(allowed)),
            )
    if "second" not in overrides:
        raise ConfigError("a second policy is needed", field="second", fix="second=DIR@final")
    second = _side("second", overrides["second"])
    first = _side("first", overrides.get("first", f"{second.folder}@base"))
    study = Study(name=NAME, question=QUESTION, arms=(), shared={})
    return _settings(study, _KEYS, overrides, (first, second))


def _side(key: str, text: str) -> Side:
    folder, _, when = text.rpartition("@")
    if not folder:
        raise ConfigError("name a run and when", field=key, value=text, allowed="DIR@base, DIR@STEP or DIR@final")
    if not Path(folder).is_dir():
        raise ConfigError("there is no such folder", field=key, value=folder)
    return Side(folder=Path(folder), when=when)
