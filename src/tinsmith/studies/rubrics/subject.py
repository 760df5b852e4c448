"""Instructions with rubrics as they are registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment, KindEntry, Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.experiment.keys import Keys
from tinsmith.lab.experiment.places import OPTIONS, SMALL_MODEL, WITHOUT_SLICE
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.studies.rubrics.frame import Asking, RubricFrame
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.experiment.materials import RunData
    from tinsmith.lab.live.progress import Say
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.runs.records import Run
    from tinsmith.pages.document import Document

KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.RLVR: KindEntry(
            keys=Keys(RubricFrame, RlSettings, Asking, without=WITHOUT_SLICE | OPTIONS),
            values={
                At.NANO: {
                    "steps": 120, "learning_rate": 6e-4, "lora_rank": 16, "group_size": 8, "groups_per_batch": 8,
                    "max_tokens": 32, "train_ratio": 0.75, "eval_samples": 8, "eval_every": 40, "save_every": 40,
                    "select_by": "last",
                },
                At.SMALL: {
                    "model_name": SMALL_MODEL, "steps": 60, "learning_rate": 3e-4, "lora_rank": 16, "group_size": 8,
                    "groups_per_batch": 16, "grad_clip_norm": 1.0, "max_tokens": 40, "train_ratio": 0.67,
                    "eval_samples": 2, "eval_items": 100, "eval_every": 20, "save_every": 20, "select_by": "last",
                },
                At.SEED: {
                    "steps": 31, "learning_rate": 4e-5, "lora_rank": 32, "group_size": 8, "groups_per_batch": 32,
                    "max_tokens": 2048, "judge_model": "gpt-5-mini", "model_name": "meta-llama/Llama-3.1-8B",
                    "eval_every": 10, "save_every": 20, "select_by": "last",
                },
            },
        )
    }
)  # fmt: skip
"""Values of `at=seed` are the table of the recipe; its 31 batches see the training part of 1,000 tasks about once."""


@dataclass(frozen=True, slots=True)
class RubricSubject:
    """See SubjectEntry; its methods are described there."""

    kinds: Mapping[Kind, KindEntry]
    alone: str | None = "runs on rubrics and runs on papers have no score in common"
    found_by: str = "data_path"

    @property
    def experiments(self) -> Sequence[Experiment]:
        return (RLVR,)

    def check(self, plan: Plan) -> None:
        asking = plan.asking
        assert isinstance(asking, Asking)
        for key, file in (("data_path", asking.data_path), ("prices", asking.prices)):
            if file is not None and not file.is_file():
                raise ConfigError("no such file", field=key, value=str(file))

    def named(self, frame: RunFrame) -> Mapping[str, object]:
        """See SubjectEntry; its tasks are part of the run's identity and not of the experiment's."""
        del frame
        return {}

    def run_data(self, plan: Plan, say: Say) -> RunData:
        from tinsmith.studies.rubrics.run_data import rubric_data

        del say
        return rubric_data(plan)

    def forecast(self, plan: Plan) -> Sequence[str]:
        from tinsmith.studies.rubrics.run_data import rubric_forecast

        return rubric_forecast(plan)

    def page(self, run: Run) -> Document:
        from tinsmith.studies.rubrics.pages.page import rubric_document

        return rubric_document(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        from tinsmith.studies.rubrics.pages.comparison_page import compared_rubrics

        del task
        return compared_rubrics(folders)


RUBRICS: Final = RubricSubject(KINDS)
"""Instructions whose answers are judged by rubrics."""

RLVR: Final = Experiment(
    name="rlvr",
    question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
    subject=RUBRICS,
    parent=None,
    delta={"kind": "rlvr"},
)
