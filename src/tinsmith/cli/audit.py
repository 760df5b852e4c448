"""The verb `tinsmith audit`: a run's folder held against itself, and drawn steps or units of it computed again."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.cli.named_folders import HereKeys, Run, here_keys, run_folders
from tinsmith.types.errors import ConfigError
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell

if TYPE_CHECKING:
    from tinsmith.lab.experiment.audit import Audited
    from tinsmith.lab.experiment.audit_units import UnitsAudited


_STEPS = 3
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)%")


def audit(
    folder: Run,
    changes: HereKeys = None,
    steps: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help=f"Steps to draw (default: {_STEPS}); 0: only check the files."),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            metavar="P%", help="Share of units of gradient to draw instead of steps; needs a run with unit_hashes=true."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Random seed of the draw. Default: one that cannot be predicted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Check a run without running all of it: exit 0 where everything holds, 1 where something is not as it says."""
    share = None if units is None else _share(units)
    if share is not None and steps is not None:
        raise ConfigError(
            "steps or units are drawn, not both", field="--units", value=units, fix="leave one of them out"
        )
    count = _STEPS if steps is None else steps
    with run_folders([folder]) as (place,):  # before what is heavy is imported
        with loading():
            from tinsmith.cli.registered import SUBJECTS, plan_of
            from tinsmith.lab.experiment.audit import audit as audit_steps
            from tinsmith.lab.experiment.audit_units import audit_units

        drawn_by = secrets.randbits(32) if seed is None else seed
        here = here_keys(changes)
        if share is not None:
            of_units = audit_units(place, SUBJECTS, plan_of, share=share, seed=drawn_by, say=tell, here=here)
            passed, lines, values = of_units.passed, _unit_lines(of_units), _unit_values(of_units)
        else:
            done = audit_steps(place, SUBJECTS, plan_of, steps=count, seed=drawn_by, say=tell, here=here)
            passed, lines, values = done.passed, _lines(done), _values(done)
    for line in [json.dumps(values, indent=1, ensure_ascii=False)] if as_json else lines:
        print(visible(line))
    if not passed:
        raise typer.Exit(code=1)


def _share(text: str) -> float:
    """Return a percentage as a share."""
    found = _SHARE.fullmatch(text)
    if found is None or not 0 < float(found[1]) <= 100:
        raise ConfigError(
            "this is not a share of units", field="--units", value=text, allowed="above 0% to 100%, such as 1%"
        )
    return float(found[1]) / 100


def _lines(done: Audited) -> list[str]:
    from tinsmith.lab.difference.runs import difference_lines

    lines = [f"drawn by seed {done.seed}: {_listed(done.drawn)} of {done.of_steps} steps", *_record(done.faults)]
    for each in done.segments:
        if each.element is not None and each.first is None:
            lines.append(f"steps {each.since} to {each.until}: equal, but a checkpoint is not what they lead to")
        elif each.first is None:
            lines.append(f"steps {each.since} to {each.until}: equal, bit for bit")
        else:
            first, *details = difference_lines(each.first)
            lines += [f"steps {each.since} to {each.until}: {first}", *details]
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
        lines.append(f"a forged step would have been among those drawn: {_chances(done)}")
    return lines


def _record(faults: Sequence[str]) -> list[str]:
    if not faults:
        return ["files, checkpoints and trace: no contradictions"]
    return [f"contradiction: {fault}" for fault in faults]


def _chances(done: Audited | UnitsAudited) -> str:
    from tinsmith.lab.experiment.audit import SHARES

    return ", ".join(f"{share:.0%} forged: {done.chance(share):.0%}" for share in SHARES)


def _unit_lines(done: UnitsAudited) -> list[str]:
    from tinsmith.lab.difference.runs import difference_lines
    from tinsmith.pages.wording import counted

    steps = sorted({one.step for one in done.drawn})
    lines = [
        f"drawn by seed {done.seed}: {counted(len(done.drawn), 'unit')} of {done.of_units} units of gradient, "
        f"in {counted(len(steps), 'step')} of {done.of_steps}",
        *_record(done.faults),
    ]
    for each in done.differences:
        lines += difference_lines(each)
    if not done.differences:
        lines.append("units: equal, bit for bit, and so are the rewards of their steps")
    lines.append("taken from the record: every reply and its log-probabilities")
    if done.recorded_judge is not None:
        lines.append(f"taken from the record and not asked again: the verdicts of the judge {done.recorded_judge}")
    between = (
        f"; {counted(done.whole_steps, 'step')} from checkpoints to them, trained whole" if done.whole_steps else ""
    )
    lines.append(
        f"computed: {counted(len(done.drawn), 'unit')}{between} ({done.cpu_s:.1f} CPU-seconds with everything around "
        f"them); the whole run took {done.whole_s:.1f} s"
    )
    return [*lines, f"a forged unit would have been among those drawn: {_chances(done)}"]


def _unit_values(done: UnitsAudited) -> dict[str, object]:
    from tinsmith.lab.experiment.audit import SHARES

    chances = {str(share): done.chance(share) for share in SHARES}
    return {"passed": done.passed, **dataclasses.asdict(done), "chance": chances}


def _listed(steps: tuple[int, ...]) -> str:
    return ", ".join(map(str, steps)) or "none"


def _values(done: Audited) -> dict[str, object]:
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
                "equal": each.equal,
                "first": None if each.first is None else dataclasses.asdict(each.first),
                "element": each.element,
            }
            for each in done.segments
        ],
        "recorded_judge": done.recorded_judge,
        "whole_s": done.whole_s,
        "cpu_s": done.cpu_s,
        "chance": {str(share): done.chance(share) for share in SHARES},
    }
