"""What the study of SFT against RL is asked for: its world, its arms, and what all of its runs have in common.

Equal base, papers, rank and effort: SFT takes as many steps as RL with as many papers in each, which are the same
ones; every trained arm tries as many learning rates, on a seed that is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.papers.kinds import LABEL_KINDS
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Study, StudyArm
from tinsmith.lab.study.keys import count, learning_rates, require_a_score
from tinsmith.studies.disruption.experiments import (
    CONTROL_SHUFFLED_LABELS,
    CONTROL_ZERO_SHOT,
    REMEDY_EXP6,
    REMEDY_SFT_THEN_RL,
    SFT_LORA_OFFSET,
)
from tinsmith.studies.sft_vs_rl.keys import ALLOWED_AT, QUESTION, REWARD, SFT_VS_RL_KEYS, StudyWorld, numbers_of
from tinsmith.studies.sft_vs_rl.prompt_keys import asked_search, told_search
from tinsmith.types.errors import ConfigError

LOOKS: Final = 3
"""Examinations on the validation split in a run, beside that of its end; as many in every arm."""


class ArmName(StrEnum):
    """What is trained, and the base that is not."""

    ZERO = "zero_shot"
    SFT = "sft"
    RL = "rl"
    MORE = "sft_compute"
    THEN = "sft_then_rl"
    SFT_SHUFFLED = "sft_shuffled"
    RL_SHUFFLED = "rl_shuffled"
    PROMPT = "prompt"
    PROMPT_SHUFFLED = "prompt_shuffled"


WORDS: Final[Mapping[ArmName, str]] = MappingProxyType(
    {
        ArmName.ZERO: "zero-shot",
        ArmName.SFT: "SFT",
        ArmName.RL: "RL from base",
        ArmName.MORE: "SFT with RL's compute",
        ArmName.THEN: "SFT then RL",
        ArmName.SFT_SHUFFLED: "SFT, shuffled labels",
        ArmName.RL_SHUFFLED: "RL, shuffled labels",
        ArmName.PROMPT: "prompt searched",
        ArmName.PROMPT_SHUFFLED: "prompt searched, shuffled labels",
    }
)
SEARCHED: Final = (ArmName.PROMPT, ArmName.PROMPT_SHUFFLED)
"""Arms that there are where a prompt is searched; nothing is trained in them."""
OFFSET: Final = "SFT + logit offset"
"""No arm of its own: another way to decide with the models of SFT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftVsRlSettings:
    """See the module."""

    study: Study
    """With the arms that depend on no other, and without papers and base."""
    at: At
    world: StudyWorld
    data: Path | None
    model_name: str | None
    """A folder; None: the nano base of these papers, or the model of `at=small`."""
    sft_rates: tuple[float, ...]
    rl_rates: tuple[float, ...]
    steps: int
    """Of RL and of SFT."""
    sft_steps: int
    """Of SFT then RL: so many of its steps, the first ones, are supervised."""
    groups_per_batch: int
    """Papers a step, for SFT as well."""
    group_size: int
    rewarded: Mapping[str, str]
    """Keys of a reward, for every run that has one."""
    search: SearchSettings | None = None
    """How a prompt is searched, with the first seed: each search has its run's own. None: it is not."""

    def first_arms(self) -> tuple[StudyArm, ...]:
        """Return the arms that depend on no other."""
        return (
            StudyArm(ArmName.ZERO, WORDS[ArmName.ZERO], CONTROL_ZERO_SHOT),
            self._supervised(ArmName.SFT, self.sft_rates, self.steps),
            self._rewarded(ArmName.RL, REMEDY_EXP6, self.rl_rates),
        )

    def later_arms(self, *, more_steps: int, sft: float, rl: float) -> tuple[StudyArm, ...]:
        """Return the arms that the rates of SFT and RL decide on; `more_steps` of SFT take as many FLOPs as RL."""
        first = {
            "sft_steps": str(self.sft_steps),
            "sft_learning_rate": repr(sft),
            "sft_batch_size": str(self.groups_per_batch),
        }
        shuffled = {"shuffle_labels": "true"}
        return (
            self._supervised(ArmName.MORE, self.sft_rates, more_steps),
            self._rewarded(ArmName.THEN, REMEDY_SFT_THEN_RL, self.rl_rates, **first),
            self._supervised(ArmName.SFT_SHUFFLED, (sft,), self.steps, **shuffled),
            self._rewarded(ArmName.RL_SHUFFLED, CONTROL_SHUFFLED_LABELS, (rl,)),
        )

    def searched_arms(self) -> tuple[StudyArm, ...]:
        """Return the arms of searched prompts, whose runs get their prompts when these are found; none without them."""
        if self.search is None:
            return ()
        shuffled = {ArmName.PROMPT_SHUFFLED: {"shuffle_labels": "true"}}
        return tuple(StudyArm(name, WORDS[name], CONTROL_ZERO_SHOT, keys=shuffled.get(name, {})) for name in SEARCHED)

    def _supervised(self, name: ArmName, rates: tuple[float, ...], steps: int, **own: str) -> StudyArm:
        keys = {**_looks(steps), "batch_size": str(self.groups_per_batch), **own}
        return StudyArm(name, WORDS[name], SFT_LORA_OFFSET, rates, keys)

    def _rewarded(self, name: ArmName, experiment: Experiment, rates: tuple[float, ...], **own: str) -> StudyArm:
        sizes = {"groups_per_batch": str(self.groups_per_batch), "group_size": str(self.group_size)}
        keys = {**_looks(self.steps), **self.rewarded, **sizes, **own}
        return StudyArm(name, WORDS[name], experiment, rates, keys)

    def deciding(self) -> dict[str, object]:
        """Return what decides the study's results, but for papers and base."""
        aside = LABEL_KINDS[Kind.RL].keys.circumstances
        return {
            "world": self.world.value,
            "steps": self.steps,
            "sft_steps": self.sft_steps,
            "groups_per_batch": self.groups_per_batch,
            "group_size": self.group_size,
            "sft_rates": list(self.sft_rates),
            "rl_rates": list(self.rl_rates),
            **self.rewarded,
            **{key: value for key, value in self.study.shared.items() if key not in aside},
            **({} if self.search is None else told_search(self.search)),
        }


def _looks(steps: int) -> dict[str, str]:
    every = str(max(1, -(-steps // LOOKS)))
    return {"steps": str(steps), "eval_every": every, "save_every": every}


def sft_vs_rl_settings(overrides: Mapping[str, str]) -> SftVsRlSettings:
    """Read `key=value`: the study's own keys, and any key that SFT and RL share, for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, rates or seeds that do not do, or a value that cannot be read.
    """
    SFT_VS_RL_KEYS.require(overrides)
    require_a_score(overrides)
    data, model = overrides.get("data"), overrides.get("model_name")
    world = _world(overrides.get("world"), data)
    at = _at(SFT_VS_RL_KEYS.value(overrides, "at"))
    given = {**numbers_of(at, world), **overrides}
    sft_rates = learning_rates("sft_rates", given["sft_rates"])
    rl_rates = learning_rates("rl_rates", given["rl_rates"])
    if len(sft_rates) != len(rl_rates):
        raise ConfigError(
            "SFT and RL must try equally many learning rates",
            field="rl_rates",
            value=len(rl_rates),
            allowed=f"{len(sft_rates)}, as sft_rates has",
        )
    steps = count("steps", given["steps"], 2)
    per_step = count("groups_per_batch", given["groups_per_batch"], 1)
    passed_on = SFT_VS_RL_KEYS.runs_keys(given) | ({"at": at.value} if at is At.SMALL else {})
    shared = {key: value for key, value in passed_on.items() if not key.startswith(REWARD)}
    rewarded = {key: value for key, value in passed_on.items() if key.startswith(REWARD)}
    study = Study(name="study/sft_vs_rl", question=QUESTION, arms=(), shared=shared)
    settings = SftVsRlSettings(
        study=study.asked(SFT_VS_RL_KEYS, overrides),
        at=at,
        world=world,
        data=None if data is None else Path(data),
        model_name=model,
        sft_rates=sft_rates,
        rl_rates=rl_rates,
        steps=steps,
        sft_steps=_sft_steps(given.get("sft_steps", str(steps // 2)), steps),
        groups_per_batch=per_step,
        group_size=count("group_size", given["group_size"], 2),
        rewarded=rewarded,
        search=asked_search(overrides, papers=steps * per_step),
    )
    return replace(settings, study=replace(settings.study, arms=settings.first_arms()))


def _world(named: str | None, data: str | None) -> StudyWorld:
    if named is None:
        return StudyWorld.QUICKSTART if data is None else StudyWorld.DATA
    allowed = (StudyWorld.PLANTED.value, StudyWorld.QUICKSTART.value)
    if named not in allowed or data is not None:
        raise ConfigError(
            "give a world's name, or data=FOLDER of a slice",
            field="world",
            value=named,
            allowed=f"{', '.join(allowed)}; or data=DIR without it",
        )
    return StudyWorld(named)


def _at(text: str) -> At:
    if text not in ALLOWED_AT:
        raise ConfigError(
            "the study has no settings for such a model", field="at", value=text, allowed=", ".join(ALLOWED_AT)
        )
    return At(text)


def _sft_steps(text: str, steps: int) -> int:
    found = count("sft_steps", text, 1)
    if found >= steps:
        raise ConfigError("no step is left for RL", field="sft_steps", value=found, allowed=f"1 to {steps - 1}")
    return found
