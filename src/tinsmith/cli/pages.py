"""The address of a page as a command ends with it, and --open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinsmith.types.visible import visible

Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def tell_page(file: Path, opened: bool) -> None:
    """Print where a page is, as an address; a folder where there is no page."""
    if not file.is_file():
        print(visible(f"wrote {file}"))
        return
    address = file.absolute().as_uri()
    print(visible(f"page: {address}"))
    if opened:
        import webbrowser

        webbrowser.open(address)
