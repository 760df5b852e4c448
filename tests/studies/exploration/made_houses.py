"""Made-up folders of `exploration`: what each arm does in held-out houses after training, so that figures are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.interleave import ratio_of
from tinsmith.lab.live.progress import Say
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.study.arms import Cell
from tinsmith.studies.exploration.world import Kind
from tinsmith.types.seeds import derive, random_bits

HELD: Final = tuple(f"{kind.value}-held-{number:04d}" for kind in Kind for number in range(24))
BEFORE: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class MadeArm:
    """What an arm comes to."""

    coverage: float = 0.3
    success: float = 0.6
    recovery: float = 0.2
    repeated: float = 0.5


@dataclass(frozen=True)
class Maker:
    """Makes a folder for each cell, by the name of its arm."""

    arms: Mapping[str, MadeArm]

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            if not cell.folder.exists():
                self._make(cell)

    def _make(self, cell: Cell) -> None:
        plan, name = make_plan(cell.experiment, cell.overrides), cell.folder.name
        arm, settings = self.arms[name.split("-rate")[0]], plan.settings
        assert isinstance(settings, RlSettings)
        cell.folder.mkdir(parents=True)
        config = {
            "name": plan.experiment.name,
            "kind": plan.frame.kind.value,
            "settings": {"steps": settings.steps, "seed": settings.seed, "groups_per_batch": settings.groups_per_batch},
            "task": {"name": "house"},
            "data": {"fingerprint": "f" * 64, "train": 800, "test": len(HELD)},
        }
        hashes = {f"{kind}_sha256": f"{name}-{kind}" for kind in ("weights", "rollouts", "metrics")}
        by_habit = {item: 0.3 for item in HELD}
        task = {
            "terms": ["earned"],
            "metrics": ["right", "coverage", "repeated"],
            "several_turns": True,
            "items": [{"id": item, "prompt": item, "unit": item} for item in HELD],
            "baselines": [{"name": "habit", "by_item": by_habit, "metrics": {"coverage": by_habit}}],
        }
        told = {"status": "finished", "hashes": hashes}
        for file, value in (("config", config), ("manifest", told), ("task", task)):
            (cell.folder / f"{file}.json").write_text(json.dumps(value))
        rows = [{"step": step, "optim/unequal_logprob_bits": 0} for step in range(settings.steps)]
        _lines(cell.folder, "metrics", rows)
        _lines(cell.folder, "timings", [{"step": 1, "train_s": 2.0, "step_s": 3.0}])
        examined = [
            line
            for step in (0, settings.steps)
            for split, count in (("eval", 4), ("eval_greedy", 1))
            for line in _rollouts(arm, step, split, count, settings.seed)
        ]
        _lines(cell.folder, "rollouts", [*_trained(settings), *examined])


def _trained(settings: RlSettings) -> list[object]:
    ratio, found = ratio_of(settings.interleave), list[object]()
    for step in range(settings.steps):
        aside = ratio is not None and ratio.turn(step).aside
        kind = Kind.EXPLORE if aside else Kind.ERRAND
        found += [{"step": step, "split": "train", "prompt_id": f"{kind.value}-train-0001", "total": 0.0}] * 2
    return found


def _rollouts(arm: MadeArm, step: int, split: str, count: int, seed: int) -> list[object]:
    found: list[object] = []
    for place, item in enumerate(HELD):
        bits = random_bits(derive(seed, split, step, place), count)
        for sample in range(count):
            drawn = (bits[sample] >> 11) * 2.0**-53
            chance = arm.recovery if item.startswith(Kind.RECOVER.value) else arm.success
            metrics = {
                "right": float(drawn < (chance if step else BEFORE)),
                "coverage": round((arm.coverage if step else BEFORE) + 0.02 * (drawn - 0.5), 6),
                "repeated": round((arm.repeated if step else 0.4) + 0.02 * (drawn - 0.5), 6),
            }
            line = {"step": step, "split": split, "prompt_id": item, "sample": sample}
            value = metrics["right"]
            found.append(
                {**line, "text": "stop", "outcome": "ok", "terms": {"earned": value}}
                | {"total": value, "metrics": metrics}
            )
    return found


def _lines(folder: Path, name: str, rows: Sequence[object]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(text)
