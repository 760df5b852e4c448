"""Pages of runs of any kind: of a single run, of a comparison, and as Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from tinsmith.lab.experiment.key_text import shown_value
from tinsmith.lab.page.comparison import Comparison, compared_tasks
from tinsmith.lab.page.run_page import page_of_run
from tinsmith.lab.results.label_page import compare_labels, console, label_document, page_of_labels
from tinsmith.lab.results.run_details import steps_words
from tinsmith.lab.runs.files import Kind, Status
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.report import sentences
from tinsmith.pages.document import Document, Story
from tinsmith.pages.markdown import document_markdown, escaped, table_lines
from tinsmith.pages.measures import counted
from tinsmith.types.errors import ConfigError

COMPARISON: Final = "compare.html"  # The page of several runs, where no other file is named.
_ALONE: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            (Kind.TASK, Kind.TASK_SFT, Kind.TASK_SPARSE),
            "runs of your own task are compared with other keys and seeds of the same task",
        ),
        Kind.RLVR: "runs with and without a judge have no score in common",
    }
)
"""Reason why runs are compared within their task; those on papers are compared with one another."""


def run_page(folder: Path) -> Document:
    """Return the page of the run in `folder`; equal folders give equal pages."""
    run = read_run(folder)
    document = page_of_run(run) if run.config.kind in _ALONE else label_document(run)
    if run.manifest is not None and run.manifest.status == Status.INTERRUPTED:
        first, *others = document.sections
        story, *blocks = first.blocks
        assert isinstance(story, Story), "a summary begins with its sentences"
        saved = max((one.step for one in run.checkpoints), default=None)
        left = "it has no checkpoint"
        if saved is not None:
            left = f"its last checkpoint is that after {counted(saved, 'step')}"
        stopped = f"Interrupted: this run did not come to its end ({steps_words(run)}); {left}."
        first = replace(first, blocks=(Story([stopped, *story.sentences]), *blocks))
        document = replace(document, sections=(first, *others))
    return document


def compare(folders: Sequence[Path], task: str | None = None) -> Comparison:
    """Compare runs of one task, or runs on papers.

    `task` is the label that is compared; runs on two labels take part with what they say of it.
    """
    if len({folder.resolve() for folder in folders}) != len(folders):
        what = "a run is compared with itself"
        raise ConfigError(what, field="DIR", value=[str(folder) for folder in folders], allowed="each folder once")
    reasons = [_ALONE.get(read_run(folder).config.kind) for folder in folders]
    for why in reasons:
        if why is not None and any(other != why for other in reasons):
            alike = [str(folder) for folder, other in zip(folders, reasons, strict=True) if other == why]
            raise ConfigError(why, field="DIR", value=alike, allowed="runs of one kind")
    if reasons[0] is None:
        found = compare_labels(folders, task)
        return Comparison(page_of_labels(found), console(found), sentences(found.record))
    if task is not None:
        what = "--task does not apply here"
        raise ConfigError(what, field="--task", value=task, allowed="none: these runs have no labels to choose from")
    return compared_tasks(folders)


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
    names = ("identity", "weights", "rollouts", "metrics")
    rows: list[list[str]] = []
    commands: list[str] = []
    for run in runs:
        around = run.manifest.circumstances if run.manifest else {}
        where = {key: around.get(key) for key in ("model_name", "data", "base_url")}
        where |= cast(Mapping[str, object], around.get("files") or {})
        changed = {**run.config.overrides, **{key: value for key, value in where.items() if value}}
        words = [str(around.get("task") or run.config.name), *map(shown_value, changed.values())]
        name, *values = (word.removeprefix(f"{Path.cwd()}/") for word in words)
        given = (f"{key}={value}" for key, value in zip(changed, values, strict=True))
        commands.append(shlex.join(["tinsmith", "run", name, *given]))
        known = {**(run.manifest.hashes if run.manifest else {}), "identity_sha256": run.config.identity_sha256}
        digests = [known.get(f"{name}_sha256") for name in names]
        rows.append([f"`{run.folder.name}`", *(f"`{one[:16]}`" if one else "" for one in digests)])
    hashes = table_lines(["run", *names], rows)
    note = "The first 16 digits of each SHA-256."
    return "\n".join(["## Commands and hashes", "", "```", *commands, "```", "", note, "", hashes])
