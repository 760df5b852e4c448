"""The verb `tinsmith conform`: what any Tinker server honours of the protocol, asked by the official client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.lab.conform.suite import Found


def conform(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, http://HOST:PORT.")],
    key: Annotated[str | None, typer.Option(envvar="TINKER_API_KEY", show_envvar=True, help="Its key, tml-...")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the first trainable one that the server names.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write the table as a page, too.")] = None,
    timeout: Annotated[float, typer.Option(min=1.0, metavar="SECONDS", help="The most that one row may take.")] = 120.0,
    only: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only rows whose name contains this, as in losses/.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask a Tinker server what it honours: honoured, differs, refused, silent difference (then exit 1), and how."""
    import os
    import sys

    from tinsmith.lab.service.reach import KEY, require_server
    from tinsmith.types.errors import ConfigError, LostError

    if not key:
        raise ConfigError("no key is given", field=KEY, fix="export TINKER_API_KEY=tml-..., or --key tml-...")
    os.environ[KEY] = key  # where all that asks for it looks
    if out is not None and not out.resolve().parent.is_dir():
        raise ConfigError("there is no such folder to write to", field="--out", value=str(out))
    try:
        require_server(url)
    except LostError as error:
        raise ConfigError(error.what, field="URL", value=url, fix="start it, or name another") from None
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    import logging

    from tinsmith.lab.conform.suite import ask, checks, open_subject
    from tinsmith.lab.conform.verdict import Word

    logging.getLogger("tinker").setLevel(logging.CRITICAL)  # its retries are among the answers
    asked = [one for one in checks() if only is None or only in one.name]
    if not asked:
        raise ConfigError("no row has such a name", field="--only", value=only)
    with open_subject(url, key, model, timeout) as subject:
        chosen = subject.model
        found: list[Found] = []
        for one in ask(subject, asked):
            found.append(one)
            if sys.stderr.isatty():
                print(f"\r{len(found)} of {len(asked)}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    _tell(url, chosen, found, out, as_json=as_json)
    if any(one.verdict.word is Word.SILENT for one in found):
        raise typer.Exit(code=1)


def _tell(url: str, model: str, found: list[Found], out: Path | None, *, as_json: bool) -> None:
    """Print what was found, and write the page where one is wanted."""
    import json
    import sys

    from tinsmith.lab.conform import told

    if out is not None:
        from tinsmith.pages.page import document_html, write

        write(document_html(told.document(url, model, found)), out)
    if as_json:
        print(visible(json.dumps(told.as_json(url, model, found), indent=1, ensure_ascii=False)))
        return
    title = visible(f"{model} at {url}")
    if sys.stdout.isatty():
        from tinsmith.pages.console import VisibleConsole

        VisibleConsole().print(told.console_table(title, found))
    else:
        print(title)
        for one in found:
            print(told.line(one))
    print(told.summary(found))
    if out is not None:
        print(f"wrote {out}")
