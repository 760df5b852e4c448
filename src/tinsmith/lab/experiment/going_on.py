"""What a person is told of a run that did not come to its end: how it goes on."""

from __future__ import annotations

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.existing_run import IfExists, holds_run
from tinsmith.lab.runs.folder import RunFolder


def going_on(plan: Plan) -> str:
    """Say how a run goes on that did not come to its end."""
    chosen = plan.circumstances.behavior_if_log_dir_exists
    goes_on = chosen in (IfExists.RESUME, IfExists.RESUME_INTERRUPTED, IfExists.ASK)
    with_what = "" if goes_on else " with behavior_if_log_dir_exists=resume"
    return f"the same command{with_what} goes on from the last checkpoint"


def how_to_go_on(plan: Plan) -> str:
    """Say what an interrupted command left, and how to go on."""
    folder = plan.circumstances.log_path
    if folder is None or not holds_run(folder):
        return "nothing was begun; the same command begins it"
    marks = RunFolder(folder).marks()
    if not marks:
        begins = going_on(plan).replace("goes on from the last checkpoint", "begins again")
        return f"{folder} has no checkpoint, as no step was over that saves one; {begins}"
    return f"{folder} has the checkpoint of step {marks[-1].step}; {going_on(plan)}"
