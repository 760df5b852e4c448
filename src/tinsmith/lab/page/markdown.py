"""Reports as Markdown: the page, then each run's metrics, command and hashes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tinsmith.lab.experiment.key_text import shown_value
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Document
from tinsmith.pages.markdown import document_markdown, escaped, table_lines

MOST_STEPS = 12
"""Columns of the table over the steps; of more evaluations, evenly spaced ones with the first and the last."""
_SHOWN = ("eval/", "eval_greedy/", "train/reward/", "optim/kl_sample_train")


def markdown_report(page: Document, folders: Sequence[Path]) -> str:
    """Return a page as Markdown.

    Args:
        page: as `tinsmith report` draws it; of its browser of rows the first.
        folders: of the runs on it; each adds a table over the steps, the command that repeats it, and its hashes.
    """
    runs = [read_run(folder) for folder in folders]
    parts = [document_markdown(page).rstrip("\n"), *(_over_the_steps(run) for run in runs)]
    return "\n\n".join([*(part for part in parts if part), _commands(runs)]) + "\n"


def _over_the_steps(run: Run) -> str:
    """Return what the page's figures are drawn from: metrics at the evaluated steps, a row each."""
    steps = [step for step, row in run.metrics.items() if any(key.startswith("eval") for key in row)]
    if not steps:
        return ""
    if len(steps) > MOST_STEPS:
        steps = [steps[i * (len(steps) - 1) // (MOST_STEPS - 1)] for i in range(MOST_STEPS)]
    keys = sorted({key for step in steps for key in run.metrics[step] if key.startswith(_SHOWN)})
    found = {key: [run.metrics[step].get(key) for step in steps] for key in keys}
    rows = [[f"`{key}`", *("" if one is None else f"{one:.4g}" for one in some)] for key, some in found.items()]
    heads = ["metric", *(f"step {step}" for step in steps)]
    name = escaped(f"{run.config.title}, seed {run.config.seed}")
    return "\n".join([f"## Over the steps: {name}", "", table_lines(heads, rows)])


def _commands(runs: Sequence[Run]) -> str:
    commands = [command_of(run) for run in runs]
    names = ("identity", "weights", "rollouts", "metrics")
    rows: list[list[str]] = []
    for run in runs:
        known = {**(run.manifest.hashes if run.manifest else {}), "identity_sha256": run.config.identity_sha256}
        digests = [known.get(f"{name}_sha256") for name in names]
        rows.append([f"`{run.folder.name}`", *(f"`{one[:16]}`" if one else "" for one in digests)])
    hashes = table_lines(["run", *names], rows)
    note = "The first 16 digits of each SHA-256."
    return "\n".join(["## Commands and hashes", "", "```", *commands, "```", "", note, "", hashes])


def command_of(run: Run) -> str:
    """Return the command that a run was started with, without what only says where and how fast."""
    changed = (f"{key}={shown_value(value)}" for key, value in run.config.overrides.items())
    return shlex.join(["tinsmith", "run", run.config.name, *changed])
