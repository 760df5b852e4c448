"""Labels of papers as they are registered: one label, or both in one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, KindEntry
from tinsmith.lab.papers.kinds import JOINT_KINDS, LABEL_KINDS
from tinsmith.lab.papers.subject import PapersSubject
from tinsmith.lab.runs.kinds import Kind

if TYPE_CHECKING:
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.runs.records import Run
    from tinsmith.pages.document import Document


@dataclass(frozen=True, slots=True)
class LabelSubject(PapersSubject):
    """See SubjectEntry; its methods are described there."""

    kinds: Mapping[Kind, KindEntry]
    alone: str | None = None

    @property
    def experiments(self) -> Sequence[Experiment]:
        """See SubjectEntry."""
        from tinsmith.studies.disruption.experiments import JOINT_EXPERIMENTS, LABEL_EXPERIMENTS

        return LABEL_EXPERIMENTS if Kind.RL in self.kinds else JOINT_EXPERIMENTS

    def page(self, run: Run) -> Document:
        """See SubjectEntry."""
        from tinsmith.studies.disruption.joint.page import joint_document
        from tinsmith.studies.disruption.page import label_document

        return joint_document(run) if run.config.kind is Kind.JOINT else label_document(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """See SubjectEntry; runs on both labels take part with what they say of one."""
        from tinsmith.studies.disruption.summary import compared_labels

        return compared_labels(folders, task)


LABELS: Final = LabelSubject(LABEL_KINDS)
"""One label of a paper."""
JOINT: Final = LabelSubject(JOINT_KINDS)
"""Both labels in one answer."""
