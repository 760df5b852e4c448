"""`tinsmith run`: an experiment by its name, changed by key=value; without a name, the list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import typer


def run(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="family/rung; without it, the list.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="key=value ...", help="What to change.")
    ] = None,
    wants_help: Annotated[
        bool, typer.Option("--help", help="With NAME: its keys, their values and meanings.")
    ] = False,
) -> None:
    """Run an experiment; `tinsmith run` lists them; dry_run=true says what it would take."""
    if name is None:
        print(context.get_help()) if wants_help else _list()
        return
    if wants_help:
        _keys(name)
        return
    overrides = _overrides(changes or [])
    from tinsmith.experiments.studies import STUDIES

    if name in STUDIES:
        _study(name, overrides)
        return
    from tinsmith.experiments.conduct import conduct
    from tinsmith.experiments.estimate import dry_run
    from tinsmith.experiments.keys import Kind
    from tinsmith.experiments.plan import make_plan, with_default_log_path
    from tinsmith.experiments.registry import find

    plan = with_default_log_path(make_plan(find(name), overrides))
    if plan.circumstances.dry_run:
        print("\n".join(dry_run(plan)))
        return

    def told(message: str) -> None:
        if not plan.circumstances.quiet:
            print(message, file=sys.stderr)

    done = conduct(plan, told=told)
    if plan.frame.kind is Kind.RLVR and done.finished is not None:
        from tinsmith.reports.run_page import report_run

        print(f"wrote {done.folder}; what came of it: {report_run(done.folder)}")
        return
    print(f"wrote {done.folder}; next: tinsmith report {done.folder}")


def _study(name: str, overrides: Mapping[str, str]) -> None:
    from tinsmith.experiments.key_text import truth
    from tinsmith.experiments.studies import STUDIES

    done = STUDIES[name].run(overrides, lambda message: print(message, file=sys.stderr))
    if not truth("dry_run", overrides.get("dry_run", "false")):
        print(f"wrote {done}")


def _keys(name: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from tinsmith.experiments.key_help import key_help
    from tinsmith.experiments.registry import find
    from tinsmith.experiments.studies import STUDIES

    console = Console(highlight=False)
    if name in STUDIES:
        study = STUDIES[name]
        console.print(f"{name}: {study.question}\n", markup=False)
        own = Table(box=None, pad_edge=False)
        for column in ("key", "default", "what it is"):
            own.add_column(column, overflow="fold")
        for key in study.keys.own:
            own.add_row(key.name, key.default, key.words)
        console.print(own, markup=False)
        if study.keys.more:
            print("\n" + study.keys.more)
        return
    experiment = find(name)
    console.print(f"{experiment.full_name}: {experiment.question}\n", markup=False)
    table = Table(box=None, pad_edge=False)
    keys = key_help(experiment)
    for column in ("key", *(f"at={at}" for at in keys[0].values), "what it is"):
        table.add_column(column, overflow="fold")
    apart = False
    for each in keys:
        if each.circumstance and not apart:
            apart = True
            table.add_row("")
            table.add_row("where and how fast (no part of the run's identity):")
        table.add_row(each.name, *each.values.values(), each.words)
    console.print(table, markup=False)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from tinsmith.experiments.registry import EXPERIMENTS
    from tinsmith.experiments.studies import STUDIES

    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "changes", "in", "question"):
        table.add_column(column, overflow="fold")
    for one in EXPERIMENTS.values():
        delta = " ".join(f"{key}={value}" for key, value in one.delta.items())
        table.add_row(one.full_name, delta, one.parent or "", one.question)
    for study in STUDIES.values():
        table.add_row(study.name, "", "", study.question)
    Console(highlight=False).print(table)
    print(
        "\ntinsmith run NAME [key=value ...]; dry_run=true prints what it would take, NAME --help its keys"
    )


def _overrides(changes: list[str]) -> dict[str, str]:
    from tinsmith.types.errors import ConfigError

    overrides: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise ConfigError(
                "a change must be written as key=value",
                field="changes",
                value=change,
                fix="learning_rate=1e-4",
            )
        if key in overrides:
            raise ConfigError("this key is given twice", field=key, value=value)
        overrides[key] = value
    return overrides
