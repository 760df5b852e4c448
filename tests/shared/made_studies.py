"""Made-up folders of the runs of a study: what each arm is right in before and after, so that its figures are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from tinsmith.cli.registered import STUDIES, source_of
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.schedule import NONE, ratio_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import Cell
from tinsmith.lab.study.study import Study
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.stats.estimates import Bootstrap
from tinsmith.types.seeds import derive, random_bits

Ends = tuple[float, float]
"""A figure before training and after; between them it moves evenly."""


@dataclass(frozen=True, kw_only=True)
class MadeArm:
    """The figures of an arm."""

    right: Ends = (0.25, 0.25)
    """How often an answer is right."""
    by_kind: Mapping[str, Ends] = field(default_factory=dict[str, Ends])
    """Instead, of items whose names begin so."""
    fixed: bool = False
    """Whether it is always right or always wrong at an item before training."""
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
    cell.folder.mkdir(parents=True)
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
    values = {"config": config, "manifest": {"status": "finished", "hashes": hashes}, "task": task}
    for file, value in values.items():
        (cell.folder / f"{file}.json").write_text(json.dumps(value))
    timings = [{"step": 1, "train_s": 2.0, "step_s": 3.0}]
    for file, rows in {"metrics": metrics, "timings": timings, "rollouts": rollouts}.items():
        (cell.folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


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
        asked = {
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
        made_folder(cell, task, rollouts, _metrics(arm, settings, steps), asked)

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
        command, heard = arm.said
        turns = [
            {"role": "assistant", "text": f"{command} {step % 7}"},
            {"role": "user", "text": f"{heard} {step % 5}"},
            {"role": "assistant", "text": "get"},
        ]
        line = {"step": step, "split": "train", "prompt_id": item, "total": right, "terms": {term: right}}
        found += [{**line, "tokens": [1] * (5 + step % 2), "turns": turns, "metrics": {"right": right}}] * 2
    return found


def _confidence(rho: float, shuffled: float = 0.0) -> dict[str, Ends]:
    watch = "watch/confidence"
    found: dict[str, Ends] = {
        f"{watch}/rho": (-0.3, rho),
        f"{watch}/rho_shuffled": (shuffled, shuffled),
        f"{watch}/rho_foreign": (-0.2, -0.2),
        f"{watch}/rho_said": (0.5, 0.5),
        "eval/reward/right": (0.4, 0.4),
        "eval/metric/sound": (0.1, 0.35),
    }
    for place, fraction in enumerate(FRACTIONS):
        for name in ("gold", "said", "certainty"):
            found[f"{watch}/{name}_{fraction:.1f}"] = (0.2, 0.2 + 0.1 * place)
    return found


def _read(tokens: float) -> dict[str, float]:
    shaped = {"train/confidence/tokens_sent": tokens, "train/confidence/tokens_computed": tokens / 8} if tokens else {}
    return {"train/tokens/answer": 20.0, **shaped}


def _information(information: float, given: float, right: float) -> dict[str, Ends]:
    return {
        "watch/mutual_information": (3.0, information),
        "watch/entropy_given_prompt": (4.0, given),
        "watch/retrieval_accuracy": (1.0, 0.5),
        "eval/reward/total": (0.5, right),
    }


def _collapse(information: float = 3.0, given: float = 4.0, right: float = 0.9, left_out: float = 0.0) -> MadeArm:
    return MadeArm(
        right=(0.5, right),
        evaluated=_information(information, given, right),
        trained={"train/groups/left_out": left_out},
    )


def _house(coverage: float = 0.3, done: float = 0.6, recovered: float = 0.2, repeated: float = 0.5) -> MadeArm:
    return MadeArm(
        right=(0.2, done),
        by_kind={"recover": (0.2, recovered)},
        metrics={"right": (0.0, 0.0), "coverage": (0.2, coverage), "repeated": (0.4, repeated)},
    )


def _graded(right: float, units: float = 3.5, precision: float = 0.9) -> MadeArm:
    metrics = {name: (0.5, 0.9) for name in ("recall", "fidelity", "shortcut")}
    metrics |= {"right": (0.0, 0.0), "precision": (0.5, precision), "units": (4.0, units)}
    return MadeArm(right=(0.1, right), metrics=metrics)


def _stamped(right: float, stamped: float) -> MadeArm:
    return MadeArm(right=(0.3, right), metrics={"right": (0.0, 0.0), "stamped": (0.5, stamped)})


def _shell(right: float, nll: float, said: tuple[str, str] = ("ls attic", "anchor basket")) -> MadeArm:
    return MadeArm(
        right=(0.1, right),
        metrics={"right": (0, 0), "commands": (2, 2)},
        evaluated={"watch/env_nll": (2.0, nll)},
        said=said,
    )


def _lookup(one: float, two: float, ways: int) -> MadeArm:
    return MadeArm(
        by_kind={"held_out": (two, two), "one": (one, one)}, right=(two, two), metrics={"right": (0, 0)}, ways=ways
    )


def _searcher(right: float, looks: float, *shown: int) -> MadeArm:
    return MadeArm(
        right=(0.1, right),
        metrics={"looks": (1.5, looks)},
        evaluated={"eval/metric/looks": (1.5, looks)},
        trained={"train/learned_tokens": 170.0},
        shown=shown,
    )


def _relay(right: float, longer: float, rollouts: float) -> MadeArm:
    return MadeArm(
        right=(0.05, right), by_kind={"n16": (0.05, longer)}, metrics={"right": (0.0, 0.0), "rollouts": (1.5, rollouts)}
    )


def _agents(right: float, replies: int) -> MadeArm:
    return MadeArm(
        right=(0.05, right),
        metrics={"right": (0.0, 0.0)},
        evaluated={"eval/replies": (replies, replies), "eval/metric/right": (0.05, right)},
        trained={"train/replies": float(replies)},
    )


def _porter(sound: float, order: str = "") -> MadeArm:
    ordered = {"order/sha256": float(order), "order/first_nats": 0.1, "order/last_nats": 2.0} if order else {}
    splits = {"test": (sound, 8.0), "test_revised": (sound + 0.2, 20.0), "test_blind": (sound, 40.0)}
    tested = {f"{split}/metric/sound": (0.2, right) for split, (right, _) in splits.items()}
    return MadeArm(
        right=(0.2, sound),
        metrics={"sound": (0.2, sound), "end": (0.3, sound)},
        evaluated={**tested, **{f"{split}/tokens/answer": (8.0, tokens) for split, (_, tokens) in splits.items()}},
        trained=ordered,
    )


def _tones(label: float, sure: float, overrated: float) -> MadeArm:
    return MadeArm(
        evaluated={"eval/metric/right": (0.6, label)},
        metrics={"label": (0.4, label), "right": (0, 0), "sure": (0.5, sure)},
        trained={"train/metric/label": label, "train/overrated": overrated},
    )


_SIGNS = ("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer", "island", "jacket", "kettle")
_ERRANDS = tuple(f"{kind}-held-{number:04d}" for kind in ("errand", "explore", "recover") for number in range(16))
_QUESTIONS = tuple(f"held_out-{hops}-{place:03d}" for hops in ("two", "one") for place in range(8))
_EXPLORES = _house(coverage=0.8, done=0.8, recovered=0.5, repeated=0.1)

MADE: Final[Mapping[str, MadeStudy]] = {
    "dead_groups": MadeStudy(
        items=tuple(f"{sign}-{note}" for sign in _SIGNS for note in ("a", "b")),
        samples=8,
        keys={"seeds": "1,2", "steps": "10"},
        arms={
            "always": MadeArm(fixed=True, alarm="alarm/determinism", trained={"train/groups/informative": 0}),
            "chance": MadeArm(right=(0.25, 0.9), trained={"train/groups/informative": 0.75}),
            "hotter": MadeArm(trained={"train/groups/informative": 1}),
            "forced": MadeArm(right=(0.25, 0.95), fixed=True, trained={"train/groups/informative": 0.5}),
            "examples": MadeArm(right=(0.25, 0.95), fixed=True),
            "shuffled": MadeArm(),
        },
    ),
    "exploration": MadeStudy(
        items=_ERRANDS,
        term="earned",
        baseline=0.3,
        keys={"seeds": "1,2", "steps": "66"},
        arms={
            "none": _house(),
            "10-1": _house(coverage=0.5, recovered=0.3),
            "5-1": _EXPLORES,
            "2-1": _EXPLORES,
            "1-1": _EXPLORES,
            "chance": _house(),
        },
    ),
    "barrier": MadeStudy(
        items=tuple(f"room-{word}" for word in _SIGNS),
        term="paid",
        keys={"seeds": "1,2,3", "steps": "8"},
        arms={
            "closed": _stamped(0.9, 0.5),
            "closed_two": _stamped(0.7, 0.5),
            "open": _stamped(0.3, 1.0),
            "open_four": _stamped(0.9, 1.0),
            "shuffled": _stamped(0.3, 0.5),
        },
    ),
    "metacognition": MadeStudy(
        items=tuple(f"{word}-add-x-take-y" for word in _SIGNS),
        baseline=0.1,
        keys={"seeds": "1,2,3", "steps": "8"},
        arms={
            "all": _graded(0.9),
            "no_knowledge": _graded(0.3),
            "no_regulation": _graded(0.4),
            "no_right": _graded(0.8),
            "outcome": _graded(0.3),
            "recall": _graded(0.6, units=8.0, precision=0.3),
            "shuffled": _graded(0.1),
        },
    ),
    "template_collapse": MadeStudy(
        items=tuple(f"{word}-x-y" for word in _SIGNS),
        keys={"seeds": "1,2,3", "steps": "8"},
        arms={
            "plain": _collapse(),
            "bonus": _collapse(information=0.5, given=9.0),
            "filtered": _collapse(left_out=4.0),
            "stopped": MadeArm(
                right=(0.5, 0.9),
                evaluated=_information(3.0, 4.0, 0.9),
                trained={"train/groups/left_out": 0.0},
                alarm="train/stopped_at",
            ),
            "shuffled": _collapse(right=0.5),
        },
    ),
    "environment_loss": MadeStudy(
        items=tuple(f"{name}-{user}" for name in _SIGNS for user in ("ann", "ben")),
        term="found",
        baseline=0.1,
        keys={"seeds": "1,2", "steps": "30"},
        arms={
            "lambda-0": _shell(0.4, 2.1),
            "lambda-0.02": _shell(0.5, 1.5),
            "lambda-0.05": _shell(0.9, 1.0),
            "lambda-0.2": _shell(0.3, 0.9, ("pwd", "home")),
            "scrambled": _shell(0.3, 2.2),
        },
    ),
    "pass_at_k": MadeStudy(
        items=_QUESTIONS,
        term="answer",
        samples=8,
        keys={"seeds": "1,2", "steps": "4"},
        arms={
            "base": _lookup(0.5, 0.05, 2),
            "sft": _lookup(0.9, 0.6, 1),
            "grpo": _lookup(0.9, 0.5, 3),
            "coin": _lookup(0.5, 0.05, 2),
        },
    ),
    "patience": MadeStudy(
        items=tuple(f"held_out-{place % 6 + 1}-{place:03d}-6" for place in range(24)),
        keys={"seeds": "1,2", "steps": "4"},
        arms={
            "short": _searcher(0.1, 1.4, 1, 2),
            "all": _searcher(0.3, 2.3, 1, 2, 3, 4),
            "long": _searcher(0.7, 3.6, 4, 5),
            "found": _searcher(0.99, 3.5, 1, 6),
            "circles": replace(_searcher(0.0, 4.0, 4, 5), right=(0.0, 0.0)),
        },
    ),
    "backchain": MadeStudy(
        items=tuple(f"held_out-{place % 3 + 1}-{place:03d}" for place in range(24)),
        keys={"seeds": "1,2", "steps": "4"},
        arms={
            "observed": MadeArm(right=(0.3, 0.9)),
            "believed": MadeArm(right=(0.3, 0.6)),
            "shuffled": MadeArm(right=(0.0, 0.0)),
            "sft-observed": MadeArm(right=(0.3, 0.95)),
            "sft-believed": MadeArm(right=(0.3, 0.5)),
        },
    ),
    "confidence": MadeStudy(
        items=tuple(f"{split}-{place}" for place in range(20) for split in ("easy", "hard")),
        baseline=0.125,
        keys={"seeds": "1,2,3", "steps": "8"},
        arms={
            "plain": MadeArm(right=(0.2, 0.4), evaluated=_confidence(0.1), trained=_read(0.0)),
            "shaped": MadeArm(right=(0.2, 0.9), evaluated=_confidence(0.8), trained=_read(5_120.0)),
            "mixed": MadeArm(right=(0.2, 0.4), evaluated=_confidence(0.1), trained=_read(5_120.0)),
            "noise": MadeArm(right=(0.2, 0.2), evaluated=_confidence(0.1), trained=_read(5_120.0)),
        },
    ),
    "recursion": MadeStudy(
        items=tuple(f"n{size}-{name}" for size in (4, 8, 16) for name in _SIGNS),
        baseline=0.05,
        keys={"seeds": "1,2", "steps": "4"},
        arms={
            "flat": _relay(0.06, 0.05, 1.0),
            "average": _relay(0.95, 0.8, 5.0),
            "sum": _relay(0.9, 0.7, 12.0),
            "coin": _relay(0.05, 0.05, 1.5),
        },
    ),
    "coupled_agents": MadeStudy(
        items=tuple(f"{first}-{second}" for first in _SIGNS[:5] for second in _SIGNS[5:9]),
        baseline=0.0,
        keys={"seeds": "1,2", "steps": "6"},
        arms={
            "one": _agents(0.05, 1),
            "shared": _agents(0.4, 3),
            "three": _agents(0.9, 3),
            "seven": _agents(0.05, 7),
            "grown": _agents(0.8, 7),
            "coin": _agents(0.05, 3),
        },
    ),
    "curriculum": MadeStudy(
        items=tuple(
            f"{one}-{other}" for one in ("ann", "ben", "cleo", "dan") for other in ("hana", "ivo", "jane", "eve")
        ),
        term="earned",
        keys={"seeds": "1,2,3", "steps": "6"},
        arms={
            "random": _porter(0.6),
            "ascending": _porter(0.5, "1"),
            "descending": _porter(0.8, "2"),
            "recomputed": _porter(0.8, "3"),
            "descending-constant": _porter(0.6, "2"),
            "random-constant": _porter(0.7),
            "shuffled": _porter(0.2, "4"),
            "fine": _porter(0.5),
            "staged": _porter(0.7),
        },
    ),
    "alignment_collapse": MadeStudy(
        items=tuple(f"{sign}-{note}" for sign in _SIGNS for note in ("a", "b")),
        term="learned",
        keys={"seeds": "1,2,3", "steps": "6"},
        arms={
            "myopic": _tones(0.2, 0.9, 0.4),
            "fixed": _tones(-0.2, 1.0, 0.9),
            "exact": _tones(0.9, 0.5, 0.1),
            "practical": _tones(0.1, 0.3, 0.1),
            "labels": _tones(0.9, 0.5, 0.1),
            "shuffled": _tones(0.1, 0.5, 0.1),
        },
    ),
    "sparse_select": MadeStudy(
        items=tuple(f"road-{place}" for place in range(20)),
        keys={"seeds": "1,2", "steps": "6", "sparse_steps": "4", "sparse_rates": "1e-4,1e-3"},
        arms={
            "grpo": MadeArm(right=(0.2, 0.9)),
            "sparse": MadeArm(right=(0.2, 0.4), trained={"sparse/gated": 0.05}),
            "sparse_tenth": MadeArm(right=(0.2, 0.15), trained={"sparse/gated": 0.04}),
            "sparse_good": MadeArm(right=(0.2, 0.85), trained={"sparse/gated": 0.03}),
        },
    ),
}


def studied(name: str, out: Path, arms: Mapping[str, MadeArm] | None = None) -> dict[str, Any]:
    """Run a study on made-up runs; return its numbers."""
    few = Bootstrap(draws=200)
    made = Maker(MADE[name], arms or {})
    draws = Draws(claims=few, tables=few)
    given = {**made.study.keys, "out": str(out)}
    study = STUDIES[name].value()
    assert isinstance(study, Study)
    run_study(study, given, _silent, open_source=source_of, run=made, draws=draws)
    return figures_in(out)


def figures_in(out: Path) -> dict[str, Any]:
    """Return a study's numbers: gains and claims as they are, and cells of its tables as they are shown, by row."""
    values = json.loads((out / "study.json").read_text())
    judged = (*values.get("beats", ()), *values.get("learned", ()))
    of_claim = ("kind", "value", "interval", "p_value", "p_holm", "seeds", "num_items")
    of_gain = ("before", "after", "gain", "p_value", "p_holm", "greedy_before", "greedy_after")
    cells: dict[str, set[str]] = {}
    expected = False
    for line in (out / "study.md").read_text().replace("\\", "").splitlines():
        if line.startswith("| "):
            row, *others = (cell.strip() for cell in line.strip("|").split(" | "))
            expected = row == "Expected" or (expected and row != "Arm")
            if expected:
                continue  # words, which may be said better
            cells.setdefault(row.split(" (")[0], set()).update(one for one in others if _has_digit(one))
    return {
        "gains": {one["name"]: [one[key] for key in of_gain] for one in values.get("gains", ())},
        "claims": {
            f"{one['first']} | {one['second']} | {one['metric']}": [one[key] for key in of_claim] for one in judged
        },
        "cells": {name: sorted(some) for name, some in sorted(cells.items()) if some},
    }


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _silent(message: str) -> None:
    del message
