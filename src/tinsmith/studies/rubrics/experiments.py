"""The experiment on rubrics."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.studies.rubrics.subject import RUBRICS

RLVR: Final = Experiment(
    name="rlvr",
    question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
    subject=RUBRICS,
    parent=None,
    delta={"kind": "rlvr"},
)

RUBRIC_EXPERIMENTS: Final = (RLVR,)
