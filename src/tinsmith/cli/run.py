"""`tinsmith run`: an experiment by its name, or a task by its file, changed by key=value; without either, the list."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tinsmith.experiments.key_help import KeyHelp


def run(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="family/rung, or FILE.py with a task of your own; without it, the list.",
        ),
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
        _task_keys(name) if name.endswith(".py") else _keys(name)
        return
    overrides = _overrides(changes or [])
    if name.endswith(".py"):
        _task(name, overrides)
        return
    from tinsmith.experiments.studies import STUDIES

    if name in STUDIES:
        _study(name, overrides)
        return
    from tinsmith.experiments.conduct import conduct
    from tinsmith.experiments.estimate import dry_run
    from tinsmith.experiments.plan import make_plan, with_default_log_path
    from tinsmith.experiments.registry import find
    from tinsmith.runs.kinds import Kind

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


def _task(file: str, overrides: Mapping[str, str]) -> None:
    from tinsmith.tasks.user_task.loading import load_file

    found = load_file(Path(file))  # a mistake in it is told before anything heavy is imported
    from tinsmith.experiments.task_run import dry_run, open_file, run_opened

    opened = open_file(found, overrides)
    if opened.plan.circumstances.dry_run:
        print("\n".join(dry_run(opened)))
        return

    def told(message: str) -> None:
        if not opened.plan.circumstances.quiet:
            print(message, file=sys.stderr)

    done = run_opened(opened, told)
    page = "" if done.report is None else f"; what came of it: {done.report}"
    print(f"wrote {done.folder}{page}")


def _task_keys(file: str) -> None:
    from tinsmith.tasks.user_task.loading import load_file

    found = load_file(Path(file))
    from tinsmith.experiments.task_run import task_help

    told = task_help(found)
    _key_table(f"{told.name}: {told.question}", told.keys)


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
    _key_table(f"{experiment.full_name}: {experiment.question}", key_help(experiment))


def _key_table(title: str, keys: Sequence[KeyHelp]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"{title}\n", markup=False)
    table = Table(box=None, pad_edge=False)
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
