"""What every subject on papers does alike: its task is checked, its slice found, its time told."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.papers.frame import task_asked


class PapersSubject:
    """The part of SubjectEntry that subjects on papers share."""

    def check(self, plan: Plan) -> Plan:
        """Refuse names of the task that there are not."""
        task_asked(plan)
        return plan

    def named(self, plan: Plan) -> Mapping[str, object]:
        """Return the SHA-256 of its prompt."""
        return {"prompt_sha256": task_asked(plan).prompt_sha256}
