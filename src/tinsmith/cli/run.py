"""`tinsmith run`: an experiment by its name, changed by key=value; without a name, the list."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def run(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="family/rung; without it, the list.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="key=value ...", help="What to change.")
    ] = None,
) -> None:
    """Run an experiment; `tinsmith run` lists them; dry_run=true says what it would take."""
    if name is None:
        _list()
        return
    from tinsmith.experiments.conduct import conduct
    from tinsmith.experiments.estimate import dry_run
    from tinsmith.experiments.plan import make_plan, with_default_log_path
    from tinsmith.experiments.registry import find

    plan = with_default_log_path(make_plan(find(name), _overrides(changes or [])))
    if plan.circumstances.dry_run:
        print("\n".join(dry_run(plan)))
        return

    def told(message: str) -> None:
        if not plan.circumstances.quiet:
            print(message, file=sys.stderr)

    done = conduct(plan, told=told)
    print(f"wrote {done.folder}; next: tinsmith report {done.folder}")


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from tinsmith.experiments.registry import EXPERIMENTS

    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "changes", "in", "question"):
        table.add_column(column, overflow="fold")
    for one in EXPERIMENTS.values():
        delta = " ".join(f"{key}={value}" for key, value in one.delta.items())
        table.add_row(one.full_name, delta, one.parent or "", one.question)
    Console(highlight=False).print(table)
    print("\ntinsmith run NAME [key=value ...]; dry_run=true prints what it would take")


def _overrides(changes: list[str]) -> dict[str, str]:
    from tinsmith.types.errors import ConfigError

    overrides: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise ConfigError(
                "a change is key=value", field="changes", value=change, fix="learning_rate=1e-4"
            )
        if key in overrides:
            raise ConfigError("this key is given twice", field=key, value=value)
        overrides[key] = value
    return overrides
