"""Opens a page from disk in headless Chromium without a network, and tells what came of it."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import pytest

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium here; scripts/install_chromium.sh installs Debian's"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever asks for an address gets none: the browser's own questions, and the page's if it had any.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=3000",
    "--enable-logging=stderr",
)
OWN_HOSTS = (".google.com", ".googleapis.com", ".gvt1.com", ".google")
"""Hosts the browser itself asks, page or no page."""


@dataclass(frozen=True)
class Opened:
    """A page after its script has run."""

    dom: str
    console: tuple[str, ...]
    """Messages on the console: errors, and violations of the page's policy."""
    asked: tuple[str, ...]
    """Addresses the page asked the network for."""

    @property
    def count(self) -> str:
        """Line of the browser of rows on how many it shows."""
        found = re.search(r'role="status"[^>]*>([^<]*)<', self.dom)
        return found[1] if found else ""

    @property
    def rows(self) -> list[str]:
        """The rows that the browser of rows shows, as HTML."""
        table = self.dom.partition(" data-filters=")[2].partition("</table>")[0]
        return re.findall(r"<tr\b.*?</tr>", table.partition("<tbody>")[2], re.DOTALL)


def opened(file: Path, scratch: Path, place: str = "") -> Opened:
    """Open `file`, at `place` (what follows the # of its address)."""
    assert BROWSER is not None
    log = scratch / "net.json"
    done = subprocess.run(
        [
            BROWSER,
            *FLAGS,
            # A new one each time: nothing that one page left may be there for the next.
            f"--user-data-dir={mkdtemp(prefix='profile-', dir=scratch)}",
            f"--log-net-log={log}",
            "--dump-dom",
            f"{file.as_uri()}#{place}" if place else file.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    errors = done.stderr.decode("utf-8", "replace")
    console = tuple(line for line in errors.splitlines() if "CONSOLE" in line)
    return Opened(done.stdout.decode("utf-8"), console, _asked(log))


def _asked(log: Path) -> tuple[str, ...]:
    """Return the addresses in a net log that are not the browser's own."""
    found: set[str] = set()
    for event in json.loads(log.read_text(encoding="utf-8"))["events"]:
        params = event.get("params")
        address = params.get("url") if isinstance(params, dict) else None
        if isinstance(address, str) and address.startswith(("http", "ws", "ftp")):
            host = urlsplit(address).hostname or ""
            if not f".{host}".endswith(OWN_HOSTS):
                found.add(address)
    return tuple(sorted(found))
