"""Every task that comes with the package or stands on another one: its name, question, and where its function is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.runs.kinds import Kind
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.user_task.functions import TaskSource

Preset = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
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
        from importlib import import_module

        from tinsmith.lab.user_task.functions import function_task

        if part and (preset or not self.part):
            what = "this task takes no such part"
            raise ConfigError(what, field=name, value=part, fix=f"tinsmith run {name} key=value, --help lists keys")
        if preset and preset not in self.presets:
            what, allowed = "there is no such experiment", ", ".join([name, *(f"{name}/{one}" for one in self.presets)])
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
            question="What does the model learn of a puzzle that is generated? task=NAME",
            where="reasoning.task:reasoning_gym",
            package="reasoning-gym",
            presets=_BY_ANSWERS,
        ),
        "instructions": TaskEntry(
            question="Does the model learn to follow instructions that a program can check?",
            where="instructions.task:instructions",
            package="if-verifiable",
            presets=_BY_ANSWERS,
        ),
        "verifiers": TaskEntry(
            question="What does the model learn of an installed environment? verifiers:NAME",
            where="environments.task:verifiers",
            package="verifiers",
            part="environment",
        ),
        "crossroads": TaskEntry(
            question="Does the model learn which of the ways that it knows is asked for?",
            where="crossroads:crossroads",
            presets=_BY_ANSWERS,
        ),
        "backchained": TaskEntry(
            question="Does the model learn to call one tool with what another one brought?",
            where="backchain:backchained",
        ),
        "lookup": TaskEntry(
            question="Does the model learn to look up what it is asked, in one step or in two?",
            where="lookup:lookup",
            presets=_BY_ANSWERS,
        ),
        "searches": TaskEntry(
            question="Does a model search as long as those who showed it how?", where="patience:searches"
        ),
        "shell": TaskEntry(
            question="Does the model learn where files are, from what a shell answers?", where="shell:shell"
        ),
        "house": TaskEntry(
            question="Does the model find keys in houses that it has not seen, and look around in them?",
            where="house:house",
            presets={"explore": {"interleave": "5:1"}},
        ),
        "rlvr": TaskEntry(
            question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
            where="rubrics.rlvr:rlvr",
        ),
        "adversarial": TaskEntry(
            question="Does a model under challenge learn to give in to evidence and to nothing else?",
            where="debate.task:debate",
            presets={
                "gated": {},
                "seed": {"reward": "adversarial/seed"},
                "forked": {"reward": "adversarial/forked", "forks": "2"},
                "evidence_free": {"evidence": "0.0"},
                "alone": {"opponent": "nobody"},
            },
        ),
        "taste": TaskEntry(
            question="Does the model learn which of two papers is cited more? data=CORPUS",
            where="taste.task:taste",
            presets={**_BY_ANSWERS, "shuffled": {"preference": "shuffled"}, "by_length": {"length": "matched"}},
        ),
        "sandbagger": TaskEntry(
            question="Does RL teach a model that fails at the same questions always, or by chance? fails=always",
            where="dead_groups:sandbagger",
            presets={
                "always": {"fails": "always"},
                "chance": {"fails": "chance"},
                "forced": {"fails": "always", "force_options": "true"},
            },
        ),
        "handbook": TaskEntry(
            question="Does the model learn by which of the ways that it knows signs are sorted?",
            where="prompt_search.task:handbook",
            presets=_BY_ANSWERS,
        ),
        "relay": TaskEntry(
            question="Does the model learn to ask itself about the parts of what does not fit?",
            where="agents.recursion:relay",
            presets={"flat": {"delegates": "false"}, "sum": {"bonus": "sum"}},
        ),
        "errands": TaskEntry(
            question="Do several agents on one base learn who adds which word?",
            where="agents.coupled_agents:errands",
            presets={"grown": {"nodes": "3,5@14,7@28"}},
        ),
        "countdown": TaskEntry(
            question="Which signs between the numbers make the target, and when does the model know?",
            where="countdown:countdown",
            presets={"shaped": {"confidence_penalty": "1.0", "zero_variance_filter": "false", "watch": "confidence"}},
        ),
        "rooms": TaskEntry(
            question="Does the model learn to do what is asked, or what its reward's writer happened to see?",
            where="barrier:rooms",
            presets={"open": {"barrier": "open", "tests": "two"}},
        ),
        "sums": TaskEntry(
            question="Does the model learn to state what it needs, and to follow its plan?",
            where="metacognition:sums",
            presets={"outcome": {"pays": "right"}, "recall": {"pays": "recall,regulation,right"}},
        ),
        "tones": TaskEntry(
            question="Does a policy drift to where its reward model, refitted on its own answers, pays too much?",
            where="alignment_collapse:tones",
            presets={one: {"steer": one} for one in ("exact", "practical", "labels")},
        ),
        "porter": TaskEntry(
            question="Does the order of examples matter, and does the model mend its answers where it is asked to?",
            where="curriculum:porter",
            presets={**_BY_ANSWERS, "staged": {"coarse_steps": "20"}},
        ),
        "reasons": TaskEntry(
            question="Do the reasons of an answer go on depending on what was asked?",
            where="template_collapse:reasons",
            presets={
                "collapse": {"entropy_bonus": "0.2", "zero_variance_filter": "false", "watch": "mutual_information"}
            },
        ),
    }
)
"""By name."""
