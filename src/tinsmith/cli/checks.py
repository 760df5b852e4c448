"""The verbs `doctor`, `conform` and `sweep`: checks of this machine, of servers, and of repeatability."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from tinsmith.cli.columns import AsJson, open_console, print_json
from tinsmith.types.errors import ConfigError, LostError
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell, ticking

if TYPE_CHECKING:
    from tinsmith.cli.findings import Finding
    from tinsmith.lab.conform.suite import Found
    from tinsmith.studies.bits.measures import CellResult


def doctor(
    base_url: Annotated[
        str | None, Option(envvar="TINKER_BASE_URL", help="Server to check, with the key in TINKER_API_KEY.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the machine, the installation, the arithmetic and a server; exit 1 if something must be done."""
    with loading():
        from tinsmith.cli.findings import arithmetic, certificates, disk, examine, gpu, machine, server, versions
    with ticking("checking the arithmetic of the built-in models"):
        found = examine([machine, versions, arithmetic, gpu, certificates, disk]) + server(base_url)
    _print(found, as_json=as_json)
    if any(one.must for one in found if one.todo is not None):
        raise typer.Exit(code=1)


def _print(findings: list[Finding], *, as_json: bool) -> None:
    todo = [one for one in findings if one.todo is not None]
    if as_json:
        own = ("topic", "text", "todo", "must")
        rows = [{**{name: getattr(one, name) for name in own}, **one.facts} for one in findings]
        ok = not any(one.must for one in todo)
        print_json({"ok": ok, "findings": rows, "todo": [one.todo for one in todo]})
        return
    width = max(len(one.topic) for one in findings)
    for one in findings:
        mark = " " if one.todo is None else "!" if one.must else "?"
        print(visible(f"{mark} {one.topic:{width}}  {one.text}"))
    print("\nto do:" if todo else "\nnothing to do")
    for number, one in enumerate(todo, start=1):
        print(visible(f"{number}. {one.todo}") + ("" if one.must else " (can wait)"))


def conform(
    url: Annotated[str, Argument(metavar="URL", help="The server, http://HOST:PORT.")],
    key: Annotated[str | None, Option(envvar="TINKER_API_KEY", show_envvar=True, help="Its key, tml-...")] = None,
    model: Annotated[
        str | None, Option(metavar="NAME", help="Base model. Default: the first trainable one that the server lists.")
    ] = None,
    out: Annotated[Path | None, Option(metavar="FILE.html", help="Write the table as an HTML page too.")] = None,
    timeout: Annotated[float, Option(min=1.0, metavar="SECONDS", help="Time limit of one check, in seconds.")] = 120.0,
    only: Annotated[
        str | None, Option(metavar="TEXT", help="Only checks whose name contains this, such as losses/.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a Tinker server what it honours: honoured, differs, refused, silent difference (then exit 1), and how."""
    from tinsmith.lab.experiment.materials import KEY, require_server

    if not key:
        raise ConfigError("no key is set", field=KEY, fix="export TINKER_API_KEY=tml-..., or --key tml-...")
    os.environ[KEY] = key  # where all that asks for it looks
    if out is not None and not out.resolve().parent.is_dir():
        raise ConfigError("this folder does not exist", field="--out", value=str(out))
    try:
        require_server(url)
    except LostError as error:
        raise ConfigError(error.what, field="URL", value=url, fix="start the server, or give another address") from None
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    from tinsmith.lab.conform import suite
    from tinsmith.lab.conform.subject import Word

    logging.getLogger("tinker").setLevel(logging.CRITICAL)  # its retries are among the answers
    checks = [one for one in suite.checks() if only is None or only in one.name]
    if not checks:
        raise ConfigError("no check has such a name", field="--only", value=only)
    results: list[Found] = []
    watched = sys.stderr.isatty()
    with suite.open_subject(url, key, model, timeout) as subject:
        chosen = subject.model
        for one in suite.ask(subject, checks):
            results.append(one)
            if watched:
                print(f"\r{len(results)} of {len(checks)}", end="", file=sys.stderr, flush=True)
    if watched:
        print("\r\033[K", end="", file=sys.stderr)
    if out is not None:
        from tinsmith.pages.page import document_html, write

        write(document_html(suite.document(url, chosen, results)), out)
    if as_json:
        print_json(suite.as_json(url, chosen, results))
    else:
        title = visible(f"{chosen} at {url}")
        if sys.stdout.isatty():
            from tinsmith.pages.console import VisibleConsole

            VisibleConsole().print(suite.console_table(title, results))
        else:
            print("\n".join([title, *map(suite.line, results)]))
        print(suite.summary(results) + ("" if out is None else f"\nwrote {out}"))
    if any(one.verdict.word is Word.SILENT for one in results):
        raise typer.Exit(code=1)


def sweep(
    out: Annotated[Path, Option(metavar="DIR", help="Folder for sweep.json and sweep.html.")],
    factors: Annotated[
        list[str] | None,
        Argument(metavar="[factor=v1,v2 ...]", help="Factors to vary, with their values. Default: all factors."),
    ] = None,
    pair: Annotated[
        list[str] | None, Option(metavar="FACTOR,FACTOR", help="Vary these two together as well. Repeatable.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        Option(metavar="FACTOR=VALUE", help="Value of the reference cell, such as threads=1. Repeatable."),
    ] = None,
    model: Annotated[
        str, Option(metavar="NAME=PATH", help="Base model: a folder, or a built-in name.")
    ] = "tinsmith/nano",
    completions: Annotated[int, Option(min=2, help="Number of completions of the prompt at each temperature.")] = 32,
    as_json: AsJson = False,
) -> None:
    """Vary what may change bits, and say what does: exit 1 if a promise is broken or a deliberate fault is not seen."""
    from tinsmith.studies.bits.cells import Size, plan

    name, _, path = model.partition("=")
    planned = plan(
        {factor: values.split(",") for factor, values in map(_setting, factors or ())},
        [text.split(",") for text in pair or ()],
        tuple(_setting(text) for text in reference or ()),
    )  # a mistake is refused before what is heavy is imported
    with loading():
        from tinsmith.studies.bits import study
        from tinsmith.studies.bits.study import LEGEND, story, sweep_table

    done_cells = 0

    def say(cell: CellResult) -> None:
        nonlocal done_cells
        done_cells += 1
        text = f"{done_cells}/{len(planned)} {cell.title}: {cell.verdict.value} ({cell.seconds:.1f} s)"
        tell(text)

    with ticking(lambda: f"{done_cells}/{len(planned)} cells"):
        done = study.sweep(planned, out, say, name=name, model=path or name, size=Size(completions=completions))
    if as_json:
        print_json(study.sweep_json(done))
    else:
        console = open_console()
        console.print(sweep_table(done))
        for line in (LEGEND, "", *story(done)):
            console.print(visible(line), markup=False, highlight=False)
        for cell in done.cells:
            if cell.unavailable is not None:
                print(visible(f"not available here: {cell.title}: {cell.unavailable}"))
        print(f"wrote {out / study.SWEEP_JSON} and {out / study.SWEEP_PAGE}")
    if done.wrong:
        raise typer.Exit(code=1)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ConfigError("a factor needs values, as in threads=1,2", field=name, value=text, allowed="factor=v1,v2")
    return name, value
