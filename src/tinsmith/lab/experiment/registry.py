"""Every experiment there is: the source notes' ladder, what goes past it, its controls, and supervised fine-tuning."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.experiment import (Experiment, Value,)
from tinsmith.lab.experiment.places import NOTEBOOK
from tinsmith.types.errors import ConfigError

_ALL: Final = (
    Experiment(
        name="ladder/baseline",
        question="Is the default contract and task usable at all?",
        parent=None,
        delta={
            "kind": "rl",
            "task": "disruption",
            "prompt": "plain",
            "contract": "four_key",
            "reward": "soft",
        },
    ),
    Experiment(
        name="ladder/exp1",
        question="Does the model need to be told what the labels mean?",
        parent="ladder/baseline",
        delta={"prompt": "ontology"},
    ),
    Experiment(
        name="ladder/exp2",
        question="Is it the pressure to be right, and not the words of the prompt, that is missing?",
        parent="ladder/exp1",
        delta={"reward": "strong"},
    ),
    Experiment(
        name="ladder/exp3",
        question="Does a checklist with small examples sharpen the boundary of disruptive and consolidating?",
        parent="ladder/exp2",
        delta={"prompt": "checklist"},
    ),
    Experiment(
        name="ladder/exp4",
        question="Does a simpler contract win reliability back?",
        parent="ladder/exp3",
        delta={"contract": "two_key", "max_tokens": 64},
    ),
    Experiment(
        name="ladder/exp5",
        question="Does paying three times as much for disruptive keep the class from dying out?",
        parent="ladder/exp4",
        delta={"reward": "exp5"},
    ),
    Experiment(
        name="remedy/exp6",
        question="Does paying for macro-F1 itself keep all classes alive?",
        parent="ladder/exp4",
        delta={"reward": "macro_f1"},
    ),
    Experiment(
        name="remedy/exp7",
        question="Is it enough to hold the labels to their known shares?",
        parent="ladder/exp4",
        delta={"reward": "prior_matching"},
    ),
    Experiment(
        name="remedy/exp8",
        question="Does a constraint on the smallest recall do it, with a price for each class?",
        parent="ladder/exp4",
        delta={"reward": "dual"},
    ),
    Experiment(
        name="remedy/exp10",
        question="Does paying for the product of the recalls protect the weakest class most?",
        parent="ladder/exp4",
        delta={"reward": "g_mean"},
    ),
    Experiment(
        name="remedy/sft_then_rl",
        question="Does RL go further from where supervised training has come, in as many steps?",
        parent="remedy/exp6",
        delta={"sft_steps": 50, "sft_learning_rate": 2e-3, "sft_batch_size": 16},
        at_small={"sft_steps": 15, "sft_learning_rate": 3e-4, "sft_batch_size": 16},
        at_seed={"sft_steps": 156, "sft_learning_rate": 1e-4, "sft_batch_size": 16},
    ),
    Experiment(
        name="control/shuffled_labels",
        question="What does Exp6 seem to learn where there is nothing to learn?",
        parent="remedy/exp6",
        delta={"shuffle_labels": True},
    ),
    Experiment(
        name="control/exact_gradient",
        question="Is a lost class the objective's fault, or the sampled estimator's?",
        parent="ladder/exp4",
        delta={"gradient": "exact"},
    ),
    Experiment(
        name="adversarial/gated",
        question="Does a model learn to give in to evidence and to nothing else when only the truth is paid for?",
        parent=None,
        delta={"kind": "debate", "task": "disruption", "reward": "adversarial/gated"},
    ),
    Experiment(
        name="adversarial/seed",
        question="What does a model learn when every way to the right label is paid alike, and any argument counts?",
        parent="adversarial/gated",
        delta={"reward": "adversarial/seed"},
    ),
    Experiment(
        name="adversarial/forked",
        question="Does it help to know which of two turns earned the reward?",
        parent="adversarial/gated",
        delta={"reward": "adversarial/forked", "forks": 2},
    ),
    Experiment(
        name="adversarial/evidence_free",
        question="What is there to learn from a challenger who brings no evidence?",
        parent="adversarial/gated",
        # Until it is trained out a second look mends careless first answers, which counts as discrimination.
        delta={"evidence": 0.0, "steps": 800},
        at_seed={"steps": 313},
        version=2,
    ),
    Experiment(
        name="adversarial/alone",
        question="How good is the first answer when nobody challenges it?",
        parent="adversarial/gated",
        delta={"opponent": "nobody"},
    ),
    Experiment(
        name="joint/disruption_novelty",
        question="Can one answer carry both labels, each paid for by the macro-F1 of its own task?",
        parent=None,
        delta={
            "kind": "joint",
            "prompt": "plain",
            "contract": "three_key",
            "reward": "macro_f1",
            "max_tokens": 96,
        },
    ),
    Experiment(
        name="joint/shuffled_labels",
        question="What does the joint objective seem to learn where there is nothing to learn?",
        parent="joint/disruption_novelty",
        delta={"shuffle_labels": True},
    ),
    Experiment(
        name="rlvr",
        question="Does a model follow instructions better once fulfilled rubrics are rewarded?",
        parent=None,
        delta={"kind": "rlvr"},
    ),
    Experiment(
        name="sft/lora",
        question="What do the same labels teach without any RL?",
        parent=None,
        delta={
            "kind": "sft",
            "task": "disruption",
            "prompt": "checklist",
            "contract": "two_key",
            "max_tokens": 64,
        },
    ),
    Experiment(
        name="sft/dora",
        question="What does a trained magnitude beside the low-rank direction add?",
        parent="sft/lora",
        delta={"adapter": "dora"},
        at_seed=NOTEBOOK,
    ),
    Experiment(
        name="sft/qlora",
        question="What does a base held in four bits cost?",
        parent="sft/lora",
        delta={"adapter": "qlora"},
        at_seed=NOTEBOOK,
    ),
    Experiment(
        name="sft/qdora",
        question="How far does the source notes' baseline get: magnitude and direction over a base in four bits?",
        parent="sft/lora",
        delta={"adapter": "qdora"},
        at_seed=NOTEBOOK,
    ),
    Experiment(
        name="sft/lora_offset",
        question="How much of a balanced classifier is just one offset per label, chosen afterwards?",
        parent="sft/lora",
        delta={"logit_offset": True},
    ),
    Experiment(
        name="control/zero_shot",
        question="What does the base say before it is taught anything?",
        parent="sft/lora",
        delta={"steps": 0},
    ),
)

EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType({one.name: one for one in _ALL})
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by `family/rung`, with or without `@version`.

    Raises:
        ConfigError: there is none; it says which were perhaps meant.
    """
    bare, _, version = name.partition("@")
    found = EXPERIMENTS.get(bare)
    if found is None or (version and version != str(found.version)):
        near = difflib.get_close_matches(bare, EXPERIMENTS, n=2, cutoff=0.4)
        raise ConfigError(
            "there is no such experiment",
            field="experiment",
            value=name,
            allowed=", ".join(EXPERIMENTS),
            fix=f"perhaps {' or '.join(near)}" if near else "tinsmith run lists them",
        )
    return found


def inherited(experiment: Experiment) -> dict[str, Value]:
    """Return what an experiment and its ancestors change, the nearest one winning."""
    return {key: value for one in lineage(experiment) for key, value in one.delta.items()}


def lineage(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return an experiment's ancestors from the root down, and itself."""
    above = () if experiment.parent is None else lineage(EXPERIMENTS[experiment.parent])
    return (*above, experiment)
