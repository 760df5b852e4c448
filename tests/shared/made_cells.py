"""Made-up folders of finished runs, one for each cell of a study, whose figures are given by arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from run_files import write_files

from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.schedule import NONE, ratio_of
from tinsmith.lab.study.sizes import Cell
from tinsmith.studies.barrier import rooms
from tinsmith.studies.barrier import study as barrier
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.waits import Say

Ends = tuple[float, float]
"""A figure before training and after; between them it moves evenly."""

_WRONG_MUTANTS: Final = rooms.wrong_mutants
_KNOWN_MUTANTS: Final[dict[tuple[str, str, int, int], list[str]]] = {}


def _wrong_mutants(item: rooms.Room, count: int, seed: int) -> list[str]:
    requests = item["prompt"], item["saved"], count, seed
    if requests not in _KNOWN_MUTANTS:
        _KNOWN_MUTANTS[requests] = _WRONG_MUTANTS(item, count, seed)
    return _KNOWN_MUTANTS[requests]


rooms.wrong_mutants = barrier.wrong_mutants = _wrong_mutants  # they take longer than the rest of a made-up study


@dataclass(frozen=True, kw_only=True)
class MadeArm:
    """The figures of an arm."""

    right: Ends = (0.25, 0.25)
    """Share of right answers."""
    by_kind: Mapping[str, Ends] = field(default_factory=dict[str, Ends])
    """Instead, of items whose names begin so."""
    fixed: bool = False
    """True if it is always right or always wrong at an item before training."""
    metrics: Mapping[str, Ends] = field(default_factory=dict[str, Ends])
    """Of an answer."""
    evaluated: Mapping[str, Ends] = field(default_factory=dict[str, Ends])
    """Metrics of an evaluation."""
    trained: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metrics of a step."""
    alarm: str = ""
    ways: int = 2
    """Different conversations among the answers to an item."""
    shown: Sequence[int] = ()
    """Calls of each demonstration that it is trained on."""
    said: tuple[str, str] = ("ls attic", "anchor basket")
    """A command and what is heard, in training."""


@dataclass(frozen=True, kw_only=True)
class MadeStudy:
    """A study's items, and its arms by name."""

    items: tuple[str, ...]
    arms: Mapping[str, MadeArm]
    keys: Mapping[str, str]
    term: str = "right"
    baseline: float = 0.25
    samples: int = 4


def made_folder(
    cell: Cell,
    task: Mapping[str, object],
    rollouts: Sequence[object],
    metrics: Sequence[object],
    settings: Mapping[str, object],
) -> None:
    """Write the folder of a finished run on a task whose `task.json` has the items that are held out."""
    plan, name, items = make_plan(cell.experiment, cell.overrides), cell.folder.name, cast(list[Any], task["items"])
    config = {
        "name": plan.experiment.name,
        "question": "What does it learn?",
        "kind": plan.frame.kind.value,
        "settings": {"steps": plan.settings.steps, "seed": plan.settings.seed, **settings},
        "task": {"name": plan.experiment.name},
        "model_name": "made",
        "data": {"fingerprint": "f" * 64, "train": len(items), "test": len(items)},
    }
    hashes = {f"{kind}_sha256": f"{name}-{kind}" for kind in ("weights", "rollouts", "metrics")}
    files = {"config.json": config, "manifest.json": {"status": "finished", "hashes": hashes}, "task.json": task}
    rows = {"metrics.jsonl": [*metrics], "rollouts.jsonl": [*rollouts]}
    timings = [{"step": 1, "train_s": 2.0, "step_s": 3.0}]
    write_files(cell.folder, {**files, **rows, "timings.jsonl": timings})


@dataclass(frozen=True)
class Maker:
    """Makes a folder for each cell that has none."""

    study: MadeStudy
    arms: Mapping[str, MadeArm] = field(default_factory=dict[str, MadeArm])
    """Instead of the study's."""

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            if not cell.folder.exists():
                self._make(cell)

    def _make(self, cell: Cell) -> None:
        plan, name = make_plan(cell.experiment, cell.overrides), cell.folder.name
        arms = {**self.study.arms, **self.arms}
        arm = arms[name.split("-rate")[0].split("-seed")[0].removesuffix("-validation")]
        settings: Any = plan.settings
        items = self.study.items
        request = {
            key: one
            for key in ("group_size", "groups_per_batch", "batch_size")
            if (one := getattr(settings, key, None))
        }
        by_item = dict.fromkeys(items, self.study.baseline)
        task = {
            "terms": [self.study.term],
            "metrics": sorted(arm.metrics),
            "items": [{"id": item, "prompt": item, "unit": item} for item in items],
            "examples": [
                {"id": f"{place}", "sha256": f"{place}", "steps": calls + 1, "calls": calls}
                for place, calls in enumerate(arm.shown)
            ],
            "baselines": [{"name": "base line", "by_item": by_item, "metrics": dict.fromkeys(arm.metrics, by_item)}],
        }
        steps = sorted(
            {*(range(0, settings.steps, settings.eval_every) if settings.eval_every else ()), settings.steps}
        )
        examined = [
            line
            for step in steps
            for split, count in (("eval", self.study.samples), ("eval_greedy", 1))
            for line in self._answers(arm, settings, step, split, count)
        ]
        rollouts = [*_trained(arm, settings, items, self.study.term), *examined]
        made_folder(cell, task, rollouts, _metrics(arm, settings, steps), request)

    def _answers(self, arm: MadeArm, settings: Any, step: int, split: str, count: int) -> list[object]:
        share = step / settings.steps if settings.steps else 0.0
        found: list[object] = []
        for place, item in enumerate(self.study.items):
            before, after = next((ends for kind, ends in arm.by_kind.items() if item.startswith(kind)), arm.right)
            bits = random_bits(derive(settings.seed, split, step, place), count)
            for sample in range(count):
                drawn = (bits[sample] >> 11) * 2.0**-53
                right = float(drawn < before + share * (after - before))
                if arm.fixed and not step:
                    right = float(place < before * len(self.study.items))
                metrics = {
                    name: round(low + share * (high - low) + 0.02 * (drawn - 0.5), 6)
                    for name, (low, high) in arm.metrics.items()
                    if name != "right"
                } | ({"right": right} if "right" in arm.metrics else {})
                way = sample % arm.ways
                turns = [
                    {"role": "assistant", "text": f"chief p{way}"},
                    {"role": "user", "text": "none"},
                    *([{"role": "assistant", "text": f"code p{place % 3}"}] if sample % 2 else []),
                    {"role": "assistant", "text": "answer x"},
                ]
                line = {"step": step, "split": split, "prompt_id": item, "sample": sample, "text": "A", "turns": turns}
                found.append(
                    {**line, "outcome": "ok", "terms": {self.study.term: right}, "total": right, "metrics": metrics}
                )
        return found


def _metrics(arm: MadeArm, settings: Any, steps: Sequence[int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"step": step, "optim/unequal_logprob_bits": 0, **arm.trained} for step in range(settings.steps)
    ]
    rows += [{"step": settings.steps}]
    for step in steps:
        share = step / settings.steps if settings.steps else 0.0
        noise = 0.01 * settings.seed * share
        rows[step] |= {name: low + share * (high - low) + noise for name, (low, high) in arm.evaluated.items()}
    if arm.alarm and settings.steps > 3:
        rows[3][arm.alarm] = 1
    return rows


def _trained(arm: MadeArm, settings: Any, items: Sequence[str], term: str) -> list[object]:
    ratio = ratio_of(getattr(settings, "interleave", NONE))
    found: list[object] = []
    for step in range(settings.steps):
        explores = ratio is not None and ratio.turn(step).aside
        item = f"{'explore' if explores else 'errand'}-train-0001" if ratio is not None else items[0]
        share = step / settings.steps
        before, after = arm.right
        right = float(
            (random_bits(derive(settings.seed, "train", step), 1)[0] >> 11) * 2.0**-53
            < before + share * (after - before)
        )
        command, received = arm.said
        turns = [
            {"role": "assistant", "text": f"{command} {step % 7}"},
            {"role": "user", "text": f"{received} {step % 5}"},
            {"role": "assistant", "text": "get"},
        ]
        line = {"step": step, "split": "train", "prompt_id": item, "total": right, "terms": {term: right}}
        line |= {"tokens": [1] * (5 + step % 2), "turns": turns, "metrics": {"right": right}}
        found += [{**line, "sample": sample} for sample in range(2)]
    return found
