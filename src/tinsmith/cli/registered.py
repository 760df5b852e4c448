"""Every subject, experiment and study there is, by name: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.runs.files import CONFIG, Kind
from tinsmith.lab.user_task.entry import JUDGED_TASK, USER_TASK, UserTaskEntry
from tinsmith.studies.disruption.experiments import EXPERIMENTS, JOINT, LABELS
from tinsmith.types.errors import ConfigError, no_such

if TYPE_CHECKING:
    from tinsmith.lab.study.keys import Measurement, StudyKeys
    from tinsmith.lab.study.study import Study
    from tinsmith.lab.user_task.functions import TaskSource
    from tinsmith.types.waits import Say


Preset = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task by its name; `tinsmith run NAME` imports its function, whose arguments are its keys."""

    question: str
    where: str  # Module below `tinsmith.studies`, and the function in it.
    package: str = ""  # Package whose tasks they are; empty: none.
    part: str = ""  # The argument that stands after a colon, `NAME:PART`.
    presets: Mapping[str, Preset] = field(default_factory=dict[str, Preset])
    """Named ways to run it, `NAME/PRESET`, and the keys that each changes, its own and those of every run."""

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


_BY_ANSWERS: Final[Mapping[str, Preset]] = MappingProxyType(
    {"rl": {}, "sft": {"kind": Kind.TASK_SFT.value}, "sft_then_rl": {"sft_steps": "20"}}
)
"""Presets of a task with right answers."""

TASKS: Final[Mapping[str, TaskEntry]] = MappingProxyType(
    {
        "reasoning_gym": TaskEntry(
            "What does the model learn of a puzzle that is generated? task=NAME",
            "reasoning:reasoning_gym",
            package="reasoning-gym",
            presets=_BY_ANSWERS,
        ),
        "instructions": TaskEntry(
            "Does the model learn to follow instructions that a program can check?",
            "instructions.task:instructions",
            package="if-verifiable",
            presets=_BY_ANSWERS,
        ),
        "verifiers": TaskEntry(
            "What does the model learn of an installed environment? verifiers:NAME",
            "environments.task:verifiers",
            package="verifiers",
            part="environment",
        ),
        "crossroads": TaskEntry(
            "Does the model learn which of the ways that it knows is asked for?",
            "crossroads:crossroads",
            presets=_BY_ANSWERS,
        ),
        "backchained": TaskEntry(
            "Does the model learn to call one tool with what another one brought?", "backchain:backchained"
        ),
        "lookup": TaskEntry(
            "Does the model learn to look up what it is asked, in one step or in two?",
            "pass_at_k.lookup:lookup",
            presets=_BY_ANSWERS,
        ),
        "searches": TaskEntry("Does a model search as long as those who showed it how?", "patience:searches"),
        "shell": TaskEntry(
            "Does the model learn where files are, from what a shell answers?", "environment_loss.shell:shell"
        ),
        "house": TaskEntry(
            "Does the model find keys in houses that it has not seen, and look around in them?",
            "exploration.house:house",
            presets={"explore": {"interleave": "5:1"}},
        ),
        "rlvr": TaskEntry(
            "Does a model follow instructions better once fulfilled rubrics are rewarded?", "rubrics.rlvr:rlvr"
        ),
        "adversarial": TaskEntry(
            "Does a model under challenge learn to give in to evidence and to nothing else?",
            "debate.task:debate",
            presets={
                "gated": {},
                "seed": {"reward": "adversarial/seed"},
                "forked": {"reward": "adversarial/forked", "forks": "2"},
                "evidence_free": {"evidence": "0.0"},
                "alone": {"opponent": "nobody"},
            },
        ),
        "taste": TaskEntry(
            "Does the model learn which of two papers is cited more? data=CORPUS",
            "taste.task:taste",
            presets={**_BY_ANSWERS, "shuffled": {"preference": "shuffled"}, "by_length": {"length": "matched"}},
        ),
        "sandbagger": TaskEntry(
            "Does RL teach a model that fails at the same questions always, or by chance? fails=always",
            "dead_groups:sandbagger",
            presets={
                "always": {"fails": "always"},
                "chance": {"fails": "chance"},
                "forced": {"fails": "always", "force_options": "true"},
            },
        ),
        "handbook": TaskEntry(
            "Does the model learn by which of the ways that it knows signs are sorted?",
            "prompt_search.task:handbook",
            presets=_BY_ANSWERS,
        ),
        "relay": TaskEntry(
            "Does the model learn to ask itself about the parts of what does not fit?",
            "recursion:relay",
            presets={"flat": {"delegates": "false"}, "sum": {"bonus": "sum"}},
        ),
        "errands": TaskEntry(
            "Do several agents on one base learn who adds which word?",
            "coupled_agents:errands",
            presets={"grown": {"nodes": "3,5@14,7@28"}},
        ),
        "countdown": TaskEntry(
            "Which signs between the numbers make the target, and when does the model know?",
            "confidence.countdown:countdown",
            presets={"shaped": {"confidence_penalty": "1.0", "zero_variance_filter": "false", "watch": "confidence"}},
        ),
        "rooms": TaskEntry(
            "Does the model learn to do what is asked, or what its reward's writer happened to see?",
            "barrier.rooms:rooms",
            presets={"open": {"barrier": "open", "tests": "two"}},
        ),
        "sums": TaskEntry(
            "Does the model learn to state what it needs, and to follow its plan?",
            "metacognition:sums",
            presets={"outcome": {"pays": "right"}, "recall": {"pays": "recall,regulation,right"}},
        ),
        "tones": TaskEntry(
            "Does a policy drift to where its reward model, refitted on its own answers, pays too much?",
            "alignment_collapse:tones",
            presets={"exact": {"steer": "exact"}, "practical": {"steer": "practical"}, "labels": {"steer": "labels"}},
        ),
        "porter": TaskEntry(
            "Does the order of examples matter, and does the model mend its answers where it is asked to?",
            "curriculum:porter",
            presets={**_BY_ANSWERS, "staged": {"coarse_steps": "20"}},
        ),
        "reasons": TaskEntry(
            "Do the reasons of an answer go on depending on what was asked?",
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


def find(name: str) -> Experiment:
    """Return an experiment by `family/rung`, with or without `@version`."""
    bare, _, version = name.partition("@")
    found = EXPERIMENTS.get(bare)
    if found is None or (version and version != str(found.version)):
        named = [*EXPERIMENTS, *STUDIES, *TASKS, *(f"{task}/{one}" for task in TASKS for one in TASKS[task].presets)]
        _require_no_path(name)
        what = "task, study or experiment"
        raise no_such(what, field="NAME", value=name, name=bare, known=named, listed_by="tinsmith run")
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

    question: str
    where: str | Study | Measurement
    """MODULE:NAME below `tinsmith.studies`, imported when its keys are asked for or it is run."""

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
        return keys.measure_of(value, given) if callable(value) else sizes.cells_of(value, given, source_of)

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
        return StudyEntry((found.__doc__ or "").strip().partition("\n")[0], found)
    return StudyEntry(found.question, found)


STUDIES: Final[Mapping[str, StudyEntry]] = MappingProxyType(
    {
        "study/learning": StudyEntry(
            "What do supervised training, RL, and one after the other teach of a task, at equal effort? "
            "task=FILE.py or a packaged one",
            "learning:study",
        ),
        "study/taste": StudyEntry(
            "What do SFT, RL, and one after the other teach of which of two papers is cited more?", "learning:taste"
        ),
        "study/instructions": StudyEntry(
            "What do SFT, RL, and one after the other teach of following instructions?", "learning:instructions"
        ),
        "study/reasoning": StudyEntry(
            "What do SFT, RL, and one after the other teach of a generated puzzle? generator=NAME", "learning:reasoning"
        ),
        "alignment_collapse": StudyEntry(
            "Does a policy exploit a reward model that is refitted on its answers, and does the steering term help?",
            "alignment_collapse:study",
        ),
        "backchain": StudyEntry(
            "Do tasks written from observed results of tool calls teach more than tasks with assumed answers?",
            "backchain:study",
        ),
        "barrier": StudyEntry(
            "Does it matter that the writer of a reward cannot see how its tasks were made?", "barrier.study:study"
        ),
        "bridge": StudyEntry(
            "Do two frozen models, coupled by their hidden states, do together what one of them cannot?",
            "nets.bridge:bridge",
        ),
        "confidence": StudyEntry(
            "Is a model sure of its answer before it has reasoned, and does a reward for rising confidence help?",
            "confidence.study:study",
        ),
        "coupled_agents": StudyEntry(
            "Do several agents with small adapters do more than one agent with as many weights, if they are grown?",
            "coupled_agents:study",
        ),
        "curriculum": StudyEntry(
            "Does the order of examples matter apart from the learning-rate schedule, and do stages and loops help?",
            "curriculum:study",
        ),
        "dead_groups": StudyEntry(
            "Can RL fix a model that fails, always at the same questions or at random?", "dead_groups:study"
        ),
        "environment_loss": StudyEntry(
            "Does a loss on the environment's replies make RL faster, and at which weight does exploration stop?",
            "environment_loss.study:study",
        ),
        "exploration": StudyEntry(
            "Does exploration between batches of a task teach an agent its environment, at no cost to the task?",
            "exploration.study:study",
        ),
        "metacognition": StudyEntry(
            "Do rewards for stated knowledge and plans do more than the reward for the answer alone?",
            "metacognition:study",
        ),
        "microscope": StudyEntry(
            "Which tokens of an answer does RL change, and do those few explain the gain?", "microscope.study:study"
        ),
        "patience": StudyEntry(
            "Does a model search as long as its demonstrations do, and does it then find what is far away?",
            "patience:study",
        ),
        "pass_at_k": StudyEntry(
            "Does RL make a model solve questions that its base never solves, however often it is asked?",
            "pass_at_k.study:study",
        ),
        "prompt_masked_pretraining": StudyEntry(
            "At equal FLOPs, what do a loss on responses, a prefix mask and recurrent depth add to a small net?",
            "nets.prompt_masked_pretraining:prompt_masked_pretraining",
        ),
        "prompt_search": StudyEntry(
            "Does a search for a better prompt reach what RL reaches, with the model as it is?",
            "prompt_search.study:study",
        ),
        "recursion": StudyEntry(
            "Does RL teach a model to split what does not fit its context, and ask itself about the parts?",
            "recursion:study",
        ),
        "sparse_select": StudyEntry(
            "Does offline training on a few uncertain tokens of the base's own rollouts do what GRPO does?",
            "sparse_select:study",
        ),
        "study/adapters": StudyEntry(
            "What do 4-bit weights and trained magnitudes cost and gain, each adapter at its best learning rate?",
            "adapters:study",
        ),
        "study/sft_vs_rl": StudyEntry(
            "Does RL teach a small model to tell labels better than SFT does, with nothing else unequal?",
            "sft_vs_rl:study",
        ),
        "template_collapse": StudyEntry(
            "Do answers stop depending on the prompt while they stay varied, and does a filter prevent it?",
            "template_collapse:study",
        ),
        "rubric_quality": StudyEntry(
            "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?",
            "rubrics.quality.study:rubric_quality",
        ),
        "taste/probe": StudyEntry(
            "Which of two papers is cited more: what does a linear probe of the base's hidden states know?",
            "taste.probe:probe",
        ),
        "moe/wander": StudyEntry(
            "Do a mixture's routes, log-probabilities and RL steps depend on what else is in the batch?",
            "moe.study:wander",
        ),
    }
)
"""Every study by its name."""
