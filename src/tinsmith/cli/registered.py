"""Every subject, experiment and study there is, by name: the one place that knows them all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.runs.files import CONFIG, Kind
from tinsmith.lab.user_task.entry import JUDGED_TASK, USER_TASK, UserTaskEntry
from tinsmith.studies.disruption.experiments import EXPERIMENTS, JOINT, LABELS
from tinsmith.types.errors import ConfigError, no_such
from tinsmith.types.source import PACKAGE

if TYPE_CHECKING:
    from tinsmith.lab.study.keys import Measurement, StudyKeys
    from tinsmith.lab.study.study import Study
    from tinsmith.lab.user_task.functions import TaskSource
    from tinsmith.types.waits import Say


Preset = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task by its name; `tinsmith run NAME` imports its function, whose arguments are its keys."""

    where: str  # Module below `tinsmith.studies`, and the function in it.
    asks: str = ""  # Its question in the list; empty: that of the task itself.
    package: str = ""  # Package whose tasks they are; empty: none.
    part: str = ""  # The argument that stands after a colon, `NAME:PART`.
    presets: Mapping[str, Preset] = field(default_factory=dict[str, Preset])
    """Named ways to run it, `NAME/PRESET`, and the keys that each changes, its own and those of every run."""

    @property
    def question(self) -> str:
        """Its question."""
        return self.asks or _question_in(self.where)

    def open(self, name: str, part: str, preset: str, given: Mapping[str, str]) -> TaskSource:
        """Return the task as it is named; its keys may depend on those that are given."""
        from tinsmith.lab.user_task.functions import function_task

        if part and (preset or not self.part):
            what = "this name has a part that the task does not have"
            raise ConfigError(what, field=name, value=part, fix=f"tinsmith run {name} key=value, --help lists keys")
        if preset and preset not in self.presets:
            what, allowed = "there is no such experiment", [name, *(f"{name}/{one}" for one in self.presets)]
            raise ConfigError(what, field="experiment", value=f"{name}/{preset}", allowed=allowed)
        module, _, function = self.where.partition(":")
        return function_task(
            getattr(import_module(f"tinsmith.studies.{module}"), function),
            found_at=f"{name}:{part}" if part else f"{name}/{preset}" if preset else name,
            bound={self.part: part} if self.part else {},
            preset=self.presets[preset] if preset else None,
            given=given,
        )


def source_file(where: str) -> Path:
    """Return the file of a MODULE:NAME below `tinsmith.studies`."""
    module = where.partition(":")[0]
    return PACKAGE.joinpath("studies", *module.split(".")).with_suffix(".py")


@cache
def _question_in(where: str) -> str:
    """Return the question of a study or a task from the text of its file: to import it may take seconds."""
    name = where.partition(":")[2]
    pattern = rf'^(?:def {name}\(|{name} = ).*?\bquestion="(.*?)",$'
    found = re.search(pattern, source_file(where).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{where} has its question in a line"
    return found[1]


_BY_ANSWERS: Final[Mapping[str, Preset]] = MappingProxyType(
    {"rl": {}, "sft": {"kind": Kind.TASK_SFT.value}, "sft_then_rl": {"sft_steps": "20"}}
)
"""Presets of a task with right answers."""

TASKS: Final[Mapping[str, TaskEntry]] = MappingProxyType(
    {
        "reasoning_gym": TaskEntry(
            "reasoning:reasoning_gym",
            "What does the model learn of a puzzle that is generated? task=NAME",
            package="reasoning-gym",
            presets=_BY_ANSWERS,
        ),
        "instructions": TaskEntry("instructions.task:instructions", package="if-verifiable", presets=_BY_ANSWERS),
        "verifiers": TaskEntry(
            "environments.task:verifiers",
            "What does the model learn of an installed environment? verifiers:NAME",
            package="verifiers",
            part="environment",
        ),
        "crossroads": TaskEntry("crossroads:crossroads", presets=_BY_ANSWERS),
        "backchained": TaskEntry("backchain:backchained"),
        "lookup": TaskEntry("pass_at_k.lookup:lookup", presets=_BY_ANSWERS),
        "searches": TaskEntry("patience:searches"),
        "shell": TaskEntry("environment_loss.shell:shell"),
        "house": TaskEntry("exploration.house:house", presets={"explore": {"interleave": "5:1"}}),
        "rlvr": TaskEntry("rubrics.rlvr:rlvr"),
        "adversarial": TaskEntry(
            "debate.task:debate",
            "Does a model under challenge learn to give in to evidence and to nothing else?",
            presets={
                "gated": {},
                "seed": {"reward": "adversarial/seed"},
                "forked": {"reward": "adversarial/forked", "forks": "2"},
                "evidence_free": {"evidence": "0.0"},
                "alone": {"opponent": "nobody"},
            },
        ),
        "taste": TaskEntry(
            "taste.task:taste",
            "Does the model learn which of two papers is cited more? data=CORPUS",
            presets={**_BY_ANSWERS, "shuffled": {"preference": "shuffled"}, "by_length": {"length": "matched"}},
        ),
        "sandbagger": TaskEntry(
            "dead_groups:sandbagger",
            "Does RL teach a model that fails at the same questions always, or by chance? fails=always",
            presets={
                "always": {"fails": "always"},
                "chance": {"fails": "chance"},
                "forced": {"fails": "always", "force_options": "true"},
            },
        ),
        "handbook": TaskEntry(
            "prompt_search.task:handbook",
            "Does the model learn by which of the ways that it knows signs are sorted?",
            presets=_BY_ANSWERS,
        ),
        "relay": TaskEntry("recursion:relay", presets={"flat": {"delegates": "false"}, "sum": {"bonus": "sum"}}),
        "errands": TaskEntry("coupled_agents:errands", presets={"grown": {"nodes": "3,5@14,7@28"}}),
        "countdown": TaskEntry(
            "confidence.countdown:countdown",
            "Which signs between the numbers make the target, and when does the model know?",
            presets={"shaped": {"confidence_penalty": "1.0", "zero_variance_filter": "false", "watch": "confidence"}},
        ),
        "rooms": TaskEntry("barrier.rooms:rooms", presets={"open": {"barrier": "open", "tests": "two"}}),
        "sums": TaskEntry(
            "metacognition:sums", presets={"outcome": {"pays": "right"}, "recall": {"pays": "recall,regulation,right"}}
        ),
        "tones": TaskEntry(
            "alignment_collapse:tones",
            presets={"exact": {"steer": "exact"}, "practical": {"steer": "practical"}, "labels": {"steer": "labels"}},
        ),
        "porter": TaskEntry("curriculum:porter", presets={**_BY_ANSWERS, "staged": {"coarse_steps": "20"}}),
        "reasons": TaskEntry(
            "template_collapse:reasons",
            presets={
                "collapse": {"entropy_bonus": "0.2", "zero_variance_filter": "false", "watch": "mutual_information"}
            },
        ),
    }
)
"""Every task by its name, in the order of the list."""


SUBJECTS: Final[Mapping[Kind, UserTaskEntry]] = MappingProxyType(
    {kind: one for one in (LABELS, JOINT, USER_TASK, JUDGED_TASK) for kind in one.kinds}
)
"""Subject of a run of each kind."""


_ALIASES: Final[Mapping[str, str]] = {
    "debate": "adversarial/gated or adversarial/seed",
    "disruption": "ladder/baseline or remedy/exp6",
    "grpo": "remedy/exp6 or rlvr or crossroads",
    "just_rl": "remedy/exp6 or study/sft_vs_rl",
    "novelty": "joint/disruption_novelty or remedy/exp6 task=novelty",
    "sft": "sft/lora or sft/qdora or study/sft_vs_rl",
}  # Words of the field, and names that run what they mean.


def find(name: str) -> Experiment:
    """Return an experiment by `family/rung`, with or without `@version`."""
    bare, _, version = name.partition("@")
    found = EXPERIMENTS.get(bare)
    if found is None or (version and version != str(found.version)):
        named = [*EXPERIMENTS, *STUDIES, *TASKS, *(f"{task}/{one}" for task in TASKS for one in TASKS[task].presets)]
        _require_no_path(name)
        what = "task, study or experiment"
        meant = _ALIASES.get(bare.lower().replace("-", "_"))
        raise no_such(what, field="NAME", value=name, name=bare, known=named, listed_by="tinsmith run", meant=meant)
    return found


def _require_no_path(name: str) -> None:
    """Refuse a folder or a file where a name is asked for, and say what can be run of it."""
    path, what, fix = Path(name), "", None
    if Path(f"{name}.py").is_file():
        what, fix = "a task or a study is run by its file's whole name", f"tinsmith run {name}.py"
    elif (path / CONFIG).is_file():
        what = "this folder holds a run already"
        fix = f"tinsmith replay {name} runs it again, tinsmith report {name} shows it"
    elif path.is_dir():
        what, fix = "this is a folder", "tinsmith run FILE.py, or the name of a task, a study or an experiment"
    elif path.is_file():
        what, fix = "a task or a study is a Python file", "tinsmith new my_task.py writes one to begin with"
    if what:
        raise ConfigError(what, field="NAME", value=name, fix=fix)


def source_of(name: str, given: Mapping[str, str]) -> TaskSource | None:
    """Return the source of a task by what a command line says; None: that names an experiment."""
    file, _, function = name.rpartition(":")
    if file.endswith(".py"):
        from tinsmith.lab.user_task.functions import function_in_file

        return function_in_file(Path(file), function)
    if name.endswith(".py"):
        from tinsmith.lab.user_task.functions import load_file

        return load_file(Path(name))
    named, _, part = name.partition(":")
    head, _, preset = named.partition("/")
    return TASKS[head].open(head, part, preset, given) if head in TASKS else None


def plan_of(name: str, overrides: Mapping[str, str]) -> Plan:
    """Return the plan of an experiment, or of a task of one's own, with `key=value` changes."""
    from tinsmith.lab.experiment.experiment import make_plan
    from tinsmith.lab.user_task.entry import open_task

    source = source_of(name, overrides)
    return make_plan(find(name), overrides) if source is None else open_task(source, overrides)


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A run that is more than one run, or none; `tinsmith run NAME key=value ...` runs it."""

    where: str | Study | Measurement
    """MODULE:NAME below `tinsmith.studies`, imported when its keys are asked for or it is run."""
    asks: str = ""  # Its question in the list; empty: that of the study itself.

    @property
    def question(self) -> str:
        """Its question."""
        return self.asks or (_question_in(self.where) if isinstance(self.where, str) else "")

    def value(self) -> Study | Measurement:
        """Return the study; or a measurement, whose arguments are its keys."""
        if not isinstance(self.where, str):
            return self.where
        module, _, name = self.where.partition(":")
        return getattr(import_module(f"tinsmith.studies.{module}"), name)

    def all_keys(self) -> StudyKeys:
        """Return its keys."""
        from tinsmith.lab.study import keys, sizes

        value = self.value()
        return keys.keys_of(value) if callable(value) else sizes.keys_of(value)

    def read(self, given: Mapping[str, str]) -> object:
        """Read `key=value` texts, of which a mistake is refused, and return what would be run."""
        from tinsmith.lab.study import keys, sizes

        value = self.value()
        if callable(value):
            return keys.measure_of(value, given)
        cells_of = sizes.packaged_cells if isinstance(self.where, str) else sizes.cells_of
        return cells_of(value, given, source_of)

    def run(self, given: Mapping[str, str], say: Say) -> Path:
        """Run it, and return its folder."""
        from tinsmith.lab.study import keys

        value = self.value()
        if callable(value):
            return keys.measure_of(value, given)(say)
        from tinsmith.lab.study.conduct import run_study

        return run_study(value, given, say, open_source=source_of)


def study_named(name: str) -> StudyEntry | None:
    """Return a study by its name or its file; None: there is none, or the file defines no study."""
    if not name.endswith(".py"):
        return STUDIES.get(name)
    from tinsmith.lab.study.files import load_study

    found = load_study(Path(name))
    if found is None:
        return None
    if callable(found):
        return StudyEntry(found, (found.__doc__ or "").strip().partition("\n")[0])
    return StudyEntry(found, found.question)


STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType(
    {
        "study/learning": StudyEntry(
            "learning:study",
            "What do supervised training, RL, and one after the other teach of a task, at equal effort? "
            "task=FILE.py or a packaged one",
        ),
        "study/taste": StudyEntry(
            "learning:taste", "What do SFT, RL, and one after the other teach of which of two papers is cited more?"
        ),
        "study/instructions": StudyEntry(
            "learning:instructions", "What do SFT, RL, and one after the other teach of following instructions?"
        ),
        "study/reasoning": StudyEntry(
            "learning:reasoning", "What do SFT, RL, and one after the other teach of a generated puzzle? generator=NAME"
        ),
        "alignment_collapse": StudyEntry("alignment_collapse:study"),
        "backchain": StudyEntry("backchain:study"),
        "barrier": StudyEntry("barrier.study:study"),
        "bridge": StudyEntry(
            "nets.bridge:bridge",
            "Do two frozen models, coupled by their hidden states, do together what one of them cannot?",
        ),
        "confidence": StudyEntry("confidence.study:study"),
        "coupled_agents": StudyEntry("coupled_agents:study"),
        "curriculum": StudyEntry("curriculum:study"),
        "dead_groups": StudyEntry("dead_groups:study"),
        "environment_loss": StudyEntry("environment_loss.study:study"),
        "exploration": StudyEntry("exploration.study:study"),
        "metacognition": StudyEntry("metacognition:study"),
        "microscope": StudyEntry("microscope.study:study"),
        "patience": StudyEntry("patience:study"),
        "pass_at_k": StudyEntry("pass_at_k.study:study"),
        "prompt_masked_pretraining": StudyEntry(
            "nets.prompt_masked_pretraining:prompt_masked_pretraining",
            "At equal FLOPs, what do a loss on responses, a prefix mask and recurrent depth add to a small net?",
        ),
        "prompt_search": StudyEntry("prompt_search.study:study"),
        "recursion": StudyEntry("recursion:study"),
        "sparse_select": StudyEntry("sparse_select:study"),
        "study/adapters": StudyEntry("adapters:study"),
        "study/sft_vs_rl": StudyEntry("sft_vs_rl:study"),
        "template_collapse": StudyEntry("template_collapse:study"),
        "rubric_quality": StudyEntry(
            "rubrics.quality.study:rubric_quality",
            "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?",
        ),
        "taste/probe": StudyEntry(
            "taste.probe:probe",
            "Which of two papers is cited more: what does a linear probe of the base's hidden states know?",
        ),
        "moe/wander": StudyEntry(
            "moe.study:wander",
            "Do a mixture's routes, log-probabilities and RL steps depend on what else is in the batch?",
        ),
    }
)
"""Every study by its name."""
