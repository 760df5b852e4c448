"""Made-up folders of `dead_groups`: how often each arm is right before and after, so that its figures are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.studies.dead_groups.task import SIGNS
from tinsmith.types.seeds import derive, random_bits

HELD = tuple(f"{sign}-{note}" for sign in SIGNS for note in ("a", "b"))


@dataclass(frozen=True)
class MadeArm:
    """How often an arm is right."""

    before: float
    after: float
    fixed: bool = False
    """Whether it is always right or always wrong at a sign, before training."""


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
        cell.folder.mkdir(parents=True)
        config = {
            "name": plan.experiment.name,
            "kind": plan.frame.kind.value,
            "settings": {"steps": settings.steps, "seed": settings.seed},
            "task": {"name": "sandbagger"},
            "data": {"fingerprint": "f" * 64, "train": 360, "test": len(HELD)},
        }
        hashes = {f"{kind}_sha256": f"{name}-{kind}" for kind in ("weights", "rollouts", "metrics")}
        task = {
            "terms": ["right"],
            "items": [{"id": item, "prompt": item, "unit": item} for item in HELD],
            "baselines": [{"name": "always A", "by_item": dict.fromkeys(HELD, 0.25)}],
        }
        told = {"status": "finished", "hashes": hashes}
        for file, value in (("config", config), ("manifest", told), ("task", task)):
            (cell.folder / f"{file}.json").write_text(json.dumps(value))
        rows = [{"step": step, "optim/unequal_logprob_bits": 0} for step in range(settings.steps)]
        rows[0]["train/groups/informative"] = 0 if arm.fixed else 1
        if arm.fixed:
            rows[3]["alarm/determinism"] = 1
        _lines(cell.folder, "metrics", rows)
        _lines(cell.folder, "timings", [{"step": 1, "train_s": 2.0, "step_s": 3.0}])
        steps = sorted({*range(0, settings.steps, settings.eval_every), settings.steps})
        _lines(
            cell.folder,
            "rollouts",
            [
                line
                for step in steps
                for split, count in (("eval", 8), ("eval_greedy", 1))
                for line in _rollouts(arm, step, split, count, settings.seed)
            ],
        )


def _rollouts(arm: MadeArm, step: int, split: str, count: int, seed: int) -> list[object]:
    found: list[object] = []
    for place, item in enumerate(HELD):
        bits = random_bits(derive(seed, split, step, place), count)
        chance = arm.after if step else arm.before
        for sample in range(count):
            right = (bits[sample] >> 11) * 2.0**-53 < chance
            if arm.fixed and not step:
                right = place < arm.before * len(HELD)
            line = {"step": step, "split": split, "prompt_id": item, "sample": sample}
            value = float(right)
            found.append({**line, "text": "A", "outcome": "ok", "terms": {"right": value}, "total": value})
    return found


def _lines(folder: Path, name: str, rows: Sequence[object]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(text)
