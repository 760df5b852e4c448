"""The verbs `diff`, `replay`, `audit`, `pack` and `unpack`: comparison and verification of runs."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer import Argument, Option

from tinsmith.cli.columns import AsJson, HereKeys, Run, print_json, require_replaceable, require_runs, run_folders
from tinsmith.cli.run import changed_keys
from tinsmith.types.errors import ConfigError
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell, ticking

if TYPE_CHECKING:
    from tinsmith.lab.difference.runs import Comparison
    from tinsmith.lab.experiment.audit import Audited
    from tinsmith.lab.experiment.audit_units import UnitPlace


def diff(first: Run, second: Run, as_json: AsJson = False) -> None:
    """Say whether two runs are equal bit for bit (exit 0), or where they first differ, and by how much (exit 1)."""
    from tinsmith.lab.difference.runs import compare_runs

    with run_folders((first, second)) as folders:
        found = compare_runs((folders[0], folders[1]))
    _print(found, as_json=as_json)
    if not found.equal:
        raise typer.Exit(code=1)


def _print(found: Comparison, *, as_json: bool, **more: object) -> None:
    """Print a comparison; `more` is added to the JSON."""
    from tinsmith.lab.difference.runs import comparison_json, comparison_lines

    if as_json:
        print_json({**comparison_json(found), **more})
        return
    for line in comparison_lines(found):
        print(visible(line))


_HERE: Final = "device=cuda, data=DIR, ..."  # Such keys a repetition takes.
_NOT_HERE: Final = {"log_path": "replay --out NEW", "stop_after": "replay --steps N"} | dict.fromkeys(
    ("behavior_if_log_dir_exists", "dry_run", "check_reward", "wandb_project", "wandb_name", "trackio_project"),
    "leave it out",
)
"""Keys of a run without a meaning where it is repeated, and what to do."""


def _here_keys(changes: list[str] | None) -> dict[str, str]:
    here = changed_keys(changes or (), listed_by=_HERE)
    for key in (each for each in here if each in _NOT_HERE):
        what = "this key has no meaning where a run is repeated"
        raise ConfigError(what, field=key, value=here[key], allowed=_HERE, fix=_NOT_HERE[key])
    return here


def replay(
    folder: Run,
    changes: HereKeys = None,
    steps: Annotated[int | None, Option(min=1, metavar="N", help="Repeat only the first N steps.")] = None,
    out: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder for the replay. Default: beside the run, kept only if it differs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a run again from its manifest and compare: exit 0 where it is equal bit for bit, 1 where it is not."""
    here = _here_keys(changes)
    require_runs([] if folder.is_file() else [folder])  # before what is heavy is imported
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        what, allowed = "this folder is not empty", "a new or an empty folder"
        raise ConfigError(what, field="--out", value=str(out), allowed=allowed, fix="--out NEW")
    with loading():
        from tinsmith.cli.bar import interruptible
        from tinsmith.cli.registered import plan_of
        from tinsmith.lab.experiment.replay import replay as run

    with interruptible(resumes=False), run_folders([folder]) as (place,):
        beside = folder.absolute().parent
        done = run(place, plan_of, steps=steps, out=out, say=tell, here=here, beside=beside)
    replay_folder = None if done.folder is None else str(done.folder)
    seconds = {"original_s": done.original_s, "replay_s": done.replay_s}
    _print(done.comparison, as_json=as_json, replay=replay_folder, **seconds)
    if not as_json:
        ratio = f" ({done.replay_s / done.original_s:.2f}x)" if done.original_s else ""
        print(f"time: {done.original_s:.1f} s then, {done.replay_s:.1f} s now{ratio}")
        if replay_folder is not None:
            print(f"the replay is in {replay_folder}")
    if not done.comparison.equal:
        raise typer.Exit(code=1)


_STEPS = 3
_OF_UNITS: Final = ("of_units", "differences", "whole_steps")  # Fields that an audit of steps does not have.
_NO_END = "not computed: the evaluation and the test after the last step, which the run's result is from (--end does)"
_CONSISTENT = (
    "config, metrics, rollouts, trace and checkpoints: no contradictions (other files, as pages, are not checked)"
)
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)%")


def audit(
    folder: Run,
    changes: HereKeys = None,
    steps: Annotated[
        int | None, Option(min=0, metavar="N", help=f"Steps to draw (default: {_STEPS}); 0: only check the files.")
    ] = None,
    units: Annotated[
        str | None,
        Option(
            metavar="P%", help="Share of units of gradient to draw instead of steps; needs a run with unit_hashes=true."
        ),
    ] = None,
    seed: Annotated[
        int | None, Option(metavar="S", help="Random seed of the draw. Default: one that cannot be predicted.")
    ] = None,
    end: Annotated[bool, Option("--end", help="Compute the last evaluation and the test, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a run without running all of it: exit 0 where everything holds, 1 where something is not as it says."""
    share = None if units is None else _share(units)
    if share is not None and (steps is not None or end):
        fix = "leave one of them out"
        raise ConfigError("units are drawn alone", field="--units", value=units, fix=fix)
    count = _STEPS if steps is None else steps
    here = _here_keys(changes)
    if here and share is None and not count and not end:
        key, value = next(iter(here.items()))
        what = "nothing is computed with --steps 0, and no key has a meaning"
        raise ConfigError(what, field=key, value=value, fix="leave it out, or draw steps: --steps 1")
    require_runs([] if folder.is_file() else [folder])  # before what is heavy is imported
    with loading():
        from tinsmith.cli.bar import interruptible
        from tinsmith.cli.registered import plan_of
        from tinsmith.lab.bundle.archive import unlike_crate
        from tinsmith.lab.experiment.audit import audit as audit_steps
        from tinsmith.lab.experiment.audit_units import audit_units

    drawn_by = secrets.randbits(32) if seed is None else seed
    with interruptible(resumes=False), run_folders([folder]) as (place,):
        bundled = unlike_crate(place) if folder.is_file() else []
        if share is not None:
            of_units = audit_units(place, plan_of, share=share, seed=drawn_by, say=tell, here=here)
            of_units = dataclasses.replace(of_units, faults=(*bundled, *of_units.faults))
            passed, lines, values = of_units.passed, _unit_lines(of_units), _values(of_units)
        else:
            done = audit_steps(place, plan_of, steps=count, seed=drawn_by, say=tell, end=end, here=here)
            done = dataclasses.replace(done, faults=(*bundled, *done.faults))
            passed, lines, values = done.passed, _lines(done), _values(done)
    if as_json:
        print_json(values)
    for line in () if as_json else lines:
        print(visible(line))
    if not passed:
        raise typer.Exit(code=1)


def _share(text: str) -> float:
    found = _SHARE.fullmatch(text)
    if found is None or not 0 < float(found[1]) <= 100:
        allowed = "above 0% to 100%, such as 1%"
        raise ConfigError("this is not a share of units", field="--units", value=text, allowed=allowed)
    return float(found[1]) / 100


def _lines(done: Audited[int]) -> list[str]:
    from tinsmith.lab.difference.runs import difference_lines
    from tinsmith.pages.measures import counted

    lines: list[str] = []
    for span in done.segments:
        last = span.until - span.ends
        where = f"steps {span.since} to {last}" if span.since < last else f"step {span.since}"
        if span.ends:
            where = "the evaluation and the test" if last < span.since else f"{where}, the evaluation and the test"
        if span.first is not None:
            first, *details = difference_lines(span.first)
            lines += [f"{where}: {first}", *details]
        elif span.element is not None:
            lines.append(f"{where}: equal, but a checkpoint is not what they lead to")
        else:
            lines.append(f"{where}: equal, bit for bit")
        lines += [] if span.element is None else [f"  {span.element}"]
    some = f"step{'s' if len(done.drawn) > 1 else ''} {', '.join(map(str, done.drawn))}" if done.drawn else "no step"
    drawn = f"{some}, of {done.of_steps}"
    spent = sum(each.audit_s for each in done.segments)
    steps = counted(sum(each.steps for each in done.segments), "step")
    return _report(done, drawn, lines, f"{steps} in {spent:.1f} s", "step")


def _unit_lines(done: Audited[UnitPlace]) -> list[str]:
    from tinsmith.lab.difference.runs import difference_lines
    from tinsmith.pages.measures import counted

    units, steps = counted(len(done.drawn), "unit"), counted(len({one.step for one in done.drawn}), "step")
    lines = [line for each in done.differences for line in difference_lines(each)]
    lines = lines or ["units: equal, bit for bit, and so are the rewards of their steps"]
    lines.append("taken from the record: every reply and its log-probabilities")
    whole = f"; {counted(done.whole_steps, 'step')} from checkpoints to them, trained whole" if done.whole_steps else ""
    drawn = f"{units} of {done.of_units} units of gradient, in {steps} of {done.of_steps}"
    return _report(done, drawn, lines, units + whole, "unit")


def _report(done: Audited[Any], drawn: str, results: Sequence[str], computed: str, unit: str) -> list[str]:
    lines = [f"drawn by seed {done.seed}: {drawn}", *(f"contradiction: {fault}" for fault in done.faults)]
    lines += [*([] if done.faults else [_CONSISTENT]), *results, *([_NO_END] if done.end_computed is False else [])]
    if done.drawn and done.recorded_judge is not None:
        lines.append(f"taken from the record and not asked again: the verdicts of the judge {done.recorded_judge}")
    around = f"{done.cpu_s:.1f} CPU-seconds with the start of this command"
    lines.append(f"computed: {computed} ({around}); the whole run took {done.whole_s:.1f} s")
    if done.drawn:
        chances = ", ".join(f"{float(share):.0%} forged: {chance:.0%}" for share, chance in _chances(done).items())
        lines.append(f"a forged {unit} would have been among those drawn: {chances}")
    return lines


def _values(done: Audited[Any]) -> dict[str, object]:
    segments = [{**dataclasses.asdict(each), "equal": each.equal} for each in done.segments]
    values = {"passed": done.passed, **dataclasses.asdict(done), "segments": segments, "chance": _chances(done)}
    other = _OF_UNITS if done.of_units is None else ("segments",)
    return {name: value for name, value in values.items() if name not in other}


def _chances(done: Audited[Any]) -> dict[str, float]:
    from tinsmith.lab.experiment.audit import SHARES

    return {str(share): done.chance(share) for share in SHARES}


_LISTED = 5  # Files that are named when a bundle was written, the largest.


def pack(
    folder: Annotated[Path, Argument(metavar="DIR", help="The folder of a run or a study.")],
    out: Annotated[Path, Option(metavar="FILE.zip", help="The file to write.")],
    checkpoints: Annotated[
        Literal["all", "last"],
        Option(help="all: every checkpoint, so that any step can be checked quickly. last: the final adapter only."),
    ] = "last",
    data: Annotated[str | None, Option(metavar="LICENCE", help="Pack the data too, under this licence.")] = None,
    license: Annotated[
        str, Option(metavar="LICENCE", help="Licence of the adapter and the record, as on the hub; taken as written.")
    ] = "other",
    author: Annotated[list[str] | None, Option(metavar="NAME", help="Author. Repeatable.")] = None,
    date: Annotated[
        str | None, Option(metavar="YYYY-MM-DD", help="Date of publication. Default: that of its manifest.")
    ] = None,
) -> None:
    """Write a run or a study with all that it takes to check it into one file, and nothing of this machine."""
    from tinsmith.lab.bundle.archive import CRATE
    from tinsmith.lab.study.files import holds_study

    if not holds_study(folder):
        require_runs([folder])  # before what is heavy is imported
    require_replaceable(out, CRATE.encode())
    with loading():
        from tinsmith.lab.bundle.pack import Checkpoints, Statement
        from tinsmith.lab.bundle.pack import pack as run
        from tinsmith.types.fingerprints import file_sha256

    day = _date(folder, date)
    statement = Statement(
        authors=tuple(author or ["the authors of this run"]), license=license, data_license=data, date=day
    )
    with ticking(f"writing {out}"):
        sizes = run(
            folder,
            out,
            which=Checkpoints(checkpoints),
            statement=statement,
            origin_of=lambda at: _origin(at, data is not None),
        )
    print(f"wrote {out}: {len(sizes)} files, {out.stat().st_size / 1e6:.1f} MB")
    for name in sorted(sizes, key=lambda each: (-sizes[each], each))[:_LISTED]:
        print(f"  {sizes[name] / 1e6:8.1f} MB {name}")
    print(f"SHA-256, to be published beside it: {file_sha256(out)}")


def unpack(
    file: Annotated[Path, Argument(metavar="FILE.zip", help="A file that `tinsmith pack` wrote.")],
    folder: Annotated[Path, Argument(metavar="DIR", help="A new or an empty folder.")],
) -> None:
    """Unpack a run or a study; DIR is its folder then, and every command takes it."""
    from tinsmith.lab.bundle.archive import unpack as run

    with ticking(f"unpacking {file}"):
        run(file, folder)
    print(f"unpacked into {folder}")


def _date(folder: Path, given: str | None) -> str:
    """Return the date that is given, or when a run, or a study's last, ended; of an older one that of its file."""
    from tinsmith.lab.runs.files import MANIFEST
    from tinsmith.lab.runs.folder import RunFolder
    from tinsmith.lab.study.files import STUDY_JSON

    ended = max((RunFolder(each.parent).manifest().ended for each in folder.rglob(MANIFEST)), default="")
    if (given := given or ended or None) is not None:
        try:
            return date.fromisoformat(given).isoformat()
        except ValueError:
            raise ConfigError("this is no date", field="--date", value=given, allowed="YYYY-MM-DD") from None
    file = next(each for each in (folder / STUDY_JSON, folder / MANIFEST, folder) if each.exists())
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()


def _origin(folder: Path, with_data: bool) -> dict[str, Path]:
    """Return the input files of a run: its task's source, and its data if they are to be included."""
    from tinsmith.cli.registered import EXPERIMENTS, TASKS, plan_of
    from tinsmith.lab.bundle.pack import data_of, source_of_file
    from tinsmith.lab.experiment.manifest import located
    from tinsmith.lab.runs.reader import read_run
    from tinsmith.lab.runs.records import Manifest
    from tinsmith.types.source import PACKAGE

    run = read_run(folder)
    around = located(run.manifest or Manifest(), folder)
    task = str(around.get("task") or "")
    file, colon, _ = task.partition(".py")
    if colon and Path(f"{file}.py").is_file():
        source = source_of_file(Path(f"{file}.py"))
    else:
        head = task.partition(":")[0].partition("/")[0]
        module = f"tinsmith.studies.{TASKS[head].where.partition(':')[0]}" if head in TASKS else None
        if module is None and run.config.name in EXPERIMENTS:
            module = "tinsmith.studies.disruption.experiments"
        found = None if module is None else find_spec(module)
        origin = None if found is None or found.origin is None else Path(found.origin)
        source = {} if origin is None else {f"source/tinsmith/{origin.relative_to(PACKAGE).as_posix()}": origin}
    return {**source, **(data_of(run, around, plan_of) if with_data else {})}
