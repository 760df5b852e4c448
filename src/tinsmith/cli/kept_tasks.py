"""Every task that is kept here or that others keep, by name, and its presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.runs.kinds import Kind

if TYPE_CHECKING:
    from tinsmith.lab.user_task.source import TaskSource


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


def _open_handbook(rest: str, given: Mapping[str, str]) -> TaskSource:
    from tinsmith.studies.prompt_search.task import handbook_source

    return handbook_source(rest, given)


def _function(module: str, name: str) -> Callable[[str, Mapping[str, str]], TaskSource]:
    """Return what opens a task that is a function of a study's module."""

    def opened(rest: str, given: Mapping[str, str]) -> TaskSource:
        from importlib import import_module

        from tinsmith.lab.user_task.functions import function_task
        from tinsmith.lab.user_task.named import require_only

        del given
        require_only(name, rest)
        return function_task(getattr(import_module(f"tinsmith.studies.{module}"), name))

    return opened


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
        name="lookup",
        question="Does the model learn to look up what it is asked, in one step or in two?",
        package="",
        open=_function("lookup", "lookup"),
        presets=_METHODS,
    ),
    KeptTask(
        name="shell",
        question="Does the model learn where files are, from what a shell answers?",
        package="",
        open=_function("shell", "shell"),
    ),
    KeptTask(
        name="house",
        question="Does the model find keys in houses that it has not seen, and look around in them?",
        package="",
        open=_function("house", "house"),
        presets={"explore": MappingProxyType({"interleave": "5:1"})},
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
        open=_function("dead_groups", "sandbagger"),
        presets={
            "always": MappingProxyType({"fails": "always"}),
            "chance": MappingProxyType({"fails": "chance"}),
            "forced": MappingProxyType({"fails": "always", "force_options": "true"}),
        },
    ),
    KeptTask(
        name="handbook",
        question="Does the model learn by which of the ways that it knows signs are sorted?",
        package="",
        open=_open_handbook,
        presets=_METHODS,
    ),
    KeptTask(
        name="countdown",
        question="Which signs between the numbers make the target, and when does the model know?",
        package="",
        open=_function("countdown", "countdown"),
        presets={
            "shaped": MappingProxyType(
                {"confidence_penalty": "1.0", "zero_variance_filter": "false", "watch": "confidence"}
            )
        },
    ),
    KeptTask(
        name="reasons",
        question="Do the reasons of an answer go on depending on what was asked?",
        package="",
        open=_function("template_collapse", "reasons"),
        presets={
            "collapse": MappingProxyType(
                {"entropy_bonus": "0.2", "zero_variance_filter": "false", "watch": "mutual_information"}
            )
        },
    ),
)

KEPT_TASKS: Final[Mapping[str, KeptTask]] = MappingProxyType({one.name: one for one in _KEPT})
"""Tasks that others keep, by name."""
