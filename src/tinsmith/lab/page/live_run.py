"""Conducts a plan, and draws its page after each evaluation and at its end."""

from __future__ import annotations

from pathlib import Path

from tinsmith.lab.experiment.conduct import Conducted, conduct
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.live.interrupts import InterruptedTwice
from tinsmith.lab.live.progress import Say, Standing
from tinsmith.lab.page.live_page import Unfinished, draw_page, settle_page
from tinsmith.lab.runs.existing_run import holds_run


def conduct_with_page(plan: Plan, say: Say) -> tuple[Conducted, Path | None]:
    """Run a plan to its end, or to where it is to stop; return its page too where it came to its end."""
    folder, subject = plan.circumstances.log_path, plan.experiment.subject
    assert folder is not None, "a plan that is run has a folder"
    troubles: set[str] = set()

    def trouble(words: str | None) -> None:
        if words is not None and words not in troubles:
            troubles.add(words)
            say(f"warning: {words}")

    def reached(standing: Standing) -> None:
        far = Unfinished(step=standing.step, steps=standing.steps, left=standing.left)
        trouble(draw_page(folder, subject, far).trouble)

    try:
        done = conduct(plan, say=say, reached=None if plan.circumstances.quiet else reached)
    except BaseException as error:
        settle_page(folder)
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, InterruptedTwice) and holds_run(folder):
            trouble(draw_page(folder, subject).trouble)
        raise
    if done.finished is None:
        settle_page(folder)
        return done, None
    drawn = draw_page(done.folder, subject)
    trouble(drawn.trouble)
    return done, drawn.page
