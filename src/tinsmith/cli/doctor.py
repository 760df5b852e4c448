"""`tinsmith doctor`: whether everything is here that tinsmith needs, and what to do where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, ticking

if TYPE_CHECKING:
    from tinsmith.cli.findings import Finding


def doctor(
    base_url: Annotated[
        str | None, typer.Option(envvar="TINKER_BASE_URL", help="Server to check, with the key in TINKER_API_KEY.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Check the machine, the installation, the arithmetic and a server; exit 1 if something must be done."""
    with loading():
        from tinsmith.cli.findings import arithmetic, certificates, disk, examine, gpu, machine, server, versions
    with ticking("checking the arithmetic of the built-in models"):
        found = examine([machine, versions, arithmetic, gpu, certificates, disk]) + server(base_url)
    wrong = any(one.must for one in found if one.todo is not None)
    _print_json(found) if as_json else _print_lines(found)
    if wrong:
        raise typer.Exit(code=1)


def _print_lines(found: list[Finding]) -> None:
    width = max(len(one.topic) for one in found)
    for one in found:
        mark = " " if one.todo is None else "!" if one.must else "?"
        print(visible(f"{mark} {one.topic:{width}}  {one.text}"))
    todo = [one for one in found if one.todo is not None]
    print("\nto do:" if todo else "\nnothing to do")
    for number, one in enumerate(todo, start=1):
        print(visible(f"{number}. {one.todo}") + ("" if one.must else " (can wait)"))


def _print_json(found: list[Finding]) -> None:
    import json

    findings = [
        {"topic": one.topic, "text": one.text, "todo": one.todo, "must": one.must, **one.facts} for one in found
    ]
    todo = [one.todo for one in found if one.todo is not None]
    ok = not any(one.must for one in found if one.todo is not None)
    print(visible(json.dumps({"ok": ok, "findings": findings, "todo": todo}, indent=1, ensure_ascii=False)))
