"""Made-up folders of the runs of a study: what each arm is right in before and after, so that its figures are known."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from made_cells import Ends, MadeArm, MadeStudy, Maker

from tinsmith.cli.registered import STUDIES, source_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.study import Study
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies import backchain, patience
from tinsmith.studies.confidence import countdown
from tinsmith.studies.environment_loss import shell
from tinsmith.studies.exploration import house
from tinsmith.studies.pass_at_k import lookup
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.types.waits import unsaid

# Each arm of a study opens its task, and these items take longer than the rest of a made-up study.
for module, items in (
    *((countdown, "read_items"), (house, "visits"), (lookup, "questions"), (patience, "searches_for")),
    *((backchain, "chains"), (shell, "other_worlds"), (handbook, "read_items")),
):
    setattr(module, items, cache(getattr(module, items)))


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
            "again": replace(_searcher(0.0, 1.6, 1, 2), right=(0.0, 0.0)),
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
            "lost": _relay(0.05, 0.05, 5.0),
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
            "redrawn": _porter(0.6),
            "again": _porter(0.2),
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
            "dealt": _tones(0.4, 0.5, 0.1),
            "shared": _tones(0.2, 0.9, 0.4),
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


FROZEN_DRAWS: Final = Draws(claims=Bootstrap(draws=200), tables=Bootstrap(draws=200))
"""Of the figures that are frozen."""


def studied(name: str, out: Path, arms: Mapping[str, MadeArm] | None = None) -> dict[str, Any]:
    """Run a study on made-up runs; return its numbers."""
    made = Maker(MADE[name], arms or {})
    given = {**made.study.keys, "out": str(out)}
    study = STUDIES[name].value()
    assert isinstance(study, Study)
    run_study(study, given, unsaid, open_source=source_of, run=made, draws=FROZEN_DRAWS)
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
