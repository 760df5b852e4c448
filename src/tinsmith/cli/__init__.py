"""Command line: verbs, and error messages.

A verb imports what it runs when it is run, so that `tinsmith --help` answers at once; this floor is
the one where functions import. A mistake is at most five lines and exit code 2, never a traceback.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Option
from typer.core import TyperGroup

from tinsmith.cli.analyse.command import app as analyse_app
from tinsmith.cli.audit import audit, diff, pack, replay, unpack
from tinsmith.cli.checks import conform, doctor, sweep
from tinsmith.cli.data import app as data_app
from tinsmith.cli.models import app as base_app
from tinsmith.cli.models import export, serve
from tinsmith.cli.report import export_results, ls, report
from tinsmith.cli.run import INTERRUPTED, TERMINATED, new, quickstart, run
from tinsmith.types.disk import disk_full, is_full
from tinsmith.types.errors import LostError, TinsmithError, perhaps
from tinsmith.types.version import VERSION
from tinsmith.types.visible import VisibleFormatter, visible

_ELSEWHERE: Final = {
    **dict.fromkeys(("train", "start", "experiment", "study", "task", "tasks", "list", "runs"), "run"),
    **{"init": "new", "create": "new", "status": "ls", "compare": "report", "show": "report", "plot": "report"},
    **{"fetch": "base fetch", "download": "base fetch", "server": "serve", "check": "doctor", "verify": "audit"},
    **{"rerun": "replay", "repeat": "replay", "zip": "pack", "dashboard": "report", "eval": "run", "evaluate": "run"},
    "chat": "serve",
}
"""Commands of other tools, and their equivalents here."""


_NOT_ONE_OF: Final = re.compile(r"'(.*)' is not one of '(.*)'\.$")  # As typer says it.
_OF_KEYS: Final = (run, quickstart, replay, audit)  # Commands that take key=value, to which options are spelled so.


class _Commands(TyperGroup):
    """Commands; an unknown one is answered with the most similar."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # typer keeps click's types to itself
        """Find the command; `tinsmith my_task.py` and `tinsmith crossroads` lack the `run`."""
        name = args[0]
        if name not in self.commands:
            from tinsmith.cli.registered import EXPERIMENTS, STUDIES, TASKS

            to_run = name.endswith(".py") or name.partition("@")[0] in {*TASKS, *STUDIES, *EXPERIMENTS}
            meant = f"run {name}" if to_run else _ELSEWHERE.get(name)
            if meant is not None:
                ctx.fail(f"No such command {name!r}. Did you mean 'tinsmith {meant}'?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command; an invalid value of an option is answered with the most similar."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            if (found := _NOT_ONE_OF.search(error.message)) and (meant := perhaps(found[1], found[2].split("', '"))):
                error.message += f" {meant.capitalize()}?"
            raise


app = typer.Typer(
    name="tinsmith",
    cls=_Commands,
    help="Post-training that can be run again: bit for bit, on your own machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_SHORT: Final = (
    (quickstart, "A first result: one model, three rewards, one page."),
    (run, "Run a task, a study or an experiment, or list them."),
    (new, "Write a file to start your own task or study from."),
    (ls, "List the runs of a folder with their status."),
    (report, "Write the page of a run, or compare several runs."),
    (export_results, "Write a run's figures and answers as tables."),
    (doctor, "Check machine, installation, arithmetic and a server."),
    (serve, "Serve the Tinker API on this machine."),
    (replay, "Repeat a run, and compare the two bit for bit."),
    (diff, "Compare two runs: the first step that differs."),
    (audit, "Check a run by computing some of its steps again."),
    (pack, "Pack a run or a study into one file to publish."),
    (unpack, "Unpack a packed run or study into a folder."),
    (sweep, "Measure what changes the bits, and by how much."),
    (conform, "Test which parts of the Tinker API a server supports."),
    (export, "Write a model for transformers, PEFT or llama.cpp."),
)
"""Commands with their line in the list, which a terminal of 80 columns does not cut."""
for _command, _line in _SHORT:
    _foreign = {"allow_extra_args": _command is run, "ignore_unknown_options": _command in _OF_KEYS}
    app.command(short_help=_line, add_help_option=_command is not run, context_settings=_foreign)(_command)
app.add_typer(data_app, short_help="Citation data: fetch, build, measure, slice.")
app.add_typer(base_app, short_help="Base models: build one, or fetch a real one.")
app.add_typer(analyse_app, short_help="Analyse rewards (optimal policy) and published rates.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit codes: 1 a failed check, 2 a mistake, 3 a lost server or judge."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - while the process lives
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(VisibleFormatter())  # the SDK's warnings quote servers
    try:
        app(args=arguments, prog_name="tinsmith")
    except SystemExit as stop:
        if arguments is None:
            gc.freeze()  # the process ends: nobody waits for garbage to be looked for
        # A server has put its state away, and who interrupts does not wait for libraries to be taken down.
        if arguments is None and (stop.code in (INTERRUPTED, TERMINATED) or sys.argv[1:2] == ["serve"]):
            # At once: unloading the libraries may take seconds after an interrupt.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(stop.code or 0))
        raise
    except KeyboardInterrupt:  # where the commands are put together; they see to their own interrupts
        _fail("interrupted; nothing has begun", code=INTERRUPTED)
    except TinsmithError as error:
        _fail(str(error), code=3 if isinstance(error, LostError) else 2)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("tinsmith"):
            raise
        _fail(f"the package {error.name} is missing; install tinsmith with what it needs")
    except RecursionError:
        _fail("a file is nested too deeply to be read")
    except OSError as error:
        if is_full(error):
            _fail(str(disk_full(error)), code=3)
        # A folder one may not write to is no defect of the program.
        file = Path(str(error.filename or "a file"))
        file = file.parent / re.sub(r"^\.(.+)\.part$", r"\1", file.name)  # It is written beside its place.
        _fail(f"{file}: {error.strerror or error}\n  do: check its name, and that you may read and write there")


def _fail(message: str, *, code: int = 2) -> None:
    print(visible(f"tinsmith: {message}"), file=sys.stderr)
    sys.exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tinsmith {VERSION}")
        raise typer.Exit


@app.callback()
def tinsmith(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Post-training that repeats bit for bit, on your own machine."""
