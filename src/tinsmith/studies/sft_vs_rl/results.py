"""What the study of SFT against RL has found beside the scores: claims, equivalences, the truth where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.prompt_search.search_rows import SearchRow
from tinsmith.lab.study.results import StudyFound
from tinsmith.stats.gate.claim import Claim
from tinsmith.stats.incentives.bayes import best_deterministic, best_policy
from tinsmith.stats.incentives.posteriors import Policy
from tinsmith.stats.rates import Metric
from tinsmith.studies.sft_vs_rl.planted_world import posteriors

PRIMARY: Final = Metric.MACRO_F1
"""What the first sentence is about: named before any run."""
MARGIN: Final = 0.01
"""Two scores that differ by less than this are as good as equal."""
OFFSET_RULE: Final = "the best rule that always gives one label to one kind of paper"
"""The policy of a planted world that SFT with offsets can become."""


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

    @classmethod
    def of(cls, name: str, policy: Policy) -> Known:
        """Score a policy."""
        return cls(
            name=name,
            label_match=policy.score(Metric.LABEL_MATCH),
            macro_f1=policy.score(Metric.MACRO_F1),
            min_class_recall=policy.score(Metric.MIN_CLASS_RECALL),
        )


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
class SftVsRl(StudyFound):
    """All of it."""

    world: str
    claims: tuple[StudyClaim, ...]
    """Which arm beats which: one family; the first is the primary one."""
    learned: tuple[StudyClaim, ...]
    """What each arm learned that nothing simpler explains: another family."""
    controls: tuple[StudyClaim, ...]
    """What was learned from shuffled labels: none may be allowed."""
    equivalences: tuple[Equivalence, ...]
    standings: str
    """Where each arm stands against the baselines, in words."""
    truth: Truth | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSide:
    """What the arms of a searched prompt came to; claims of their own, so that no other's correction changes."""

    claims: tuple[StudyClaim, ...]
    """Which arm beats which."""
    learned: tuple[StudyClaim, ...]
    controls: tuple[StudyClaim, ...]
    """What was found by shuffled labels: none may be allowed."""
    searches: tuple[SearchRow, ...]
    files: Mapping[str, str]
    """SHA-256 of what each search found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithPrompt(SftVsRl):
    """The same of a study in which prompts were searched."""

    prompt: PromptSide


def known_truth() -> Truth:
    """Return what is true in the planted world, from its posteriors alone."""
    planted = posteriors()
    rule = best_deterministic(planted, Metric.MACRO_F1)
    assert rule is not None, "there are few kinds of papers"
    likeliest = best_policy(planted, Metric.LABEL_MATCH)
    return Truth(
        best=Known.of("the best macro-F1", best_policy(planted, Metric.MACRO_F1)),
        imitation=Known.of(
            "answers drawn with the true probabilities: what SFT goes to, sampled",
            Policy.of(planted, planted.probabilities),
        ),
        others=(
            Known.of(OFFSET_RULE, rule),
            Known.of("always the likeliest label: what SFT goes to, greedy", likeliest),
            Known.of("the best product of the recalls", best_policy(planted, Metric.G_MEAN)),
        ),
    )
