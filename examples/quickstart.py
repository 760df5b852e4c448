"""The study in small: papers, a base model, SFT and three rewards, and one page that says what happened.

    python examples/quickstart.py [OUT] [key=value ...]      OUT: where the runs go (default out/quickstart)

Without `data=SLICE` a synthetic world of 30,000 papers is built, whose labels come from its citation graph.
With `ray=local`, or the address of a Ray, the runs are that Ray's tasks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from tinsmith.lab.study.on_ray import run_side_by_side
from tinsmith.pages.page import document_html, write
from tinsmith.studies.disruption.experiments import CONTROL, LABELS, QUICKSTART
from tinsmith.types.errors import TinsmithError


def main() -> None:
    changes = dict(change.split("=", 1) for change in sys.argv[1:] if "=" in change)
    named = [argument for argument in sys.argv[1:] if "=" not in argument]
    out = Path(named[0] if named else "out/quickstart")
    began = time.perf_counter()

    def say(message: str) -> None:
        print(f"[{time.perf_counter() - began:4.0f} s] {message}", flush=True)

    folders = run_side_by_side((*QUICKSTART, CONTROL), out, changes, say)
    say("comparing")
    compared = LABELS.compare(folders, None)
    page = out / "compare.html"
    write(document_html(compared.page), page)
    console = Console(highlight=False)
    console.print(compared.table)
    for sentence in compared.sentences:
        console.print(str(sentence), markup=False)
    say(f"wrote {page}: open it in a browser")


if __name__ == "__main__":
    try:
        main()
    except TinsmithError as error:
        sys.exit(f"tinsmith: {error}")
