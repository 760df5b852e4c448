"""The verb `tinsmith new`: a commented file to begin a task or a study of one's own with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="The file to write.")],
    study: Annotated[
        bool, typer.Option("--study", help="A study: a task, arms, sizes, and what is expected beforehand.")
    ] = False,
) -> None:
    """Write a starting point for a task of your own, or with --study for a study, in one file that runs as it is."""
    from tinsmith.types.errors import ConfigError

    if file.suffix != ".py":
        raise ConfigError("a task or a study is a Python file", field="FILE.py", value=str(file))
    package = "tinsmith.lab.study" if study else "tinsmith.lab.user_task"
    text = (resources.files(package) / "start.py.txt").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text.replace("@FILE@", file.name).replace("@NAME@", file.stem))
    except FileExistsError:
        raise ConfigError(
            "there is such a file already", field="FILE.py", value=str(file), fix="name another"
        ) from None
    print(f"wrote {file}; next: tinsmith run {file} dry_run=true, then tinsmith run {file}")
