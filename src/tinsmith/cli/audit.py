"""The verb `tinsmith audit`: a run's folder held against itself, and drawn steps of it computed again."""

from __future__ import annotations

import json
import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.cli.named_folders import HereKeys, Run, here_keys, run_folders
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell

if TYPE_CHECKING:
    from tinsmith.lab.experiment.audit import Audited


def audit(
    folder: Run,
    changes: HereKeys = None,
    steps: Annotated[
        int, typer.Option(min=0, metavar="N", help="Steps to draw and compute again; 0: only check the files.")
    ] = 3,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Random seed of the draw. Default: one that cannot be predicted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Check a run without running all of it: exit 0 where everything holds, 1 where something is not as it says."""
    with run_folders([folder]) as (place,):  # before what is heavy is imported
        with loading():
            from tinsmith.cli.registered import SUBJECTS, plan_of
            from tinsmith.lab.experiment.audit import audit as run
            from tinsmith.lab.service.forked import forked

        drawn_by = secrets.randbits(32) if seed is None else seed
        here = here_keys(changes)
        with forked() if steps else nullcontext() as waiting:
            done = run(place, SUBJECTS, plan_of, steps=steps, seed=drawn_by, say=tell, here=here, waiting=waiting)
    for line in [json.dumps(_values(done), indent=1, ensure_ascii=False)] if as_json else _lines(done):
        print(visible(line))
    if not done.passed:
        raise typer.Exit(code=1)


def _lines(done: Audited) -> list[str]:
    from tinsmith.lab.difference.runs import comparison_lines
    from tinsmith.lab.experiment.audit import SHARES

    lines = [f"drawn by seed {done.seed}: {_listed(done.drawn)} of {done.of_steps} steps"]
    lines += [f"contradiction: {fault}" for fault in done.faults]
    if not done.faults:
        lines.append("files, checkpoints and trace: no contradictions")
    for each in done.segments:
        found = comparison_lines(each.comparison)
        if each.element is not None and each.comparison.equal:
            lines.append(f"steps {each.since} to {each.until}: equal, but a checkpoint is not what they lead to")
        elif each.equal:
            lines.append(f"steps {each.since} to {each.until}: equal, bit for bit")
        else:
            lines += [f"steps {each.since} to {each.until}: {found[0]}", *found[1:]]
        lines += [] if each.element is None else [f"  {each.element}"]
    if done.segments and done.recorded_judge is not None:
        lines.append(f"taken from the record and not asked again: the verdicts of the judge {done.recorded_judge}")
    spent = sum(each.audit_s for each in done.segments)
    computed = sum(each.steps for each in done.segments)
    lines.append(
        f"computed: {computed} steps in {spent:.1f} s ({done.cpu_s:.1f} CPU-seconds with everything around them); "
        f"the whole run took {done.whole_s:.1f} s"
    )
    if done.drawn:
        chances = ", ".join(f"{share:.0%} forged: {done.chance(share):.0%}" for share in SHARES)
        lines.append(f"a forged step would have been among those drawn: {chances}")
    return lines


def _listed(steps: tuple[int, ...]) -> str:
    return ", ".join(map(str, steps)) or "none"


def _values(done: Audited) -> dict[str, object]:
    from tinsmith.lab.difference.runs import comparison_json
    from tinsmith.lab.experiment.audit import SHARES

    return {
        "passed": done.passed,
        "seed": done.seed,
        "of_steps": done.of_steps,
        "drawn": list(done.drawn),
        "faults": list(done.faults),
        "segments": [
            {
                "since": each.since,
                "until": each.until,
                "original_s": each.original_s,
                "audit_s": each.audit_s,
                **comparison_json(each.comparison),
                "equal": each.equal,
                "element": each.element,
            }
            for each in done.segments
        ],
        "recorded_judge": done.recorded_judge,
        "whole_s": done.whole_s,
        "cpu_s": done.cpu_s,
        "chance": {str(share): done.chance(share) for share in SHARES},
    }
