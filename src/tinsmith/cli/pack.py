"""The verbs `tinsmith pack` and `tinsmith unpack`: a run or a study as one file that others can check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from tinsmith.types.waits import loading, ticking

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
    from tinsmith.cli.named_folders import require_replaceable, require_runs
    from tinsmith.lab.bundle.archive import CRATE
    from tinsmith.lab.study.files import holds_study

    if not holds_study(folder):
        require_runs([folder])  # before what is heavy is imported
    require_replaceable(out, CRATE.encode())
    with loading():
        from tinsmith.lab.bundle.pack import Kept, Statement
        from tinsmith.lab.bundle.pack import pack as run
        from tinsmith.types.fingerprints import file_sha256

    statement = Statement(
        authors=tuple(author or ["the authors of this run"]),
        license=license,
        data_license=data,
        date=_date(folder) if date is None else date,
    )
    with ticking(f"writing {out}"):
        sizes = run(
            folder,
            out,
            kept=Kept(checkpoints),
            statement=statement,
            origin_of=lambda each: _origin(each, data is not None),
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


def _date(folder: Path) -> str:
    """Return when a run's manifest, or a study's record, was written."""
    from datetime import UTC, datetime

    from tinsmith.lab.runs.files import MANIFEST
    from tinsmith.lab.study.files import STUDY_JSON

    file = next(each for each in (folder / STUDY_JSON, folder / MANIFEST, folder) if each.exists())
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()


def _origin(folder: Path, with_data: bool) -> dict[str, Path]:
    """Return the files that a run was made of: its task's source, and its data where they are to go along."""
    from importlib.util import find_spec

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
