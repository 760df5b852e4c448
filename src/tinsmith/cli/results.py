"""The verbs `tinsmith ls` and `tinsmith export-results`: the runs of a folder, and their results as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tinsmith.types.waits import loading, ticking


def ls(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder with runs. Default: runs.")] = Path("runs"),
) -> None:
    """List runs and studies: name, state, steps, last reward."""
    from tinsmith.cli.columns import rows, terminal_width
    from tinsmith.lab.runs.files import CONFIG, MANIFEST
    from tinsmith.types.errors import DataError
    from tinsmith.types.json_text import parse_json

    def read(file: Path) -> dict[str, object]:
        try:
            found = parse_json(file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    listed = [("run", "is", "state", "step", "reward")]
    for file in sorted(folder.rglob(CONFIG)) if folder.is_dir() else ():
        run, config = file.parent, read(file)
        settings = config.get("settings")
        steps = settings.get("steps") if isinstance(settings, dict) else None
        last = _last_line(run / "metrics.jsonl")
        reward = last.get("test/reward/total", last.get("eval/reward/total"))
        listed.append(
            (
                run.relative_to(folder).as_posix(),
                str(config.get("name", "not readable")),
                str(read(run / MANIFEST).get("status", "begun")),
                f"{last.get('step', 0)}{f' of {steps}' if steps is not None else ''}",
                f"{reward:.3f}" if isinstance(reward, int | float) else "",
            )
        )
    if len(listed) == 1:
        raise DataError(
            f"{folder} holds no run", field="DIR", value=str(folder), fix="tinsmith quickstart, or tinsmith run"
        )
    print("\n".join(rows(listed, terminal_width())))


def export_results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run, a study, or a corpus with metrics.")],
    to: Annotated[Literal["csv", "parquet"], typer.Option(help="The files' format.")] = "csv",
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Default: DIR/tables.")] = None,
) -> None:
    """Write tables for other programs: metrics, rollouts, answers by item; a corpus's labels."""
    from tinsmith.data.replacing import replacing
    from tinsmith.data.schema import PAPERS

    if (folder / PAPERS).exists():
        from tinsmith.data.corpus import Corpus
        from tinsmith.data.label_table import label_table

        tables = {"labels": label_table(Corpus.open(folder))}
    else:
        with loading():
            from tinsmith.lab.runs.frames import tables_of

        with ticking(f"reading {folder}"):
            tables = dict(tables_of(folder))
    written = folder / "tables" if out is None else out
    written.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        file = written / f"{name}.{to}"
        with ticking(f"writing {file}"), replacing(file) as part:
            if to == "csv":
                frame.write_csv(part)
            else:
                frame.write_parquet(part)
        print(f"wrote {file}: {frame.height:,} rows, {frame.width} columns")


def _last_line(file: Path) -> dict[str, object]:
    """Return the last whole line of a file that may still grow; empty: none is there."""
    from tinsmith.types.json_text import parse_json

    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - (1 << 16)))
            whole = stream.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
        found = parse_json(whole)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
