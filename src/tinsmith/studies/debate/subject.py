"""The adversarial pair as it is registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment, KindEntry, Plan
from tinsmith.lab.experiment.keys import Keys
from tinsmith.lab.experiment.places import BY_EXAMPLE, OPTIONS
from tinsmith.lab.papers.kinds import SEED_RL
from tinsmith.lab.papers.subject import PapersSubject
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.studies.debate.frame import DebateFrame

if TYPE_CHECKING:
    from tinsmith.lab.experiment.materials import RunData
    from tinsmith.lab.live.progress import Say
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.runs.records import Run
    from tinsmith.pages.document import Document


_NOT_HERE: Final = BY_EXAMPLE | OPTIONS | {"select_by", "gradient", "shuffle_labels"}

KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.DEBATE: KindEntry(
            keys=Keys(DebateFrame, RlSettings, without=_NOT_HERE),
            values={
                At.NANO: {
                    "steps": 400,
                    "learning_rate": 7e-4,
                    "lr_schedule": "linear",
                    "lora_rank": 16,
                    "group_size": 4,
                    "groups_per_batch": 32,
                    "eval_every": 100,
                    "save_every": 100,
                    "eval_items": 200,
                    "select_by": "last",
                },
                At.SEED: {**SEED_RL, "group_size": 4, "select_by": "last"},
            },
            forced={At.NANO: {"prompt": "brief", "script": "brief", "contract": "two_key", "max_tokens": 24}},
        )
    }
)
"""No model of the size of `at=small` was tried with conversations of two."""


@dataclass(frozen=True, slots=True)
class DebateSubject(PapersSubject):
    """See SubjectEntry; its methods are described there."""

    kinds: Mapping[Kind, KindEntry]
    alone: str | None = "runs under challenge and others have no figure in common"

    @property
    def experiments(self) -> Sequence[Experiment]:
        """See SubjectEntry."""
        return DEBATE_EXPERIMENTS

    def run_data(self, plan: Plan, say: Say) -> RunData:
        """See SubjectEntry."""
        from tinsmith.studies.debate.run_data import debate_data

        return debate_data(plan, _frame(plan), say)

    def forecast(self, plan: Plan) -> Sequence[str]:
        """See SubjectEntry."""
        from tinsmith.lab.papers.estimate import forecast_lines

        return forecast_lines(plan, forks=_frame(plan).forks)

    def page(self, run: Run) -> Document:
        """See SubjectEntry."""
        from tinsmith.studies.debate.pages.page import debate_document

        return debate_document(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """See SubjectEntry."""
        from tinsmith.studies.debate.pages.comparison_page import compared_debates

        del task
        return compared_debates(folders)


def _frame(plan: Plan) -> DebateFrame:
    assert isinstance(plan.frame, DebateFrame), "this experiment is no debate"
    return plan.frame


DEBATE: Final = DebateSubject(KINDS)
"""A predicts, B challenges, A revises or defends."""


ADVERSARIAL_GATED: Final = Experiment(
    name="adversarial/gated",
    question="Does a model learn to give in to evidence and to nothing else when only the truth is paid for?",
    subject=DEBATE,
    parent=None,
    delta={"kind": "debate", "task": "disruption", "reward": "adversarial/gated"},
)
_OF_GATED: Final = partial(Experiment, subject=DEBATE, parent=ADVERSARIAL_GATED)
DEBATE_EXPERIMENTS: Final = (
    ADVERSARIAL_GATED,
    _OF_GATED(
        name="adversarial/seed",
        question="What does a model learn when every way to the right label is paid alike, and any argument counts?",
        delta={"reward": "adversarial/seed"},
    ),
    _OF_GATED(
        name="adversarial/forked",
        question="Does it help to know which of two turns earned the reward?",
        delta={"reward": "adversarial/forked", "forks": 2},
    ),
    _OF_GATED(
        name="adversarial/evidence_free",
        question="What is there to learn from a challenger who brings no evidence?",
        # Until it is trained out a second look mends careless first answers, which counts as discrimination.
        delta={"evidence": 0.0, "steps": 800},
        at_seed={"steps": 313},
        version=2,
    ),
    _OF_GATED(
        name="adversarial/alone",
        question="How good is the first answer when nobody challenges it?",
        delta={"opponent": "nobody"},
    ),
)
