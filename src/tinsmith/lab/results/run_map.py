"""The run map, generated: every experiment with its question, its parent and only what it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import MapRow, RunMap
from tinsmith.pages.tables import shown

STATUS_WORDS: Mapping[str, str] = {
    Status.FINISHED: "finished",
    Status.INTERRUPTED: "interrupted by hand; it can be resumed",
    Status.LOST: "stopped because its server or judge was lost; it can be resumed",
    Status.RUNNING: "still running, or killed without notice",
}


def run_map(arms: Sequence[Arm]) -> RunMap:
    """Return the map of a page, each experiment below its parent where that is there."""
    return RunMap([_row(arm, depth) for depth, arm in _placed(arms)])


def by_descent(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return arms in the order of the run map."""
    return tuple(arm for _, arm in _placed(arms))


def _placed(arms: Sequence[Arm]) -> list[tuple[int, Arm]]:
    """Return arms with how many of their forebears are among them."""
    placed: list[tuple[int, Arm]] = []
    names = {arm.experiment for arm in arms}

    def place(arm: Arm, depth: int) -> None:
        if any(arm is other for _, other in placed):
            return
        placed.append((depth, arm))
        for child in arms:
            if child.parent == arm.experiment and child.experiment != arm.experiment:
                place(child, depth + 1)

    for arm in arms:
        if arm.parent is None or arm.parent not in names:
            place(arm, 0)
    for arm in arms:  # what is left has a parent that is its own descendant
        place(arm, 0)
    return placed


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


def _row(arm: Arm, depth: int) -> MapRow:
    config = arm.first.config
    statuses = sorted({status_words(member.run) for member in arm.members})
    return MapRow(
        depth=depth,
        name=arm.name,
        kind=arm.kind.words,
        question=config.question,
        parent=config.parent or "",
        delta=tuple((key, shown(value)) for key, value in config.delta.items()),
        overrides=tuple((key, shown(value)) for key, value in sorted(config.overrides.items()) if key != "seed"),
        seeds=arm.seeds(),
        status="; ".join(statuses),
    )
