"""Folders of runs, written by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_files(folder: Path, contents: Mapping[str, object]) -> Path:
    """Write a folder's files by their names: an object each, or a list of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        lines = content if isinstance(content, list) else [content]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_task_run(
    folder: Path,
    task: Mapping[str, object],
    rollouts: Sequence[Mapping[str, object]],
    *,
    metrics: Sequence[Mapping[str, object]] = ({"step": 0}, {"step": 1}, {"step": 2}, {"step": 3}),
    arm: str = "",
    seed: int = 0,
    steps: int = 3,
) -> Path:
    """Write a finished run on a task of one's own."""
    config = {
        "name": "task/mine",
        "kind": "task",
        "settings": {"steps": steps, "seed": seed, "groups_per_batch": 2},
        "overrides": {"arm": arm} if arm else {},
        "task": {"name": "mine"},
    }
    files = {"config.json": config, "task.json": task, "manifest.json": {"status": "finished"}}
    return write_files(folder, {**files, "rollouts.jsonl": [*rollouts], "metrics.jsonl": [*metrics]})
