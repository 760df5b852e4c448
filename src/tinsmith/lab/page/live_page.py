"""Page of a run in progress: redrawn after each evaluation, with a status bar, reloading until the end.

A page that cannot be drawn ends no run: why is handed back, to be told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markupsafe import escape

from tinsmith.lab.experiment.conduct import Conducted, conduct
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.live.interrupts import InterruptedTwice
from tinsmith.lab.live.progress import Standing
from tinsmith.lab.page.report import run_page
from tinsmith.lab.runs.files import REPORT, holds_run
from tinsmith.models.staging import folder_lock
from tinsmith.pages.page import document_html, ending, script_hash, write
from tinsmith.types.errors import DiskFullError
from tinsmith.types.waits import Say, ticking

RELOADED_SECONDS: Final = 10
_OPEN, _CLOSE = "<!--unfinished-->", "<!--/unfinished-->"
_MARKED: Final = re.compile(f"{re.escape(_OPEN)}.*?{re.escape(_CLOSE)}\n?", re.DOTALL)
_INTERRUPTED_SECONDS: Final = 60.0
"""The longest that a run which was interrupted waits for its page."""
_RENEWS: Final = (
    f"setInterval(() => {{ if (document.getElementById('renews').checked) location.reload(); }}, {RELOADED_SECONDS}000)"
)
_HASH: Final = escape(script_hash(_RENEWS))
_ALLOWED: Final = ("script-src ", f"script-src {_HASH} ")
"""Start of a page's script policy, without and with the script that reloads it."""
_BODY: Final = re.compile(r"<body[^>]*>\n?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A page, or why there is none."""

    page: Path | None
    trouble: str | None = None
    ending: Sequence[str] = ()  # The verdict, and what may be claimed.


def draw_page(folder: Path, unfinished: Standing | None = None, *, seconds: float | None = None) -> Drawn:
    """Write `report.html` of the run in `folder` in any state; raises nothing.

    After `seconds` it is not waited for any more: an interrupt may have left a library's lock taken.
    """
    alone = ThreadPoolExecutor(1)
    try:
        drawing = alone.submit(_draw, folder, unfinished)
        trouble = drawing.exception(seconds)
    except TimeoutError:
        return Drawn(page=None, trouble=f"no page was drawn within {seconds:g} s; tinsmith report {folder} draws it")
    finally:
        alone.shutdown(wait=False)  # who interrupts it does not wait for a page
    if trouble is None:
        return Drawn(page=folder / REPORT, ending=drawing.result())
    first = (str(trouble).splitlines() or [""])[0]
    return Drawn(page=None, trouble=f"no page was drawn: {type(trouble).__name__}: {first}")


def settle_page(folder: Path) -> None:
    """Remove status bar and reloading from the page of a stopped run."""
    file = folder / REPORT
    if file.is_file():
        html = _MARKED.sub("", file.read_text(encoding="utf-8"))
        write(html.replace(_ALLOWED[1], _ALLOWED[0], 1), file)


def with_progress(html: str, unfinished: Standing) -> str:
    """Return a page with a status bar on top, which reloads itself."""
    words = f"Still running: step {unfinished.step} of {unfinished.steps}, {unfinished.left}."
    bar = (
        f'{_OPEN}<div role="status" style="padding: .6em 1em; font-weight: 600">'
        f'<progress aria-label="steps" value="{unfinished.step}" max="{max(1, unfinished.steps)}" '
        f'style="width: 12em; margin-right: 1em"></progress>{escape(words)} <label style="display: inline-block">'
        f'<input type="checkbox" id="renews" checked> renews itself every {RELOADED_SECONDS} seconds</label></div>'
        f"<script>{_RENEWS}</script>{_CLOSE}\n"
    )
    return _BODY.sub(lambda body: body[0].rstrip("\n") + "\n" + bar, html.replace(*_ALLOWED, 1), count=1)


def _draw(folder: Path, unfinished: Standing | None) -> list[str]:
    page = run_page(folder)
    html = document_html(page)
    write(html if unfinished is None else with_progress(html, unfinished), folder / REPORT)
    return ending(page)


def conduct_with_page(plan: Plan, say: Say) -> tuple[Conducted, Drawn]:
    """Run a plan to its end or stopping step; return the page of a finished run too."""
    folder = plan.circumstances.log_path
    assert folder is not None, "a plan that is run has a folder"
    troubles: set[str] = set()

    def trouble(words: str | None) -> None:
        if words is not None and words not in troubles:
            troubles.add(words)
            say(f"warning: {words}")

    def reached(standing: Standing) -> None:
        if standing.step != standing.steps:  # else the page of the whole run comes next
            trouble(draw_page(folder, standing).trouble)

    try:
        done = conduct(plan, say=say, reached=None if plan.circumstances.quiet else reached)
    except BaseException as error:
        place = folder_lock(folder) if folder.is_dir() else None
        if place is not None:  # else another process writes in the folder, whose page it is
            os.close(place)
            with suppress(DiskFullError):  # the run's own error says more
                settle_page(folder)
            if isinstance(error, KeyboardInterrupt) and not isinstance(error, InterruptedTwice) and holds_run(folder):
                trouble(draw_page(folder, seconds=_INTERRUPTED_SECONDS).trouble)
        raise
    if done.finished is None:
        settle_page(folder)
        return done, Drawn(page=None)
    with ticking("drawing the page", say):
        drawn = draw_page(done.folder)
    trouble(drawn.trouble)
    return done, drawn
