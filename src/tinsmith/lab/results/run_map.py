"""Words of a run's page and of a comparison: how far a run came, and on which papers it is."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import Run

STATUS_WORDS: Mapping[str, str] = {
    Status.FINISHED: "finished",
    Status.INTERRUPTED: "interrupted by hand; it can be resumed",
    Status.LOST: "stopped because its server or judge was lost; it can be resumed",
    Status.RUNNING: "still running, or killed without notice",
}


def status_words(run: Run) -> str:
    """Say how far a run came."""
    if run.manifest is None:
        return "not known: it has no manifest"
    return STATUS_WORDS.get(run.manifest.status, run.manifest.status or "not known")


def steps_words(run: Run) -> str:
    """Say how many of its steps a run has done."""
    # The line of step n is written when update n is; the last line, without an update, has the test.
    done, asked = len(run.metrics), run.config.steps
    if asked is None:
        return f"{done} steps"
    return f"{min(done, asked)} of {asked} steps"


def papers_words(run: Run) -> str:
    """Say which papers a run is about, and how many of each split."""
    data = run.config.data
    name = data.name or (f"slice {data.fingerprint[:12]}" if data.fingerprint else "not stated")
    sizes = [
        f"{count:,} {split}"
        for count, split in ((data.train, "train"), (data.validation, "validation"), (data.test, "test"))
        if count is not None
    ]
    return f"{name}: {', '.join(sizes)}" if sizes else name
