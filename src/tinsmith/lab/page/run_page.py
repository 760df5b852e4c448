"""The page of one run, whatever it is on: its subject says what stands on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tinsmith.lab.experiment.experiment import SubjectEntry
from tinsmith.lab.results.run_map import steps_words
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Document, Words
from tinsmith.pages.wording import counted

Subjects = Mapping[Kind, SubjectEntry]


def run_page(folder: Path, subject: SubjectEntry) -> Document:
    """Return the page of the run in `folder`; the same folder, the same page.

    Raises:
        DataError: there is no run in `folder`.
    """
    run = read_run(folder)
    document = subject.page(run)
    if run.manifest is not None and run.manifest.status == Status.INTERRUPTED:
        first, *others = document.sections
        first = replace(first, blocks=(Words(_interrupted(run)), *first.blocks))
        document = replace(document, sections=(first, *others))
    return document


def _interrupted(run: Run) -> str:
    saved = max((one.step for one in run.checkpoints), default=None)
    left = "it has no checkpoint" if saved is None else f"its last checkpoint is that after {counted(saved, 'step')}"
    return f"Interrupted: this run did not come to its end ({steps_words(run)}); {left}."


def subject_of(folder: Path, subjects: Subjects) -> SubjectEntry:
    """Return what the run in `folder` is on.

    Raises:
        DataError: there is no run in `folder`.
    """
    return subjects[read_run(folder).config.kind]
