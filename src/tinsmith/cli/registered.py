"""Every subject, experiment and study there is, by name: the one place that knows them all."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.cli.kept_tasks import KEPT_TASKS, KeptTask
from tinsmith.lab.experiment.experiment import Experiment, Plan, SubjectEntry
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.keys import StudyKeys
from tinsmith.lab.user_task.entry import USER_TASK
from tinsmith.studies.adapters import settings as adapters
from tinsmith.studies.confidence import settings as confidence
from tinsmith.studies.dead_groups import settings as dead_groups
from tinsmith.studies.debate.subject import DEBATE
from tinsmith.studies.disruption.subject import JOINT, LABELS
from tinsmith.studies.environment_loss import settings as environment_loss
from tinsmith.studies.exploration import settings as exploration
from tinsmith.studies.learning import keys as learning
from tinsmith.studies.microscope import settings as microscope
from tinsmith.studies.moe import settings as wander
from tinsmith.studies.pass_at_k import settings as pass_at_k
from tinsmith.studies.prompt_search import settings as prompt_search
from tinsmith.studies.rubrics.quality import settings as rubric_quality
from tinsmith.studies.rubrics.subject import RUBRICS
from tinsmith.studies.sft_vs_rl import keys as sft_vs_rl
from tinsmith.studies.sft_vs_rl.settings import sft_vs_rl_settings
from tinsmith.studies.sparse_select import settings as sparse_select
from tinsmith.studies.taste import probe_settings as taste_probe
from tinsmith.studies.template_collapse import settings as template_collapse
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.user_task.source import TaskSource

_SUBJECTS: Final[tuple[SubjectEntry, ...]] = (LABELS, DEBATE, JOINT, RUBRICS, USER_TASK)

SUBJECTS: Final[Mapping[Kind, SubjectEntry]] = MappingProxyType({kind: one for one in _SUBJECTS for kind in one.kinds})
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


def _run_template_collapse(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.template_collapse.study import run_template_collapse

    return run_template_collapse(given, say)


def _read_prompt_search(given: Mapping[str, str]) -> object:
    return prompt_search.prompt_settings(given, source_of)


def _run_prompt_search(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.prompt_search.study import run_prompt_search

    return run_prompt_search(given, say, open_source=source_of)


def _read_microscope(given: Mapping[str, str]) -> object:
    return microscope.microscope_settings(given, source_of)


def _run_microscope(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.microscope.study import run_microscope

    return run_microscope(given, say, open_source=source_of, plan_of=plan_of)


def _run_confidence(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.confidence.study import run_confidence

    return run_confidence(given, say)


def _run_environment_loss(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.environment_loss.study import run_environment_loss

    return run_environment_loss(given, say)


def _run_exploration(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.exploration.study import run_exploration

    return run_exploration(given, say)


def _run_pass_at_k(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.pass_at_k.study import run_pass_at_k

    return run_pass_at_k(given, say)


def _read_sparse_select(given: Mapping[str, str]) -> object:
    return sparse_select.sparse_study(given, source_of)


def _run_sparse_select(given: Mapping[str, str], say: Say) -> Path:
    from tinsmith.studies.sparse_select.study import run_sparse_select

    return run_sparse_select(given, say, open_source=source_of)


def _learning(name: str, question: str, presets: Mapping[str, str]) -> StudyEntry:
    """Return a study of what is learned of a task, with some keys told."""
    own = MappingProxyType(dict(presets))

    def read(given: Mapping[str, str]) -> object:
        from tinsmith.studies.learning.settings import learning_settings

        return learning_settings(own, given, source_of)

    def run(given: Mapping[str, str], say: Say) -> Path:
        from tinsmith.studies.learning.study import run_learning

        return run_learning(own, given, say, open_source=source_of)

    return StudyEntry(name=name, question=question, keys=learning.learning_keys(own), read=read, run=run)


_STUDIES: Final = (
    StudyEntry(
        name=confidence.NAME,
        question=confidence.QUESTION,
        keys=confidence.KEYS,
        read=confidence.confidence_settings,
        run=_run_confidence,
    ),
    StudyEntry(
        name=environment_loss.STUDY,
        question=environment_loss.QUESTION,
        keys=environment_loss.STUDY_KEYS,
        read=environment_loss.environment_loss_study,
        run=_run_environment_loss,
    ),
    StudyEntry(
        name=exploration.STUDY,
        question=exploration.QUESTION,
        keys=exploration.STUDY_KEYS,
        read=exploration.exploration_study,
        run=_run_exploration,
    ),
    StudyEntry(
        name=microscope.NAME,
        question=microscope.QUESTION,
        keys=microscope.microscope_keys(),
        read=_read_microscope,
        run=_run_microscope,
    ),
    StudyEntry(
        name=pass_at_k.STUDY,
        question=pass_at_k.QUESTION,
        keys=pass_at_k.STUDY_KEYS,
        read=pass_at_k.pass_at_k_study,
        run=_run_pass_at_k,
    ),
    StudyEntry(
        name="rubric_quality",
        question=rubric_quality.QUESTION,
        keys=rubric_quality.quality_keys(),
        read=rubric_quality.make_settings,
        run=_run_rubric_quality,
    ),
    StudyEntry(
        name=sparse_select.NAME,
        question=sparse_select.QUESTION,
        keys=sparse_select.sparse_keys(),
        read=_read_sparse_select,
        run=_run_sparse_select,
    ),
    StudyEntry(
        name="study/adapters",
        question=adapters.QUESTION,
        keys=adapters.ADAPTER_KEYS,
        read=adapters.adapter_study,
        run=_run_adapters,
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
        name=prompt_search.NAME,
        question=prompt_search.QUESTION,
        keys=prompt_search.KEYS,
        read=_read_prompt_search,
        run=_run_prompt_search,
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
