"""The values of a debate's run, whatever its files say beside them: what was said, earned and measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinsmith.types.fingerprints import file_sha256, sha256_of

AGAIN = "\nReturn JSON only."
"""Stands behind each challenge of the brief script."""
ROLLOUT = (
    *("step", "split", "prompt_id", "sample", "tokens", "logprobs", "text", "outcome", "gold", "predicted"),
    *("confidence", "correct_by_turn", "speaks_for", "challenge"),
)
REWARD = ("terms", "total", "advantage")


def values_of(folder: Path, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return hashes of what was said and earned, and of the optimizer's trace; and the metrics named in `metrics`."""
    rollouts = [_rollout(json.loads(line)) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "rollouts": sha256_of(rollouts),
        "trace": file_sha256(folder / "trace.jsonl"),
        "metrics": {str(line["step"]): {key: line.get(key) for key in metrics[str(line["step"])]} for line in found},
    }


def _rollout(line: Mapping[str, Any]) -> dict[str, Any]:
    turns = [(one["role"], one.get("tokens"), one["text"].removesuffix(AGAIN)) for one in line["turns"]]
    reward = {key: line[key] for key in REWARD} if line["split"] == "train" else {}
    return {**{key: line[key] for key in ROLLOUT}, "turns": turns, **reward}
