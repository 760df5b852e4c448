"""The experiments on labels of papers: the source notes' ladder, what goes past it, controls, SFT."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.experiment import Experiment, Values
from tinsmith.lab.experiment.key_text import At
from tinsmith.lab.papers.labels import JOINT_KINDS, LABEL_KINDS, NOTEBOOK, joint, labels
from tinsmith.lab.user_task.entry import UserTaskEntry

LABELS: Final = UserTaskEntry(kinds=LABEL_KINDS, function=labels)
"""One label of a paper."""
JOINT: Final = UserTaskEntry(kinds=JOINT_KINDS, function=joint)
"""Both labels in one answer; its runs are compared with those on one of them."""

_NONE: Final[Values] = MappingProxyType({})
EXPERIMENTS: Final[dict[str, Experiment]] = {}
"""Every experiment by its name."""


def _root(name: str, question: str, subject: UserTaskEntry, delta: Values) -> None:
    _add(Experiment(name=name, question=question, subject=subject, parent=None, delta=delta))


def _of(
    parent: str, name: str, question: str, delta: Values, *, at_small: Values = _NONE, at_seed: Values = _NONE
) -> None:
    one, sizes = EXPERIMENTS[parent], {At.SMALL: at_small, At.SEED: at_seed}
    _add(replace(one, name=name, question=question, parent=one, delta=delta, sizes=sizes))


def _add(one: Experiment) -> None:
    EXPERIMENTS[one.name] = one
    one.subject.experiments.append(one)


# fmt: off
_root("ladder/baseline", "Is the default contract and task usable at all?",
    LABELS, {"kind": "rl", "task": "disruption", "prompt": "plain", "contract": "four_key", "reward": "soft"})
_of("ladder/baseline", "ladder/exp1", "Does the model need to be told what the labels mean?", {"prompt": "ontology"})
_of("ladder/exp1", "ladder/exp2", "Is it the pressure to be right, and not the words of the prompt, that is missing?",
    {"reward": "strong"})
_of("ladder/exp2", "ladder/exp3",
    "Does a checklist with small examples sharpen the boundary of disruptive and consolidating?",
    {"prompt": "checklist"})
_of("ladder/exp3", "ladder/exp4", "Does a simpler contract win reliability back?",
    {"contract": "two_key", "max_tokens": 64})
_of("ladder/exp4", "ladder/exp5", "Does paying three times as much for disruptive keep the class from dying out?",
    {"reward": "exp5"})
_of("ladder/exp4", "remedy/exp6", "Does paying for macro-F1 itself keep all classes alive?", {"reward": "macro_f1"})
_of("ladder/exp4", "remedy/exp7", "Is it enough to hold the labels to their known shares?",
    {"reward": "prior_matching"})
_of("ladder/exp4", "remedy/exp8", "Does a constraint on the smallest recall do it, with a price for each class?",
    {"reward": "dual"})
_of("ladder/exp4", "remedy/exp10", "Does paying for the product of the recalls protect the weakest class most?",
    {"reward": "g_mean"})
_of("remedy/exp6", "remedy/sft_then_rl",
    "Does RL go further from where supervised training has come, in as many steps?",
    {"sft_steps": 50, "sft_learning_rate": 2e-3, "sft_batch_size": 16},
    at_small={"sft_steps": 15, "sft_learning_rate": 3e-4, "sft_batch_size": 16},
    at_seed={"sft_steps": 156, "sft_learning_rate": 1e-4, "sft_batch_size": 16})
_of("remedy/exp6", "control/shuffled_labels", "What does Exp6 seem to learn where there is nothing to learn?",
    {"shuffle_labels": True})
_of("ladder/exp4", "control/exact_gradient", "Is a lost class the objective's fault, or the sampled estimator's?",
    {"gradient": "exact"})
_root("sft/lora", "What do the same labels teach without any RL?",
    LABELS, {"kind": "sft", "task": "disruption", "prompt": "checklist", "contract": "two_key", "max_tokens": 64})
_of("sft/lora", "sft/dora", "What does a trained magnitude beside the low-rank direction add?",
    {"adapter": "dora"}, at_seed=NOTEBOOK)
_of("sft/lora", "sft/qlora", "What does a base held in four bits cost?", {"adapter": "qlora"}, at_seed=NOTEBOOK)
_of("sft/lora", "sft/qdora",
    "How far does the source notes' baseline get: magnitude and direction over a base in four bits?",
    {"adapter": "qdora"}, at_seed=NOTEBOOK)
_of("sft/lora", "sft/lora_offset", "How much of a balanced classifier is just one offset per label, chosen afterwards?",
    {"logit_offset": True})
_of("sft/lora", "control/zero_shot", "What does the base say before it is taught anything?", {"steps": 0})
_root("joint/disruption_novelty", "Can one answer carry both labels, each paid for by the macro-F1 of its own task?",
    JOINT, {"kind": "joint", "prompt": "plain", "contract": "three_key", "reward": "macro_f1", "max_tokens": 96})
_of("joint/disruption_novelty", "joint/shuffled_labels",
    "What does the joint objective seem to learn where there is nothing to learn?", {"shuffle_labels": True})
# fmt: on

LADDER_EXP4, LADDER_EXP5, REMEDY_EXP6, REMEDY_SFT_THEN_RL = (
    EXPERIMENTS[name] for name in ("ladder/exp4", "ladder/exp5", "remedy/exp6", "remedy/sft_then_rl")
)
SFT_LORA, SFT_DORA, SFT_QLORA, SFT_QDORA, SFT_LORA_OFFSET = (
    EXPERIMENTS[f"sft/{name}"] for name in ("lora", "dora", "qlora", "qdora", "lora_offset")
)
CONTROL_ZERO_SHOT: Final = EXPERIMENTS["control/zero_shot"]
CONTROL: Final = EXPERIMENTS["control/shuffled_labels"]  # Without it the claim gate refuses every claim.

QUICKSTART: Final = (SFT_LORA_OFFSET, LADDER_EXP4, LADDER_EXP5, REMEDY_EXP6)
"""Experiments for newcomers: supervised training, the source notes' accuracy reward, their class weight, the remedy."""
