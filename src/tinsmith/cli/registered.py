"""Every subject, experiment and study there is, by name: the one place that knows them all."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, Plan, SubjectEntry
from tinsmith.lab.progress import Say
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.keys import StudyKeys
from tinsmith.lab.user_task.entry import USER_TASK
from tinsmith.studies.adapters import settings as adapters
from tinsmith.studies.confidence import settings as confidence
from tinsmith.studies.dead_groups import settings as dead_groups
from tinsmith.studies.debate.subject import DEBATE
from tinsmith.studies.disruption.subject import JOINT, LABELS
from tinsmith.studies.learning import keys as learning
from tinsmith.studies.microscope import settings as microscope
from tinsmith.studies.moe import settings as wander
from tinsmith.studies.rubrics.quality import settings as rubric_quality
from tinsmith.studies.rubrics.subject import RUBRICS
from tinsmith.studies.sft_vs_rl import keys as sft_vs_rl
from tinsmith.studies.sft_vs_rl.settings import sft_vs_rl_settings
from tinsmith.studies.taste import probe_settings as taste_probe
from tinsmith.studies.template_collapse import settings as template_collapse
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.user_task.source import TaskSource

_SUBJECTS: Final[tuple[SubjectEntry, ...]] = (LABELS, DEBATE, JOINT, RUBRICS, USER_TASK)

SUBJECTS: Final[Mapping[Kind, SubjectEntry]] = MappingProxyType(
    {kind: one for one in _SUBJECTS for kind in one.kinds}
)
"""What a run of each kind is on."""

EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType(
    {one.name: one for subject in _SUBJECTS for one in subject.experiments}
)
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by `family/rung`, with or without `@version`.

    Raises:
        ConfigError: there is none; it says which were perhaps meant.
    """
    bare, _, version = name.partition("@")
    found = EXPERIMENTS.get(bare)
    if found is None or (version and version != str(found.version)):
        near = difflib.get_close_matches(bare, EXPERIMENTS, n=2, cutoff=0.4)
        raise ConfigError(
            "there is no such experiment",
            field="experiment",
            value=name,
            allowed=", ".join(EXPERIMENTS),
            fix=f"perhaps {' or '.join(near)}" if near else "tinsmith run lists them",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTask:
    """Tasks that others keep, under one name; `tinsmith run NAME` or `NAME:REST` opens one."""

    name: str
    question: str
    package: str
    """Whose tasks they are; empty: they stand on no package."""
    open: Callable[[str, Mapping[str, str]], TaskSource]
    """Opens one by what stands after the colon; its keys may hang on those that are given."""
    presets: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Named ways to run it, `NAME/PRESET`, and the keys that each changes, its own and those of every run."""


def _open_reasoning(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.reasoning.source import reasoning_task

    return reasoning_task(rest, given)


def _open_instructions(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.instructions.source import instructions_task

    return instructions_task(rest, given)


def _open_environment(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.environments.source import environment_task

    return environment_task(rest, given)


def _open_crossroads(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.crossroads.source import crossroads_task

    return crossroads_task(rest, given)


def _open_taste(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.taste.source import taste_task

    return taste_task(rest, given)


def _open_sandbagger(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.dead_groups.task import sandbagger_source

    return sandbagger_source(rest, given)


def _open_countdown(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.confidence.task import countdown_source

    return countdown_source(rest, given)


def _open_reasons(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.template_collapse.task import reasons_source

    return reasons_source(rest, given)


_METHODS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "rl": MappingProxyType({}),
        "sft": MappingProxyType({"kind": Kind.TASK_SFT.value}),
        "sft_then_rl": MappingProxyType({"sft_steps": "20"}),
    }
)
"""How a task with right answers is trained."""

_KEPT: Final = (
    KeptTask(
        name="reasoning_gym",
        question="What does the model learn of a puzzle that is generated? task=NAME",
        package="reasoning-gym",
        open=_open_reasoning,
        presets=_METHODS,
    ),
    KeptTask(
        name="instructions",
        question="Does the model learn to follow instructions that a program can check?",
        package="if-verifiable",
        open=_open_instructions,
        presets=_METHODS,
    ),
    KeptTask(
        name="verifiers",
        question="What does the model learn of an installed environment? verifiers:NAME",
        package="verifiers",
        open=_open_environment,
    ),
    KeptTask(
        name="crossroads",
        question="Does the model learn which of the ways that it knows is asked for?",
        package="",
        open=_open_crossroads,
        presets=_METHODS,
    ),
    KeptTask(
        name="taste",
        question="Does the model learn which of two papers is cited more? data=CORPUS",
        package="",
        open=_open_taste,
        presets={
            **_METHODS,
            "shuffled": MappingProxyType({"preference": "shuffled"}),
            "by_length": MappingProxyType({"length": "matched"}),
        },
    ),
    KeptTask(
        name="sandbagger",
        question="Does RL teach a model that fails at the same questions always, or by chance? fails=always",
        package="",
        open=_open_sandbagger,
        presets={
            "always": MappingProxyType({"fails": "always"}),
            "chance": MappingProxyType({"fails": "chance"}),
            "forced": MappingProxyType({"fails": "always", "force_options": "true"}),
        },
    ),
    KeptTask(
        name="countdown",
        question="Which signs between the numbers make the target, and when does the model know?",
        package="",
        open=_open_countdown,
        presets={
            "shaped": MappingProxyType(
                {
                    "confidence_penalty": "1.0",
                    "zero_variance_filter": "false",
                    "watch": "confidence",
                }
            ),
        },
    ),
    KeptTask(
        name="reasons",
        question="Do the reasons of an answer go on depending on what was asked?",
        package="",
        open=_open_reasons,
        presets={
            "collapse": MappingProxyType(
                {
                    "entropy_bonus": "0.2",
                    "zero_variance_filter": "false",
                    "watch": "mutual_information",
                }
            ),
        },
    ),
)

KEPT_TASKS: Final[Mapping[str, KeptTask]] = MappingProxyType({one.name: one for one in _KEPT})
"""Tasks that others keep, by name."""


def source_of(name: str, given: Mapping[str, str]) -> TaskSource | None:
    """Return the source of a task by what a command line says; None: that names an experiment.

    Raises:
        ConfigError: there is no such file, or a mistake in it; a package of the task's is not installed.
    """
    whole, _, rest = name.partition(":")
    head, _, preset = whole.partition("/")
    if head in KEPT_TASKS and not preset:
        return KEPT_TASKS[head].open(rest, given)
    if head in KEPT_TASKS and not rest:
        return _preset(KEPT_TASKS[head], preset, given)
    if not name.endswith(".py"):
        return None
    from tinsmith.lab.user_task.loading import load_file

    return load_file(Path(name))


def _preset(kept: KeptTask, preset: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.lab.user_task.preset import PresetTask

    if preset not in kept.presets:
        raise ConfigError(
            "there is no such experiment",
            field="experiment",
            value=f"{kept.name}/{preset}",
            allowed=", ".join([kept.name, *(f"{kept.name}/{one}" for one in kept.presets)]),
        )
    values = kept.presets[preset]
    source = kept.open("", {**values, **given})
    return PresetTask(of=source, found_at=f"{kept.name}/{preset}", values=values)


def plan_of(name: str, overrides: Mapping[str, str]) -> Plan:
    """Return the plan of an experiment, or of a task of one's own, with `key=value` changes.

    Raises:
        ConfigError: there is no such thing, a mistake in it, or in a key.
    """
    from tinsmith.lab.experiment.plan import make_plan
    from tinsmith.lab.user_task.opening import open_task

    source = source_of(name, overrides)
    return make_plan(find(name), overrides) if source is None else open_task(source, overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEntry:
    """A run that is more than one run, or none; `tinsmith run NAME key=value ...` runs it."""

    name: str
    question: str
    keys: StudyKeys
    read: Callable[[Mapping[str, str]], object]
    """Reads `key=value` texts; raises ConfigError for what is not allowed."""
    run: Callable[[Mapping[str, str], Say], Path]


def _run_adapters(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.adapters.study import run_adapter_study

    return run_adapter_study(given, say)


def _run_sft_vs_rl(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.sft_vs_rl.study import run_sft_vs_rl

    return run_sft_vs_rl(given, say)


def _run_rubric_quality(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.rubrics.quality.study import run_rubric_quality

    return run_rubric_quality(given, say)


def _run_taste_probe(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.taste.probe import run_probe

    return run_probe(given, say)


def _run_wander(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.moe.study import run_wander

    return run_wander(given, say)


def _run_dead_groups(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.dead_groups.study import run_dead_groups

    return run_dead_groups(given, say)


def _run_confidence(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.confidence.study import run_confidence

    return run_confidence(given, say)


def _run_template_collapse(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.template_collapse.study import run_template_collapse

    return run_template_collapse(given, say)


def _read_microscope(given: Mapping[str, str]) -> object:
    return microscope.microscope_settings(given, source_of)


def _run_microscope(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.microscope.study import run_microscope

    return run_microscope(given, say, open_source=source_of, plan_of=plan_of)


def _learning(name: str, question: str, presets: Mapping[str, str]) -> StudyEntry:
    """Return a study of what is learned of a task, with some keys told."""
    own = MappingProxyType(dict(presets))

    def read(given: Mapping[str, str]) -> object:
        from tinsmith.studies.learning.settings import learning_settings

        return learning_settings(own, given, source_of)

    def run(given: Mapping[str, str], say: Say) -> Path:
        from tinsmith.studies.learning.study import run_learning

        return run_learning(own, given, say, open_source=source_of)

    return StudyEntry(
        name=name, question=question, keys=learning.learning_keys(own), read=read, run=run
    )


_STUDIES: Final = (
    StudyEntry(
        name=microscope.NAME,
        question=microscope.QUESTION,
        keys=microscope.microscope_keys(),
        read=_read_microscope,
        run=_run_microscope,
    ),
    StudyEntry(
        name="rubric_quality",
        question=rubric_quality.QUESTION,
        keys=rubric_quality.quality_keys(),
        read=rubric_quality.make_settings,
        run=_run_rubric_quality,
    ),
    StudyEntry(
        name="study/adapters",
        question=adapters.QUESTION,
        keys=adapters.ADAPTER_KEYS,
        read=adapters.adapter_study,
        run=_run_adapters,
    ),
    StudyEntry(
        name=confidence.NAME,
        question=confidence.QUESTION,
        keys=confidence.KEYS,
        read=confidence.confidence_settings,
        run=_run_confidence,
    ),
    StudyEntry(
        name=dead_groups.NAME,
        question=dead_groups.QUESTION,
        keys=dead_groups.KEYS,
        read=dead_groups.dead_settings,
        run=_run_dead_groups,
    ),
    StudyEntry(
        name=template_collapse.NAME,
        question=template_collapse.QUESTION,
        keys=template_collapse.KEYS,
        read=template_collapse.collapse_settings,
        run=_run_template_collapse,
    ),
    StudyEntry(
        name="study/sft_vs_rl",
        question=sft_vs_rl.QUESTION,
        keys=sft_vs_rl.SFT_VS_RL_KEYS,
        read=sft_vs_rl_settings,
        run=_run_sft_vs_rl,
    ),
    StudyEntry(
        name=taste_probe.PROBE,
        question=taste_probe.QUESTION,
        keys=taste_probe.PROBE_KEYS,
        read=taste_probe.probe_settings,
        run=_run_taste_probe,
    ),
    StudyEntry(
        name=wander.WANDER,
        question=wander.QUESTION,
        keys=wander.WANDER_KEYS,
        read=wander.wander_settings,
        run=_run_wander,
    ),
    _learning("study/learning", f"{learning.QUESTION} task=FILE.py or a kept one", {}),
    _learning(
        "study/taste",
        "What do SFT, RL, and one after the other teach of which of two papers is cited more?",
        {"task": "taste", "score": "right"},
    ),
    _learning(
        "study/instructions",
        "What do SFT, RL, and one after the other teach of following instructions?",
        {"task": "instructions", "score": "instruction_strict"},
    ),
    _learning(
        "study/reasoning",
        "What do SFT, RL, and one after the other teach of a generated puzzle? generator=NAME",
        {"task": "reasoning_gym", "score": "solved"},
    ),
)

STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType({one.name: one for one in _STUDIES})
"""Every study by its name."""
