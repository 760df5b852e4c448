"""The verb `tinsmith replay`: a run from its manifest once more, compared with what it was."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tinsmith.cli.diff import AsJson, tell
from tinsmith.types.visible import visible


def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="Run only the first N steps.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the replay here. Default: beside, and kept if it differs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a run again from its manifest and compare: exit 0 where it is equal bit for bit, 1 where it is not."""
    from tinsmith.cli.named_folders import require_runs

    require_runs([folder])  # before what is heavy is imported
    from tinsmith.cli.registered import SUBJECTS, plan_of
    from tinsmith.lab.experiment.replay import replay as run

    def say(message: str) -> None:
        print(visible(message), file=sys.stderr)

    done = run(folder, SUBJECTS, plan_of, steps=steps, out=out, say=say)
    kept = None if done.folder is None else str(done.folder)
    seconds = {"original_s": done.original_s, "replay_s": done.replay_s}
    tell(done.comparison, as_json=as_json, replay=kept, **seconds)
    if not as_json:
        ratio = f" ({done.replay_s / done.original_s:.2f}x)" if done.original_s else ""
        print(f"time: {done.original_s:.1f} s then, {done.replay_s:.1f} s now{ratio}")
        if kept is not None:
            print(f"the replay is in {kept}")
    if not done.comparison.equal:
        raise typer.Exit(code=1)
