"""The page of one run, whatever it is on: its subject says what stands on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.experiment.experiment import SubjectEntry
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.pages.page import document_html

Subjects = Mapping[Kind, SubjectEntry]


def run_html(folder: Path, subject: SubjectEntry) -> str:
    """Return the page of the run in `folder`; the same folder, the same bytes.

    Raises:
        DataError: there is no run in `folder`.
    """
    return document_html(subject.page(read_run(folder)))


def subject_of(folder: Path, subjects: Subjects) -> SubjectEntry:
    """Return what the run in `folder` is on.

    Raises:
        DataError: there is no run in `folder`.
    """
    return subjects[read_run(folder).config.kind]
