"""What every subject on papers does alike: its task is checked, its slice found, its time told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.papers.frame import JointFrame, on_papers, require_selection
from tinsmith.lab.rewards.label_reward import make_label_reward

if TYPE_CHECKING:
    from tinsmith.lab.experiment.materials import RunData
    from tinsmith.lab.live.progress import Say


class PapersSubject:
    """The part of SubjectEntry that subjects on papers share."""

    @property
    def found_by(self) -> str:
        """See SubjectEntry."""
        return "data_folder"

    def check(self, plan: Plan) -> None:
        """Refuse names of the task and the reward that there are not."""
        frame = on_papers(plan)
        task = frame.asked()
        if plan.entry.named_reward:
            make_label_reward(frame.reward, task, **plan.reward_settings)
        if isinstance(frame, JointFrame):
            require_selection(plan.settings.select_by)

    def named(self, frame: RunFrame) -> Mapping[str, object]:
        """Return the SHA-256 of its prompt."""
        return {"prompt_sha256": on_papers(frame).asked().prompt_sha256}

    def run_data(self, plan: Plan, say: Say) -> RunData:
        """Find or build the slice."""
        from tinsmith.lab.papers.run_data import slice_data

        return slice_data(plan, say)

    def forecast(self, plan: Plan) -> Sequence[str]:
        """Say how many tokens are trained on and looked at, and how long that takes."""
        from tinsmith.lab.papers.estimate import forecast_lines

        return forecast_lines(plan)
