"""Made-up folders of runs on a task: what each held-out item earns is said, so that a study's figures are known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from made_cells import made_folder

from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.study.sizes import Cell
from tinsmith.types.seeds import random_bits
from tinsmith.types.waits import Say

TASK = """\
from tinsmith import Task


def right(item, text):
    return float(text == item["says"])


def task(level: int = 1):
    return Task(
        items=[{"id": f"{n}{s}", "pair": n, "says": s} for n in range(12) for s in "ab"],
        prompt="Which? {pair}",
        held_out=lambda item: item["pair"] >= 6,
        unit=lambda item: str(item["pair"]),
        reward={"right": right, "form": lambda item, text: 0.1 * (text in ("a", "b"))},
        metrics={"right": right},
        baselines={"always a": lambda item: "a"},
        answer=lambda item: item["says"],
        keys={"max_tokens": 4, "steps": 8, "groups_per_batch": 4},
    )
"""
HELD = [(f"{pair}{side}", str(pair)) for pair in range(6, 12) for side in "ab"]
"""Items with their pairs."""

Shares = Mapping[str, float]
"""Share of right answers to a held-out item at the end, by the beginning of a cell's name."""


@dataclass(frozen=True)
class Maker:
    """Makes a folder for each cell; which were asked for is kept."""

    shares: Shares
    asked: list[str]
    general: bool = True

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            self.asked.append(cell.folder.name)
            if not cell.folder.exists():
                self._make(cell)

    def _make(self, cell: Cell) -> None:
        settings, name = make_plan(cell.experiment, cell.overrides).settings, cell.folder.name
        end = next(self.shares[key] for key in self.shares if name.startswith(key))
        steps = sorted({*range(0, settings.steps, settings.eval_every), settings.steps})
        rollouts = [
            line
            for step in steps
            for split, count in (("eval", 2), ("eval_greedy", 1))
            for line in _rollouts(step, split, count, 0.25 if step == 0 else end, settings.seed)
        ]
        says_a = {item: float(item.endswith("a")) for item, _ in HELD}
        by_item = {item: value + 0.1 for item, value in says_a.items()}
        task = {
            "terms": ["right", "form"],
            "metrics": ["right"],
            "items": [{"id": item, "prompt": f"Which? {pair}", "unit": pair} for item, pair in HELD],
            "baselines": [{"name": "always a", "by_item": by_item, "metrics": {"right": says_a}}],
        }
        made_folder(cell, task, rollouts, [{"step": step, "optim/unequal_logprob_bits": 0} for step in steps[1:]], {})
        if self.general:
            drop = 0.5 if name.startswith("sft") else 0.1
            texts = [{"name": f"text {at}", "tokens": 9, "before": -2.0, "after": -2.0 - drop} for at in range(5)]
            (cell.folder / "general.json").write_text(json.dumps({"texts": texts}))


def _rollouts(step: int, split: str, count: int, share: float, seed: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place, (item, _) in enumerate(HELD):
        bits = [int(one) for one in random_bits(seed * 1000 + place, count)]
        for sample in range(count):
            right = float(bits[sample] % 1000 < 1000 * share)
            text = item[-1] if right else {"a": "b", "b": "a"}[item[-1]]
            line = {"step": step, "split": split, "prompt_id": item, "sample": sample, "text": text, "outcome": "ok"}
            scored = {"terms": {"right": right, "form": 0.1}, "total": right + 0.1, "metrics": {"right": right}}
            found.append({**line, **scored})
    return found
