"""Settings of a training run: the keys of the command line, with the field's names and their limits.

Everything here changes results and is part of a run's identity; what only says where and how fast to run is not here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from tinsmith.lab.schedule import NONE, ratio_of
from tinsmith.ops.advantages import Advantage
from tinsmith.types.adapters import ALPHA, AdapterKind
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import LATER, left_out

WHERE_USED: Final = MappingProxyType({**LATER, "written": "where it is not at its default"})
"""Metadata of a setting newer than some configurations: at its default these are unchanged."""


class RlLoss(StrEnum):
    """The loss that RL datums are trained with, by its Tinker name."""

    IMPORTANCE_SAMPLING = "importance_sampling"
    PPO = "ppo"
    CISPO = "cispo"


class Gradient(StrEnum):
    """Source of a policy gradient."""

    SAMPLED = "sampled"
    """From rollouts, as in GRPO."""
    EXACT = "exact"
    """The task term from all labels, each weighted with its probability: the limit of ever larger groups. What keeps
    the contract is learned from rollouts all the same."""


class Prefixes(StrEnum):
    """Text before an answer that is forced to tell how sure a policy is of it."""

    OWN = "own"
    """The reply's reasoning, up to each fraction."""
    SHUFFLED = "shuffled"
    """The same parts in a shuffled order: a control, in which confidence cannot rise but by chance."""
    FOREIGN = "foreign"
    """The reasoning of another prompt's reply, up to each fraction: a control of what it says."""


LINEAR = (Advantage.CENTER, Advantage.DRGRPO, Advantage.RLOO)
"""Advantages that are a sum over a reward's terms, so that one term may be exact and the others sampled."""


class Schedule(StrEnum):
    """Course of the learning rate over a run's steps."""

    CONSTANT = "constant"
    LINEAR = "linear"
    """Down to zero: step s of S is taken with learning_rate * (1 - s / S)."""
    COSINE = "cosine"
    """Down to zero along half a cosine: learning_rate * (1 + cos(pi s / S)) / 2."""


class Order(StrEnum):
    """Order of an epoch's items by the perplexity of their right answers."""

    RANDOM = "random"
    """A permutation for each epoch."""
    ASCENDING = "ascending"
    """The lowest first, under the model as it was before the first step."""
    DESCENDING = "descending"
    """The highest first, under the same model."""
    RECOMPUTED = "recomputed"
    """The highest first, under the model at the beginning of each epoch."""


class Selection(StrEnum):
    """By what the best checkpoint is chosen, on the validation split; the tie-break is the smallest recall."""

    MACRO_F1 = "macro_f1"
    BALANCED_ACCURACY = "balanced_accuracy"
    MIN_CLASS_RECALL = "min_class_recall"
    LABEL_MATCH = "label_match"
    LAST = "last"
    """Not chosen: the last one."""


class Watched(StrEnum):
    """Measurement at every evaluation beside the subject's own figures."""

    NOTHING = "none"
    MUTUAL_INFORMATION = "mutual_information"
    """Information of answers about their prompts, and how much they vary beside: 64 x 64 scores, as `watch/...`."""
    ENVIRONMENT = "environment"
    """Loss of the model on what the environment answers it: nats a token, as `watch/env_nll`."""
    CONFIDENCE = "confidence"
    """Confidence of the policy in each answer after six fractions of its reasoning, for a task that is `probed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """Settings that SFT and RL share."""

    steps: int
    """Training steps, 1 or more; with kind=sft, 0 only evaluates the base."""
    learning_rate: float
    """Peak learning rate of Adam."""
    lr_schedule: Schedule = Schedule.CONSTANT
    """Learning-rate schedule over the steps, those of `sft_steps` included."""
    lr_warmup: float = field(default=0.0, metadata=LATER)
    """Share of the steps, those of `sft_steps` included, that warm up the learning rate at the beginning; 0: none."""
    lora_rank: int = 32
    """Rank of the adapter (LoRA and its kin)."""
    lora_alpha: float = field(default=ALPHA, metadata=LATER)
    """Adapter scaling, lora_alpha / lora_rank; a value other than 32 needs a server that supports it."""
    adapter: AdapterKind = AdapterKind.LORA
    """Kind of adapter that is trained; full trains all weights."""
    train_unembed: bool = field(default=True, metadata=LATER)
    """Adapt the unembedding (output head) too, beside attention and MLP."""
    max_tokens: int = 32
    """Maximum tokens of an answer."""
    temperature: float = 1.0
    """Sampling temperature of rollouts and of the sampled evaluation."""
    eval_every: int = 20
    """Steps between evaluations on held-out items, the first at step 0; 0: only at the end."""
    eval_items: int = 256
    """Maximum held-out items per evaluation: a fixed random subset, the same in every run."""
    test_items: int = field(default=0, metadata=LATER)
    """Maximum items of the test split, evaluated at the end: a fixed random subset, the same in every run; 0: all."""
    save_every: int = 20
    """Steps between checkpoints; 0: never."""
    select_by: Selection = Selection.MACRO_F1
    """Validation metric by which the checkpoint is selected."""
    train_items: int = 0
    """Maximum items to train on; 0: all."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    grad_clip_norm: float = 0.0
    """Gradients are clipped to this L2 norm; 0: no clipping."""
    watch: Watched = field(default=Watched.NOTHING, metadata=LATER)
    """Extra measurement in evaluations: mutual information of prompts and answers (shows template collapse), prediction
    of the environment's replies, or confidence along the reasoning."""
    seed: int = 0
    """Random seed from which all others are derived."""

    def __post_init__(self) -> None:
        _at_least_zero(self, "learning_rate", "lora_rank", "lora_alpha", "max_tokens", "eval_items", above=True)
        _at_least_zero(self, "test_items", "train_items", "eval_every", "save_every", "seed")
        _at_least_zero(self, "temperature", "weight_decay", "grad_clip_norm")
        if not 0.0 <= self.lr_warmup < 1.0:
            what = "the warm-up must be a part of the run"
            raise ConfigError(what, field="lr_warmup", value=self.lr_warmup, allowed="0 or more, below 1")
        if self.adapter is AdapterKind.FULL and not self.train_unembed:
            raise ConfigError("full trains every weight", field="train_unembed", value=False, allowed="true")
        if self.adapter is AdapterKind.FULL and self.lora_alpha != ALPHA:
            raise ConfigError("full trains every weight, and has no alpha", field="lora_alpha", value=self.lora_alpha)

    def by_example(self, step: int) -> SftSettings | None:
        """Return the supervised settings of a step; None if it is trained by reward."""
        del step


def identity_settings(settings: CommonSettings) -> dict[str, object]:
    """Return the settings that distinguish runs; keys that are LATER and still have their defaults are left out.

    So a name that was frozen before a key came still stands for what it stood for.
    """
    dropped = left_out(settings)
    return {name: value for name, value in asdict(settings).items() if name not in dropped}


def written(settings: CommonSettings) -> dict[str, object]:
    """Return the settings in the form of configurations."""
    dropped = left_out(settings)
    unused = {one.name for one in fields(settings) if one.name in dropped and "written" in one.metadata}
    return {name: value for name, value in asdict(settings).items() if name not in unused}


@dataclass(frozen=True, slots=True, kw_only=True)
class RlSettings(CommonSettings):
    """Reinforcement learning of the GRPO family: groups of rollouts of one prompt, compared with each other."""

    group_size: int = 8
    """Rollouts per prompt, whose rewards are compared with each other; 2 or more."""
    groups_per_batch: int = 16
    """Prompts per training step."""
    advantage: Advantage = Advantage.CENTER
    """Advantage estimator: how a group's rewards become advantages."""
    loss_fn: RlLoss = RlLoss.IMPORTANCE_SAMPLING
    """Policy-gradient loss, by its name in the Tinker API."""
    num_substeps: int = 1
    """Optimizer steps per batch of rollouts."""
    kl_penalty_coef: float = 0.0
    """Coefficient of the KL penalty (k1 estimate) in the reward, against the base model; 0: none."""
    zero_variance_filter: bool = True
    """Leave out groups whose rewards are all equal, which have no gradient but a penalty's. They are counted."""
    gradient: Gradient = Gradient.SAMPLED
    """Policy gradient: estimated from sampled answers, or exact, over all labels and their probabilities."""
    force_options: bool = field(default=False, metadata=LATER)
    """Add every answer in the task's `options` to each group, so that even a policy that is always wrong learns from
    the right one."""
    entropy_bonus: float = field(default=0.0, metadata=LATER)
    """Coefficient of the entropy bonus in the reward (score-function estimate); 0: none."""
    snr_filter: float = field(default=0.0, metadata=LATER)
    """Train on the groups with the largest deviation of rewards, up to this share of all deviation; 0: on all."""
    early_stop: bool = field(default=False, metadata=LATER)
    """Stop once reward variance within groups has been below a tenth of its early level for ten steps."""
    env_loss_coef: float = field(default=0.0, metadata=LATER)
    """Weight of a loss on the environment's replies, in the forward pass of the policy's own loss; 0: none."""
    confidence_penalty: float = field(default=0.0, metadata=LATER)
    """Penalty on the advantage for confidence in the right answer that falls along the reasoning; 0: none. For tasks
    with `probed`."""
    confidence_prefixes: Prefixes = field(default=Prefixes.OWN, metadata=LATER)
    """Reasoning after which that confidence is measured: the reply's own; or, as controls, its parts shuffled, or the
    foreign reasoning of another prompt."""
    interleave: str = field(default=NONE, metadata=LATER)
    """Ratio of batches of a task's own items to batches of items that it sets `aside`, such as 5:1, kept exactly;
    none: no item that is set aside is trained on."""
    sft_steps: int = field(default=0, metadata=LATER)
    """Number of steps, at the beginning, that are supervised; 0: none."""
    sft_learning_rate: float = field(default=1e-4, metadata=LATER)
    """Learning rate of the supervised steps, which have a schedule of their own."""
    sft_batch_size: int = field(default=32, metadata=LATER)
    """Examples per supervised step."""

    def __post_init__(self) -> None:
        CommonSettings.__post_init__(self)
        _at_least_zero(self, "steps", "group_size", "groups_per_batch", "num_substeps", above=True)
        _at_least_zero(self, "sft_learning_rate", "sft_batch_size", above=True)
        _at_least_zero(self, "kl_penalty_coef", "entropy_bonus", "snr_filter", "sft_steps")
        _at_least_zero(self, "env_loss_coef", "confidence_penalty")
        if self.env_loss_coef and self.num_substeps > 1:
            what = "the loss on the environment's replies needs the policy that they replied to"
            raise ConfigError(what, field="num_substeps", value=self.num_substeps, allowed="1 with env_loss_coef")
        ratio_of(self.interleave)
        if self.snr_filter > 1.0:
            what = "this must be a share of the deviation of all groups"
            raise ConfigError(what, field="snr_filter", value=self.snr_filter, allowed="0 (no filter) to 1")
        if self.sft_steps >= self.steps:
            what = "every step would be supervised, with none left for RL"
            allowed = f"0 to {self.steps - 1}, as steps counts both"
            fix = "tinsmith run sft/lora trains by example alone"
            raise ConfigError(what, field="sft_steps", value=self.sft_steps, allowed=allowed, fix=fix)
        if self.temperature == 0.0:
            what = "at temperature 0 all rollouts of a group are equal, and nothing is learned"
            raise ConfigError(what, field="temperature", value=self.temperature, allowed="above 0")
        if self.num_substeps > self.groups_per_batch:
            what, allowed = "there are more substeps than groups", f"1 to groups_per_batch = {self.groups_per_batch}"
            raise ConfigError(what, field="num_substeps", value=self.num_substeps, allowed=allowed)
        if self.gradient is Gradient.EXACT and self.advantage not in LINEAR:
            what = "this advantage divides by the deviation of all terms, and the exact gradient is that of one term"
            fix = "advantage=center, or gradient=sampled"
            raise ConfigError(what, field="advantage", value=self.advantage.value, allowed=", ".join(LINEAR), fix=fix)
        if self.group_size < 2:
            what = "a group needs two or more rollouts, whose rewards are compared"
            raise ConfigError(what, field="group_size", value=self.group_size, allowed="2 or more")

    def by_example(self, step: int) -> SftSettings | None:
        """Return the supervised settings of the first `sft_steps` steps; None for later ones, trained by reward."""
        return self.supervised if step < self.sft_steps else None

    @property
    def supervised(self) -> SftSettings:
        """Settings of the supervised steps."""
        shared: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(CommonSettings)}
        shared |= {"steps": self.sft_steps, "learning_rate": self.sft_learning_rate}
        return SftSettings(**shared, batch_size=self.sft_batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftSettings(CommonSettings):
    """Supervised fine-tuning on the contract's answer, its tokens only."""

    batch_size: int = 32
    """Examples per training step."""
    logit_offset: bool = False
    """Choose an offset for each label's log-probability on the validation split (for macro-F1), and decide by them."""
    order: Order = field(default=Order.RANDOM, metadata=WHERE_USED)
    """Order of an epoch's items: random; by the perplexity of their right answers under the model before the first
    step, ascending or descending; or descending, recomputed under the model at the beginning of each epoch."""

    def __post_init__(self) -> None:
        CommonSettings.__post_init__(self)
        _at_least_zero(self, "batch_size", above=True)
        _at_least_zero(self, "steps")

    def by_example(self, step: int) -> SftSettings:
        """Return these settings: every step is supervised."""
        del step
        return self


class Pushed(StrEnum):
    """Which rollouts are learned from."""

    BOTH = "both"
    """Good ones are made more probable, and bad ones less."""
    GOOD = "good"
    """Those that earned more than their group, and no other: a control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSettings(SftSettings):
    """Supervised steps on the base's own rollouts, at the tokens where it was uncertain (see sft.py)."""

    asked_items: int = 200
    """Training items that the base answers before the first step."""
    base_rollouts: int = 20
    """Rollouts of the base for each of these items."""
    kept_items: int = 50
    """Number of these items that are trained on: those with mean rewards nearest to one half."""
    entropy_threshold: float = 0.7
    """Nats of the base's entropy above which a token is pushed; at all others the policy is held to the base."""
    base_kl_coef: float = 0.2
    """Coefficient of the KL term that holds the policy to the base at those tokens."""
    pushed: Pushed = Pushed.BOTH
    """Train on good and bad rollouts, or on good ones alone."""

    def __post_init__(self) -> None:
        SftSettings.__post_init__(self)
        _at_least_zero(self, "steps", "asked_items", "kept_items", "temperature", above=True)
        _at_least_zero(self, "entropy_threshold", "base_kl_coef")
        if self.base_rollouts < 2:
            what = "an item needs two or more rollouts, whose rewards are compared"
            raise ConfigError(what, field="base_rollouts", value=self.base_rollouts, allowed="2 or more")


def _at_least_zero(settings: CommonSettings, *names: str, above: bool = False) -> None:
    assert set(names) <= {field.name for field in fields(settings)}
    for name in names:
        value = getattr(settings, name)
        if not math.isfinite(value) or value < 0 or (above and value == 0):
            least = "1 or more" if isinstance(value, int) else "above 0"
            what, allowed = "this number is out of range", least if above else "0 or more"
            raise ConfigError(what, field=name, value=value, allowed=allowed)
