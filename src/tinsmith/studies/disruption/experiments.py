"""The experiments on labels of papers: the source notes' ladder, what goes past it, its controls, SFT."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.papers.kinds import NOTEBOOK
from tinsmith.studies.disruption.subject import JOINT, LABELS

LADDER_BASELINE: Final = Experiment(
    name="ladder/baseline",
    question="Is the default contract and task usable at all?",
    subject=LABELS,
    parent=None,
    delta={"kind": "rl", "task": "disruption", "prompt": "plain", "contract": "four_key", "reward": "soft"},
)

LADDER_EXP1: Final = Experiment(
    name="ladder/exp1",
    question="Does the model need to be told what the labels mean?",
    subject=LABELS,
    parent=LADDER_BASELINE,
    delta={"prompt": "ontology"},
)

LADDER_EXP2: Final = Experiment(
    name="ladder/exp2",
    question="Is it the pressure to be right, and not the words of the prompt, that is missing?",
    subject=LABELS,
    parent=LADDER_EXP1,
    delta={"reward": "strong"},
)

LADDER_EXP3: Final = Experiment(
    name="ladder/exp3",
    question="Does a checklist with small examples sharpen the boundary of disruptive and consolidating?",
    subject=LABELS,
    parent=LADDER_EXP2,
    delta={"prompt": "checklist"},
)

LADDER_EXP4: Final = Experiment(
    name="ladder/exp4",
    question="Does a simpler contract win reliability back?",
    subject=LABELS,
    parent=LADDER_EXP3,
    delta={"contract": "two_key", "max_tokens": 64},
)

LADDER_EXP5: Final = Experiment(
    name="ladder/exp5",
    question="Does paying three times as much for disruptive keep the class from dying out?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"reward": "exp5"},
)

REMEDY_EXP6: Final = Experiment(
    name="remedy/exp6",
    question="Does paying for macro-F1 itself keep all classes alive?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"reward": "macro_f1"},
)

REMEDY_EXP7: Final = Experiment(
    name="remedy/exp7",
    question="Is it enough to hold the labels to their known shares?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"reward": "prior_matching"},
)

REMEDY_EXP8: Final = Experiment(
    name="remedy/exp8",
    question="Does a constraint on the smallest recall do it, with a price for each class?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"reward": "dual"},
)

REMEDY_EXP10: Final = Experiment(
    name="remedy/exp10",
    question="Does paying for the product of the recalls protect the weakest class most?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"reward": "g_mean"},
)

REMEDY_SFT_THEN_RL: Final = Experiment(
    name="remedy/sft_then_rl",
    question="Does RL go further from where supervised training has come, in as many steps?",
    subject=LABELS,
    parent=REMEDY_EXP6,
    delta={"sft_steps": 50, "sft_learning_rate": 2e-3, "sft_batch_size": 16},
    at_small={"sft_steps": 15, "sft_learning_rate": 3e-4, "sft_batch_size": 16},
    at_seed={"sft_steps": 156, "sft_learning_rate": 1e-4, "sft_batch_size": 16},
)

CONTROL_SHUFFLED_LABELS: Final = Experiment(
    name="control/shuffled_labels",
    question="What does Exp6 seem to learn where there is nothing to learn?",
    subject=LABELS,
    parent=REMEDY_EXP6,
    delta={"shuffle_labels": True},
)

CONTROL_EXACT_GRADIENT: Final = Experiment(
    name="control/exact_gradient",
    question="Is a lost class the objective's fault, or the sampled estimator's?",
    subject=LABELS,
    parent=LADDER_EXP4,
    delta={"gradient": "exact"},
)

SFT_LORA: Final = Experiment(
    name="sft/lora",
    question="What do the same labels teach without any RL?",
    subject=LABELS,
    parent=None,
    delta={"kind": "sft", "task": "disruption", "prompt": "checklist", "contract": "two_key", "max_tokens": 64},
)

SFT_DORA: Final = Experiment(
    name="sft/dora",
    question="What does a trained magnitude beside the low-rank direction add?",
    subject=LABELS,
    parent=SFT_LORA,
    delta={"adapter": "dora"},
    at_seed=NOTEBOOK,
)

SFT_QLORA: Final = Experiment(
    name="sft/qlora",
    question="What does a base held in four bits cost?",
    subject=LABELS,
    parent=SFT_LORA,
    delta={"adapter": "qlora"},
    at_seed=NOTEBOOK,
)

SFT_QDORA: Final = Experiment(
    name="sft/qdora",
    question="How far does the source notes' baseline get: magnitude and direction over a base in four bits?",
    subject=LABELS,
    parent=SFT_LORA,
    delta={"adapter": "qdora"},
    at_seed=NOTEBOOK,
)

SFT_LORA_OFFSET: Final = Experiment(
    name="sft/lora_offset",
    question="How much of a balanced classifier is just one offset per label, chosen afterwards?",
    subject=LABELS,
    parent=SFT_LORA,
    delta={"logit_offset": True},
)

CONTROL_ZERO_SHOT: Final = Experiment(
    name="control/zero_shot",
    question="What does the base say before it is taught anything?",
    subject=LABELS,
    parent=SFT_LORA,
    delta={"steps": 0},
)

JOINT_DISRUPTION_NOVELTY: Final = Experiment(
    name="joint/disruption_novelty",
    question="Can one answer carry both labels, each paid for by the macro-F1 of its own task?",
    subject=JOINT,
    parent=None,
    delta={"kind": "joint", "prompt": "plain", "contract": "three_key", "reward": "macro_f1", "max_tokens": 96},
)

JOINT_SHUFFLED_LABELS: Final = Experiment(
    name="joint/shuffled_labels",
    question="What does the joint objective seem to learn where there is nothing to learn?",
    subject=JOINT,
    parent=JOINT_DISRUPTION_NOVELTY,
    delta={"shuffle_labels": True},
)

LABEL_EXPERIMENTS: Final = (
    LADDER_BASELINE,
    LADDER_EXP1,
    LADDER_EXP2,
    LADDER_EXP3,
    LADDER_EXP4,
    LADDER_EXP5,
    REMEDY_EXP6,
    REMEDY_EXP7,
    REMEDY_EXP8,
    REMEDY_EXP10,
    REMEDY_SFT_THEN_RL,
    CONTROL_SHUFFLED_LABELS,
    CONTROL_EXACT_GRADIENT,
    SFT_LORA,
    SFT_DORA,
    SFT_QLORA,
    SFT_QDORA,
    SFT_LORA_OFFSET,
    CONTROL_ZERO_SHOT,
)
JOINT_EXPERIMENTS: Final = (JOINT_DISRUPTION_NOVELTY, JOINT_SHUFFLED_LABELS)

QUICKSTART: Final = (SFT_LORA_OFFSET, LADDER_EXP4, LADDER_EXP5, REMEDY_EXP6)
"""What a newcomer sees: supervised training, the source notes' accuracy reward, their class weight, and the remedy."""

CONTROL: Final = CONTROL_SHUFFLED_LABELS
"""Without it the claim gate refuses every claim."""
