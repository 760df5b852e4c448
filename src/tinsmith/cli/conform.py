"""The verb `tinsmith conform`: what any Tinker server honours of the protocol, asked by the official client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from tinsmith.cli.columns import AsJson, print_json
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.lab.conform.suite import Found


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
    import logging
    import os
    import sys

    from tinsmith.lab.experiment.materials import KEY, require_server
    from tinsmith.types.errors import ConfigError, LostError

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
    found: list[Found] = []
    watched = sys.stderr.isatty()
    with suite.open_subject(url, key, model, timeout) as subject:
        chosen = subject.model
        for one in suite.ask(subject, checks):
            found.append(one)
            if watched:
                print(f"\r{len(found)} of {len(checks)}", end="", file=sys.stderr, flush=True)
    if watched:
        print("\r\033[K", end="", file=sys.stderr)
    if out is not None:
        from tinsmith.pages.page import document_html, write

        write(document_html(suite.document(url, chosen, found)), out)
    if as_json:
        print_json(suite.as_json(url, chosen, found))
    else:
        title = visible(f"{chosen} at {url}")
        if sys.stdout.isatty():
            from tinsmith.pages.console import VisibleConsole

            VisibleConsole().print(suite.console_table(title, found))
        else:
            print("\n".join([title, *map(suite.line, found)]))
        print(suite.summary(found) + ("" if out is None else f"\nwrote {out}"))
    if any(one.verdict.word is Word.SILENT for one in found):
        raise typer.Exit(code=1)
