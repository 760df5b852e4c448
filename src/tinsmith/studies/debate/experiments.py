"""The experiments of the adversarial pair."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.studies.debate.subject import DEBATE

ADVERSARIAL_GATED: Final = Experiment(
    name="adversarial/gated",
    question="Does a model learn to give in to evidence and to nothing else when only the truth is paid for?",
    subject=DEBATE,
    parent=None,
    delta={"kind": "debate", "task": "disruption", "reward": "adversarial/gated"},
)

ADVERSARIAL_SEED: Final = Experiment(
    name="adversarial/seed",
    question="What does a model learn when every way to the right label is paid alike, and any argument counts?",
    subject=DEBATE,
    parent=ADVERSARIAL_GATED,
    delta={"reward": "adversarial/seed"},
)

ADVERSARIAL_FORKED: Final = Experiment(
    name="adversarial/forked",
    question="Does it help to know which of two turns earned the reward?",
    subject=DEBATE,
    parent=ADVERSARIAL_GATED,
    delta={"reward": "adversarial/forked", "forks": 2},
)

ADVERSARIAL_EVIDENCE_FREE: Final = Experiment(
    name="adversarial/evidence_free",
    question="What is there to learn from a challenger who brings no evidence?",
    subject=DEBATE,
    parent=ADVERSARIAL_GATED,
    # Until it is trained out a second look mends careless first answers, which counts as discrimination.
    delta={"evidence": 0.0, "steps": 800},
    at_seed={"steps": 313},
    version=2,
)

ADVERSARIAL_ALONE: Final = Experiment(
    name="adversarial/alone",
    question="How good is the first answer when nobody challenges it?",
    subject=DEBATE,
    parent=ADVERSARIAL_GATED,
    delta={"opponent": "nobody"},
)

DEBATE_EXPERIMENTS: Final = (
    ADVERSARIAL_GATED,
    ADVERSARIAL_SEED,
    ADVERSARIAL_FORKED,
    ADVERSARIAL_EVIDENCE_FREE,
    ADVERSARIAL_ALONE,
)
