"""Every subject, experiment and study there is, by name: the one place that knows them all."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.cli.tasks import TASKS
from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.keys import StudyKeys
from tinsmith.lab.user_task.entry import JUDGED_TASK, USER_TASK, UserTaskEntry
from tinsmith.studies.disruption.experiments import JOINT, LABELS
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.measurement import Measure, Measurement
    from tinsmith.lab.study.study import Study
    from tinsmith.lab.user_task.source import TaskSource

_SUBJECTS: Final[tuple[UserTaskEntry, ...]] = (LABELS, JOINT, USER_TASK, JUDGED_TASK)

SUBJECTS: Final[Mapping[Kind, UserTaskEntry]] = MappingProxyType({kind: one for one in _SUBJECTS for kind in one.kinds})
"""What a run of each kind is on."""

EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType(
    {one.name: one for subject in _SUBJECTS for one in subject.experiments}
)
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by `family/rung`, with or without `@version`."""
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


def source_of(name: str, given: Mapping[str, str]) -> TaskSource | None:
    """Return the source of a task by what a command line says; None: that names an experiment."""
    file, _, function = name.rpartition(":")
    if file.endswith(".py"):
        from tinsmith.lab.user_task.functions import function_in_file

        return function_in_file(Path(file), function)
    if name.endswith(".py"):
        from tinsmith.lab.user_task.loading import load_file

        return load_file(Path(name))
    named, _, part = name.partition(":")
    head, _, preset = named.partition("/")
    return TASKS[head].open(head, part, preset, given) if head in TASKS else None


def plan_of(name: str, overrides: Mapping[str, str]) -> Plan:
    """Return the plan of an experiment, or of a task of one's own, with `key=value` changes."""
    from tinsmith.lab.experiment.plan import make_plan
    from tinsmith.lab.user_task.opening import open_task

    source = source_of(name, overrides)
    return make_plan(find(name), overrides) if source is None else open_task(source, overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEntry:
    """A run that is more than one run, or none; `tinsmith run NAME key=value ...` runs it."""

    name: str
    question: str
    keys: StudyKeys | Callable[[], StudyKeys]
    """Or what returns them, where that imports the study."""
    read: Callable[[Mapping[str, str]], object]
    """Reads `key=value` texts; raises ConfigError for what is not allowed."""
    run: Callable[[Mapping[str, str], Say], Path]

    def all_keys(self) -> StudyKeys:
        """Return the study's keys."""
        return self.keys() if callable(self.keys) else self.keys


def study_named(name: str) -> StudyEntry | None:
    """Return a study by its name or its file; None: there is none, or the file defines no study."""
    if not name.endswith(".py"):
        return STUDIES.get(name)
    from tinsmith.lab.study.files import load_study

    found = load_study(Path(name))
    return None if found is None else _declared(found.name, found.question, lambda: found)


def _module_study(name: str) -> Callable[[], Study]:
    def value() -> Study:
        if name in LEARNING:
            presets: Mapping[str, Study] = import_module("tinsmith.studies.learning").presets
            return presets[name]
        found: Study = import_module(f"tinsmith.studies.{_IN_FOLDERS.get(name, name.removeprefix('study/'))}").study
        return found

    return value


def _declared(name: str, question: str, value: Callable[[], Study]) -> StudyEntry:
    """Return a study that is a value, whose module is imported when its keys are asked for or it is run."""

    def keys() -> StudyKeys:
        from tinsmith.lab.study.sizes import keys_of

        return keys_of(value())

    def read(given: Mapping[str, str]) -> object:
        from tinsmith.lab.study.sizes import cells_of, named_source

        return cells_of(value(), given, named_source(value(), given, source_of), source_of)

    def run(given: Mapping[str, str], say: Say) -> Path:
        from tinsmith.lab.study.conduct import run_study
        from tinsmith.lab.study.sizes import named_source

        source = named_source(value(), given, source_of)
        return run_study(value(), given, say, source=source, open_source=source_of)

    return StudyEntry(name=name, question=question, keys=keys, read=read, run=run)


def _measured(name: str, question: str, function: str) -> StudyEntry:
    """Return a measurement by its function, MODULE:NAME, whose arguments are its keys."""
    module, _, function_name = function.partition(":")

    def measurement() -> Measurement:
        return getattr(import_module(f"tinsmith.studies.{module}"), function_name)

    def keys() -> StudyKeys:
        from tinsmith.lab.measurement import keys_of

        return keys_of(measurement())

    def read(given: Mapping[str, str]) -> Measure:
        from tinsmith.lab.measurement import asked

        return asked(measurement(), given)

    return StudyEntry(name=name, question=question, keys=keys, read=read, run=lambda given, say: read(given)(say))


LEARNING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "study/learning": (
            "What do supervised training, RL, and one after the other teach of a task, at equal effort? task=FILE.py "
            "or a packaged one"
        ),
        "study/taste": "What do SFT, RL, and one after the other teach of which of two papers is cited more?",
        "study/instructions": "What do SFT, RL, and one after the other teach of following instructions?",
        "study/reasoning": "What do SFT, RL, and one after the other teach of a generated puzzle? generator=NAME",
    }
)
"""Questions of one study on several tasks."""
_IN_FOLDERS: Final = {"microscope": "microscope.study", "prompt_search": "prompt_search.study"}
"""Modules of studies that have a folder."""
DECLARED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **LEARNING,
        "confidence": (
            "Is a model sure of its answer before it has reasoned, and does a reward for rising confidence help?"
        ),
        "dead_groups": (
            "Can RL mend a model that fails, where it always fails at the same questions, and where by chance?"
        ),
        "environment_loss": (
            "Does a loss on what the environment answers make RL faster, and from which weight does it bore?"
        ),
        "exploration": (
            "Does exploration between batches of a task teach an agent its surroundings, at no cost to the task?"
        ),
        "microscope": "Which tokens of an answer does RL change, and do those few explain what it gains?",
        "pass_at_k": "Does RL make a model solve questions that its base never solves, however often it is asked?",
        "prompt_search": "Does a search for a better prompt reach what RL reaches, with the model as it is?",
        "sparse_select": (
            "Does training at a few uncertain tokens of rollouts that the base drew once do what GRPO does?"
        ),
        "study/adapters": (
            "What do four bits and a trained magnitude cost and gain, each adapter at the rate that suits it?"
        ),
        "study/sft_vs_rl": (
            "Does RL teach a small model to tell labels better than SFT does, with nothing else unequal?"
        ),
        "template_collapse": (
            "Do answers stop depending on what was asked while they vary as before, and does a filter prevent it?"
        ),
    }
)
"""Questions of the studies that are values, by name; `study/` is no part of a module's name."""
_STUDIES: Final = (
    *(_declared(name, question, _module_study(name)) for name, question in DECLARED.items()),
    _measured(
        "rubric_quality",
        "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?",
        "rubrics.quality.study:rubric_quality",
    ),
    _measured(
        "taste/probe",
        "What does a base model hold of it before any training, read off its hidden states by a line?",
        "taste.probe:probe",
    ),
    _measured(
        "moe/wander",
        "Do a mixture's routes, log-probabilities and RL steps depend on who else is in the batch?",
        "moe.study:wander",
    ),
)

STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType({one.name: one for one in _STUDIES})
"""Every study by its name."""
