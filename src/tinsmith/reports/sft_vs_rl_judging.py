"""Puts the study of SFT against RL to the gate: which claims, with which controls, and which systems are equivalent.

The claims were named before any run. Those of the arms are one family for Holm's correction; those for models that
saw shuffled labels are another, and must all be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.analysis.claims import Comparison, judge
from tinsmith.analysis.estimates import Bootstrap, difference, estimate
from tinsmith.analysis.evaluation import combine
from tinsmith.analysis.parity import ParityRecord
from tinsmith.analysis.rates import Metric
from tinsmith.analysis.runs import Runs
from tinsmith.data.baseline_report import Baseline
from tinsmith.reports.arms import Arm
from tinsmith.reports.baseline_rivals import rival
from tinsmith.reports.measures import BOOTSTRAP as TABLES
from tinsmith.reports.measures import from_estimate
from tinsmith.reports.sft_vs_rl_results import (
    OFFSET,
    PRIMARY,
    WORDS,
    Equivalence,
    Scores,
    StudyArm,
    StudyClaim,
)
from tinsmith.runs.run_records import Split
from tinsmith.types.errors import DataError

CLAIMS: Final = Bootstrap()
_TWO_ONE_SIDED: Final = 0.9
"""Level of the interval that is two one-sided tests at 0.05 each."""

_ZERO, _SFT, _RL, _THEN, _MORE = (
    WORDS[arm] for arm in (StudyArm.ZERO, StudyArm.SFT, StudyArm.RL, StudyArm.THEN, StudyArm.MORE)
)
_SFT_SHUFFLED, _RL_SHUFFLED = WORDS[StudyArm.SFT_SHUFFLED], WORDS[StudyArm.RL_SHUFFLED]

_FAMILY: Final = (
    (_RL, OFFSET, PRIMARY),
    (_RL, _SFT, PRIMARY),
    (_RL, _SFT, Metric.MIN_CLASS_RECALL),
    (_RL, _MORE, PRIMARY),
    (_RL, _ZERO, PRIMARY),
    (_SFT, _ZERO, PRIMARY),
    (_THEN, OFFSET, PRIMARY),
    (_THEN, _SFT, Metric.MIN_CLASS_RECALL),
    (_THEN, _RL, PRIMARY),
)
"""What is claimed of what, the primary claim first: RL against the honest comparator."""
_CONTROLS: Final = ((_RL_SHUFFLED, _ZERO, PRIMARY), (_SFT_SHUFFLED, _ZERO, PRIMARY))
_EQUIVALENT: Final = tuple(
    (first, second, metric)
    for first, second in ((_RL, OFFSET), (_RL, _SFT), (_RL, _MORE), (_THEN, OFFSET))
    for metric in (Metric.LABEL_MATCH, PRIMARY)
)
_CONTROL_OF: Final[Mapping[str, str]] = {
    _RL: _RL_SHUFFLED,
    _THEN: _RL_SHUFFLED,
    _SFT: _SFT_SHUFFLED,
    _RL_SHUFFLED: _RL_SHUFFLED,
    _SFT_SHUFFLED: _SFT_SHUFFLED,
}
_NOTES: Final[Mapping[str, str]] = {
    _THEN: f"The control on shuffled labels is that of {_RL}.",
    _SFT: "SFT samples nothing while it trains: that sampler and trainer are one model was seen in the RL runs, on "
    "the same base and engine.",
    _SFT_SHUFFLED: "That sampler and trainer are one model was seen in the RL runs.",
}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The answers of every system to the test split, by its name."""

    systems: Mapping[str, Runs]
    metadata: Runs | None
    parity: ParityRecord | None
    """Sampler against trainer over all RL steps of the study."""

    @classmethod
    def of(cls, arms: Mapping[StudyArm, Arm]) -> Evidence:
        """Collect it from the arms' runs.

        Raises:
            DataError: a run has no answers to the test split, or they are not to the same papers.
        """
        systems = {WORDS[arm]: selected(arms[arm]) for arm in arms}
        systems[OFFSET] = replace(_of(arms[StudyArm.SFT], Split.TEST_OFFSET), name=OFFSET)
        seen = [record for arm in arms.values() if (record := arm.parity()) is not None]
        steps, unequal = sum(one.steps for one in seen), sum(one.unequal_bits for one in seen)
        return cls(
            systems,
            _metadata(arms[StudyArm.RL], systems[_RL]),
            ParityRecord(steps=steps, unequal_bits=unequal) if seen else None,
        )

    def judged(self) -> tuple[StudyClaim, ...]:
        """Judge the claims for the arms."""
        return self._family(_FAMILY)

    def controls(self) -> tuple[StudyClaim, ...]:
        """Judge the claims for what was trained on shuffled labels."""
        return self._family(_CONTROLS)

    def _family(self, family: Sequence[tuple[str, str, Metric]]) -> tuple[StudyClaim, ...]:
        comparisons = [
            Comparison(
                first=self.systems[first],
                second=self.systems[second],
                metric=metric,
                metadata=self.metadata,
                control=self.systems[_CONTROL_OF[first]],
                parity=self.parity,
            )
            for first, second, metric in family
        ]
        return tuple(
            StudyClaim(claim=claim, note=_NOTES.get(claim.first, ""))
            for claim in judge(comparisons, CLAIMS)
        )

    def equivalences(self) -> tuple[Equivalence, ...]:
        """Test which systems are as good as each other."""
        return tuple(self._equivalence(*pair) for pair in _EQUIVALENT)

    def _equivalence(self, first: str, second: str, metric: Metric) -> Equivalence:
        found = difference(self.systems[first], self.systems[second], metric, CLAIMS)
        interval = found.at(_TWO_ONE_SIDED)
        assert interval is not None, "a share and a macro-F1 are defined in every resample"
        return Equivalence(
            first=first,
            second=second,
            metric=metric,
            value=found.value,
            low=interval.low,
            high=interval.high,
        )


def scores(runs: Runs) -> Scores:
    """Score a system's answers, with intervals."""
    return Scores(
        label_match=from_estimate(estimate(runs, Metric.LABEL_MATCH, TABLES)),
        macro_f1=from_estimate(estimate(runs, Metric.MACRO_F1, TABLES)),
        balanced_accuracy=from_estimate(estimate(runs, Metric.BALANCED_ACCURACY, TABLES)),
        min_class_recall=from_estimate(estimate(runs, Metric.MIN_CLASS_RECALL, TABLES)),
        by_seed=tuple(one.score(Metric.MACRO_F1) for one in runs.confusions()),
    )


def selected(arm: Arm) -> Runs:
    """Return what the checkpoints chosen by validation answered, sampled.

    Raises:
        DataError: a run has no answers.
    """
    return _of(arm, Split.TEST)


def greedy(arm: Arm) -> Runs:
    """Return the same checkpoints' greedy answers.

    Raises:
        DataError: a run has no answers.
    """
    return _of(arm, Split.TEST_GREEDY)


def last(arm: Arm) -> Runs:
    """Return what the last checkpoints answered, sampled; where the chosen one is the last, it was asked once.

    Raises:
        DataError: a run has no answers.
    """
    return _of(arm, Split.TEST_LAST, Split.TEST)


def _of(arm: Arm, *splits: Split) -> Runs:
    """Return every seed's answers on the first of these splits that it has."""
    found = [
        next((one for split in splits if (one := member.gathered.last(split)) is not None), None)
        for member in arm.members
    ]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        raise DataError(f"a run of {arm.name} has no answers to the test split", field="cells")
    return combine(arm.name, there)


def _metadata(arm: Arm, answers: Runs) -> Runs | None:
    report = arm.first.baselines
    known = report.scores if report else []
    found = next((score for score in known if score.baseline is Baseline.METADATA), None)
    return rival(found, arm.first, answers) if found else None
