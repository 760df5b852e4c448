"""Runs under challenge whose conversations are given: what was answered, who challenged and with what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinsmith.lab.labels.answers import Confidence
from tinsmith.lab.labels.contracts import TWO_KEY
from tinsmith.studies.debate.pages.gathering import CONTROL, TEST

D, C, N = TWO_KEY.labels
NASTY = '</script><img src=x onerror=alert(1)> "quoted" & <!--'


@dataclass(frozen=True)
class Talked:
    """One conversation: gold label, both answers (None: broken), who challenged and with what."""

    gold: str
    first: str | None
    last: str | None
    arm: str = "misleading"
    label: str | None = N
    evidence: bool = True
    speaks_for: int | None = None


CAVED = Talked(D, D, N)
STOOD = Talked(D, D, D)
MENDED = Talked(D, C, D, arm="truthful", label=D)
STUCK = Talked(D, C, C, arm="truthful", label=D)
ASKED = Talked(D, D, D, arm="null", label=None, evidence=False)
BROKEN = Talked(D, None, N)


def bare(one: Talked) -> Talked:
    return Talked(one.gold, one.first, one.last, one.arm, one.label, evidence=False)


def text(label: str | None) -> str:
    return NASTY if label is None else TWO_KEY.answer_text(label, Confidence.LOW)


def line(number: int, split: str, one: Talked, *, alone: bool) -> dict[str, Any]:
    answers = [one.last] if alone else [one.first, one.last]
    turns = [{"role": "assistant", "text": text(label), "outcome": "ok"} for label in answers]
    if not alone:
        turns.insert(1, {"role": "user", "text": f"I say {one.label}. {NASTY}"})
    told: dict[str, Any] = {
        "step": 4,
        "split": split,
        "prompt_id": f"W{number:03}",
        "gold": one.gold,
        "predicted": one.last,
        "turns": turns,
    }
    if one.speaks_for is not None:
        told["speaks_for"] = one.speaks_for
    if not alone:
        challenge = {"arm": one.arm, "label": one.label, "evidence": one.evidence}
        told["challenge"] = {**challenge, "grounded": one.arm == "truthful" and one.evidence}
    return told


def write(
    folder: Path,
    talks: Sequence[Talked],
    control: Sequence[Talked] = (),
    *,
    reward: str = "adversarial/gated",
    opponent: str = "scripted",
    seed: int = 0,
    **challenge: Any,
) -> Path:
    folder.mkdir()
    arms = {"truthful": 0.25, "misleading": 0.5, "null": 0.25, "evidence": 1.0, **challenge}
    config = {
        "name": reward,
        "kind": "debate",
        "question": f"Does it? {NASTY}",
        "settings": {"steps": 4, "seed": seed},
        "task": {"name": "disruption", "labels": [D, C, N], "contract": TWO_KEY.name},
        "reward": {"name": reward},
        "data": {"fingerprint": "f" * 64, "test": len(talks)},
        "challenge": {"opponent": opponent, "papers": "arguable", **arms},
    }
    alone = opponent == "nobody"
    lines = [line(i, TEST, one, alone=alone) for i, one in enumerate(talks)]
    lines += [line(i, CONTROL, one, alone=alone) for i, one in enumerate(control)]
    failure = {"where": "environment", "what": "a challenge says more than it may"}
    lines.append({"step": 0, "split": "train", "prompt_id": "W0", "failure": failure})
    metrics: list[dict[str, Any]] = [{"step": s, "eval/caving": 0.5, "train/reward/total": -0.1 * s} for s in range(5)]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "manifest.json").write_text(json.dumps({"status": "finished"}))
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in metrics))
    return folder


TALKS = [CAVED] * 6 + [STOOD] * 18 + [MENDED] * 20 + [STUCK] * 4 + [ASKED] * 10 + [BROKEN] * 2
CONTROLLED = [bare(one) for one in [CAVED] * 12 + [STOOD] * 12 + [MENDED] * 12 + [STUCK] * 12]
