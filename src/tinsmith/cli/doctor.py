"""`tinsmith doctor`: whether everything is here that tinsmith needs, and what to do where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from tinsmith.cli.columns import AsJson, print_json
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, ticking

if TYPE_CHECKING:
    from tinsmith.cli.findings import Finding


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


def _print(found: list[Finding], *, as_json: bool) -> None:
    todo = [one for one in found if one.todo is not None]
    if as_json:
        own = ("topic", "text", "todo", "must")
        findings = [{**{name: getattr(one, name) for name in own}, **one.facts} for one in found]
        ok = not any(one.must for one in todo)
        print_json({"ok": ok, "findings": findings, "todo": [one.todo for one in todo]})
        return
    width = max(len(one.topic) for one in found)
    for one in found:
        mark = " " if one.todo is None else "!" if one.must else "?"
        print(visible(f"{mark} {one.topic:{width}}  {one.text}"))
    print("\nto do:" if todo else "\nnothing to do")
    for number, one in enumerate(todo, start=1):
        print(visible(f"{number}. {one.todo}") + ("" if one.must else " (can wait)"))
