"""What the study of SFT against RL found, as values: arms, what each spent, claims, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.analysis.claims import Claim
from tinsmith.analysis.rates import Metric
from tinsmith.reports.measures import Measure
from tinsmith.reports.tried_rates import Tried

PRIMARY: Final = Metric.MACRO_F1
"""What the first sentence is about: named before any run."""
MARGIN: Final = 0.01
"""Two scores that differ by less than this are as good as equal."""


class StudyArm(StrEnum):
    """What is trained, and the base that is not."""

    ZERO = "zero_shot"
    SFT = "sft"
    RL = "rl"
    THEN = "sft_then_rl"
    MORE = "sft_compute"
    SFT_SHUFFLED = "sft_shuffled"
    RL_SHUFFLED = "rl_shuffled"


OFFSET: Final = "SFT + logit offset"
"""No arm of its own: another way to decide with the models of SFT."""

WORDS: Final[Mapping[StudyArm, str]] = MappingProxyType(
    {
        StudyArm.ZERO: "zero-shot",
        StudyArm.SFT: "SFT",
        StudyArm.RL: "RL from base",
        StudyArm.THEN: "SFT then RL",
        StudyArm.MORE: "SFT with RL's compute",
        StudyArm.SFT_SHUFFLED: "SFT, shuffled labels",
        StudyArm.RL_SHUFFLED: "RL, shuffled labels",
    }
)
TUNED: Final = (StudyArm.SFT, StudyArm.RL, StudyArm.MORE, StudyArm.THEN)
"""Arms whose learning rate is chosen; the shuffled ones take that of the arm they control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What training took, but for the seconds: the mean of an arm's seeds."""

    papers: float
    """Labelled papers that a step looked at, again where it came again."""
    updates: float
    tokens_read: float
    """Of prompts, once a group, to sample from."""
    tokens_sampled: float
    tokens_trained: float
    """Positions of all sequences that a gradient was taken over."""
    flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Answers of all seeds to the test split, scored: means, with intervals over seeds and papers."""

    label_match: Measure
    macro_f1: Measure
    balanced_accuracy: Measure
    min_class_recall: Measure
    by_seed: tuple[float, ...]
    """Macro-F1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm, or one way to decide with an arm's models."""

    name: str
    seeds: tuple[int, ...]
    rate: float | None
    """None: nothing is trained."""
    steps: int
    selected: Scores
    """Sampled answers of the checkpoint that validation chose; with offsets: decisions."""
    last: Scores | None
    """Sampled answers of the last checkpoint."""
    greedy: Scores | None
    """Greedy answers of the chosen checkpoint."""
    spent: Spent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Whether two systems are as good as each other, within MARGIN either way, by two one-sided tests at 0.05."""

    first: str
    second: str
    metric: Metric
    value: float
    low: float
    high: float
    """Of the 90 % interval over seeds and papers."""

    @property
    def shown(self) -> bool:
        """Whether the interval lies within the margin."""
        return self.low > -MARGIN and self.high < MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one policy scores in a planted world, computed from the posteriors and not from any run."""

    name: str
    label_match: float
    macro_f1: float
    min_class_recall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true in a planted world."""

    best: Known
    """The best macro-F1 that any policy can have."""
    imitation: Known
    """Answers drawn with the true probabilities: what SFT goes to, sampled."""
    others: tuple[Known, ...]

    @property
    def all(self) -> tuple[Known, ...]:
        """Every policy."""
        return (self.best, self.imitation, *self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyClaim:
    """A claim, and what is to be known of its evidence."""

    claim: Claim
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftVsRl:
    """All of it but the seconds, which no two runs have in common."""

    world: str
    data: str
    """Fingerprint of the slice."""
    labels: tuple[str, ...]
    num_items: int
    seeds: tuple[int, ...]
    tuning_seed: int
    settings: Mapping[str, object]
    rows: tuple[ArmRow, ...]
    baselines: tuple[tuple[str, Mapping[str, Measure]], ...]
    rates: Mapping[StudyArm, tuple[Tried, ...]]
    claims: tuple[StudyClaim, ...]
    """One family; the first is the primary one."""
    controls: tuple[StudyClaim, ...]
    """Claims for models that were trained on shuffled labels: none may be allowed."""
    equivalences: tuple[Equivalence, ...]
    standings: str
    """Where each arm stands against the baselines, in words."""
    truth: Truth | None
    hashes: Mapping[str, Mapping[str, str | None]]
    """Of weights, rollouts, metrics and trace, by cell."""

    def row(self, name: str) -> ArmRow:
        """Return an arm by its name."""
        return next(row for row in self.rows if row.name == name)
