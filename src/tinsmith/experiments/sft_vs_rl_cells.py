"""Which runs the study of SFT against RL is made of, arm by arm: what each is called, where it lies, how it differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.experiments.cell import Cell
from tinsmith.experiments.sft_vs_rl_settings import LOOKS, SftVsRlSettings
from tinsmith.reports.sft_vs_rl_results import StudyArm

_EXPERIMENTS: Final[Mapping[StudyArm, str]] = {
    StudyArm.ZERO: "control/zero_shot",
    StudyArm.SFT: "sft/lora_offset",
    StudyArm.RL: "remedy/exp6",
    StudyArm.THEN: "remedy/sft_then_rl",
    StudyArm.MORE: "sft/lora_offset",
    StudyArm.SFT_SHUFFLED: "sft/lora_offset",
    StudyArm.RL_SHUFFLED: "control/shuffled_labels",
}
CELLS: Final = "cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What earlier runs of the study decide of later ones."""

    more_steps: int = 0
    """Steps of SFT that take as many FLOPs as RL."""
    sft_rate: float = 0.0
    """What was chosen for SFT: the supervised steps before RL take it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The runs, below the study's folder."""

    settings: SftVsRlSettings
    place: Mapping[str, str]
    """`data` and `model_name`: the papers and the base of every run."""

    def cell(self, arm: StudyArm, rate: float | None, seed: int, found: Found) -> Cell:
        """Return an arm's run with a rate (None: nothing is trained) and a seed."""
        told = "" if rate is None else f"-rate={rate!r}"
        return Cell(
            name=_EXPERIMENTS[arm],
            overrides={
                **self.settings.shared,
                **self.place,
                **self._own(arm, rate, found),
                "seed": str(seed),
            },
            folder=self.settings.out / CELLS / f"{arm}{told}-seed={seed}",
        )

    def _own(self, arm: StudyArm, rate: float | None, found: Found) -> dict[str, str]:
        """Return what an arm has of its own: everything but its rate follows from the study's numbers."""
        if rate is None:
            return {}
        settings = self.settings
        papers = str(settings.groups_per_batch)
        steps = found.more_steps if arm is StudyArm.MORE else settings.steps
        every = -(-steps // LOOKS) if arm is StudyArm.MORE else settings.every
        own = {
            "steps": str(steps),
            "learning_rate": repr(rate),
            "eval_every": str(every),
            "save_every": str(every),
        }
        if arm in (StudyArm.SFT, StudyArm.MORE):
            return {**own, "batch_size": papers}
        if arm is StudyArm.SFT_SHUFFLED:
            return {**own, "batch_size": papers, "shuffle_labels": "true"}
        own |= {
            **settings.rewarded,
            "groups_per_batch": papers,
            "group_size": str(settings.group_size),
        }
        if arm is StudyArm.THEN:
            own |= {
                "sft_steps": str(settings.sft_steps),
                "sft_learning_rate": repr(found.sft_rate),
                "sft_batch_size": papers,
            }
        return own

    def rates(self, arm: StudyArm) -> tuple[float, ...]:
        """Return the rates that are tried for an arm."""
        supervised = arm in (StudyArm.SFT, StudyArm.MORE)
        return self.settings.sft_rates if supervised else self.settings.rl_rates

    def tuning(self, arm: StudyArm, found: Found) -> list[Cell]:
        """Return the runs by which an arm's rate is chosen; none where there is only one to choose."""
        rates = self.rates(arm)
        if len(rates) == 1:
            return []
        return [self.cell(arm, rate, self.settings.tuning_seed, found) for rate in rates]

    def reported(
        self, rates: Mapping[StudyArm, float | None], found: Found
    ) -> dict[StudyArm, list[Cell]]:
        """Return the runs of every arm and seed that are reported."""
        return {
            arm: [self.cell(arm, rate, seed, found) for seed in self.settings.seeds]
            for arm, rate in rates.items()
        }
