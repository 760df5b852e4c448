"""Names of the files in a run's folder, kinds and states of runs, and handling of an existing run."""

from __future__ import annotations

import enum
import fcntl
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Final, cast

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.slices import card as slice_card
from tinsmith.types.errors import ConfigError
from tinsmith.types.json_text import parse_json


class Kind(enum.StrEnum):
    """Training loop, and the subject it trains on."""

    RL = "rl"  # Labels of papers, by reinforcement.
    SFT = "sft"  # Labels of papers, by example.
    RLVR = "rlvr"  # Instructions, by reinforcement; what is rewarded are rubrics that a judge finds fulfilled.
    TASK = "task"  # A task of the user's own, by reinforcement.
    TASK_SFT = "task_sft"  # A task of the user's own, by example.
    TASK_SPARSE = "task_sparse"  # A task of the user's own, by the base's own rollouts at uncertain tokens.
    JOINT = "joint"  # Both labels of papers in one answer, by reinforcement.
    MEASUREMENT = "measurement"  # Nothing is trained: a folder of that kind holds no run, and has its page already.

    @property
    def words(self) -> str:
        """Its name on a page."""
        named = {Kind.RLVR: "RL with rubrics", Kind.JOINT: "RL on two labels", Kind.TASK_SPARSE: "Sparse selection"}
        return named.get(self, "SFT" if self in (Kind.SFT, Kind.TASK_SFT) else "RL")

    @property
    def data_words(self) -> str:
        """The name of its data."""
        of_items = (Kind.TASK, Kind.TASK_SFT, Kind.TASK_SPARSE)
        return "Tasks" if self is Kind.RLVR else "Items" if self in of_items else "Papers"


class Status(enum.StrEnum):
    """State in which a run ended, or is."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    LOST = "lost"  # Its server or judge was lost.


CONFIG: Final = "config.json"  # What was asked for. Its being there says that there is a run.
MANIFEST: Final = "manifest.json"  # How far the run came, on what, and the hashes of what it left.
METRICS: Final = "metrics.jsonl"
STOPPED_AT: Final = "train/stopped_at"  # Steps that a run took whose rewards no longer differed; at its end.
ROLLOUTS: Final = "rollouts.jsonl"
TIMINGS: Final = "timings.jsonl"
TRACE: Final = "trace.jsonl"  # Hashes of every tensor's gradient and weights at every step.
CHECKPOINTS: Final = "checkpoints.jsonl"
BASELINES: Final = slice_card.BASELINES  # What simple baselines reach on the run's papers, as beside their slice.
REPORT: Final = "report.html"
LEDGER: Final = "judge.jsonl"
"""Judge requests with their costs. Never truncated: costs count even if the run was killed."""
TASKS: Final = "tasks.jsonl"  # The prompts of a run whose answers are judged by criteria, with these.
TASK: Final = "task.json"  # Of a run on a task of the user's own: its terms, its held-out items, its baselines.
SECTIONS: Final = "sections.json"  # The sections that it adds to its page.
GENERAL: Final = "general.json"
"""Likelihood of fixed general texts under the trained model and its base, which measures forgetting."""
SERVED_NAME: Final = "base"  # The name on an embedded server of a model that was given as a folder or a file.
STATE: Final = "checkpoints"  # Where a run's embedded server keeps its state, in the run's folder.

GROWING: Final = (METRICS, ROLLOUTS, TIMINGS, TRACE)  # Files that a step appends to, and that a resumed run cuts back.
WHOLE: Final = (MANIFEST, BASELINES, BASELINE_ANSWERS, REPORT, LEDGER, TASKS, TASK, SECTIONS, GENERAL, CONFIG)
"""Files that are deleted with a run, in this order."""


class IfExists(StrEnum):
    """Choice for a folder that holds a run already."""

    RESUME_INTERRUPTED = "resume_interrupted"
    """RESUME a run that was interrupted, was killed or lost its server, RAISE at any other."""
    RAISE = "raise"
    RESUME = "resume"
    DELETE = "delete"
    ASK = "ask"  # Ask at the terminal which of the other three; RAISE where there is none.


def holds_run(path: Path) -> bool:
    """True if a run was begun in this folder."""
    return (path / CONFIG).exists()


def settle(path: Path, if_exists: IfExists) -> IfExists:
    """Return the action for an existing run: RAISE, RESUME or DELETE; ASK prompts in the terminal."""
    if if_exists is IfExists.RESUME_INTERRUPTED:
        return IfExists.RESUME if _was_interrupted(path) else IfExists.RAISE
    if if_exists is not IfExists.ASK or not holds_run(path):
        return if_exists
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise _already_there(path, "this folder holds a run already, and there is no terminal to ask at")
    choices = [IfExists.RAISE, IfExists.RESUME, IfExists.DELETE]
    while True:
        question = f"{path} holds a run already: {', '.join(choices)}? "
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            return IfExists.RAISE
        if answer.strip() in list(choices):
            return IfExists(answer.strip())


def require_room(path: Path, if_exists: IfExists) -> None:
    """Check that a run may start in a folder, or resume there."""
    if holds_run(path):
        if if_exists is IfExists.RAISE:
            raise _already_there(path, "this folder holds a run already")
        return
    # A kill while beginning leaves nothing but a config.json that was never put in place.
    if path.exists() and not (path.is_dir() and all(each.name == f".{CONFIG}.new" for each in path.iterdir())):
        what = "this folder holds something that is not a run"
        raise ConfigError(what, field="log_path", value=str(path), allowed="an empty or new folder")


def _already_there(path: Path, what: str) -> ConfigError:
    fix = "log_path=NEW; or behavior_if_log_dir_exists=resume goes on with it, =delete begins again"
    return ConfigError(what, field="log_path", value=str(path), allowed="an empty or new folder", fix=fix)


def _was_interrupted(path: Path) -> bool:
    """True if the run in a folder stopped early: it reported so, or the process that ran it is gone."""
    began = path / MANIFEST
    file = began if began.exists() else path / CONFIG  # killed before it was written
    try:
        read: object = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return False
    found = cast(dict[str, object], read) if isinstance(read, dict) else {}
    if file != began:
        return "identity_sha256" in found and not is_locked(path)
    status = found.get("status")
    return status in (Status.INTERRUPTED.value, Status.LOST.value) or (
        status == Status.RUNNING.value and not is_locked(path)
    )


def is_locked(path: Path) -> bool:
    """True if a process writes in a folder, or the file system has no locks to tell it by (NFS)."""
    place = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(place)
    return False
