"""What a run on rubrics writes down beside its rollouts: its tasks for the report, and how its judge was asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tinsmith.data.replacing import replacing
from tinsmith.experiments.keys import Asking
from tinsmith.tasks.rubrics.splitting import RubricSplit


def write_tasks(split: RubricSplit, file: Path) -> None:
    """Write one line a task: its id, its side, its prompt and its criteria; the old file or the whole new one."""
    with replacing(file) as part:
        part.write_text("".join(_lines(split)), encoding="utf-8", newline="\n")


def asking_circumstances(asking: Asking) -> dict[str, object]:
    """Return every key of the asking, paths whole: with them a replay asks as the run did.

    An address is told without what may be a secret in it; an endpoint refuses such an address later.
    """
    told: dict[str, object] = {}
    for each in dataclasses.fields(asking):
        value: object = getattr(asking, each.name)
        told[each.name] = str(value.absolute()) if isinstance(value, Path) else value
    if asking.judge_base_url is not None:
        told["judge_base_url"] = _without_secrets(asking.judge_base_url)
    return told


def _lines(split: RubricSplit) -> Iterator[str]:
    for side, tasks in (("train", split.train), ("test", split.test)):
        for task in tasks:
            line = {
                "task_id": task.task_id,
                "split": side,
                "prompt": task.prompt,
                "criteria": list(task.criteria),
            }
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
