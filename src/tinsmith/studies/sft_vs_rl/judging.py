"""Puts the study of SFT against RL to the gate: which claims, with which controls, and which systems are equivalent.

The claims were named before any run. Which arm beats which is one family for Holm's correction, what each arm learned
another, and what was learned from shuffled labels a third, in which all must be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import metadata_of
from tinsmith.lab.results.judging import training_of
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.results import answers
from tinsmith.stats.estimates import Bootstrap, difference
from tinsmith.stats.gate.claim import Training
from tinsmith.stats.gate.claims import Beats, Learned, judge_beats, judge_learned
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.studies.sft_vs_rl.results import PRIMARY, Equivalence, StudyClaim
from tinsmith.studies.sft_vs_rl.settings import OFFSET, WORDS, ArmName

_TWO_ONE_SIDED: Final = 0.9
"""Level of the interval that is two one-sided tests at 0.05 each."""

_ZERO, _SFT, _RL, _THEN, _MORE = (
    WORDS[arm] for arm in (ArmName.ZERO, ArmName.SFT, ArmName.RL, ArmName.THEN, ArmName.MORE)
)
_SFT_SHUFFLED, _RL_SHUFFLED = WORDS[ArmName.SFT_SHUFFLED], WORDS[ArmName.RL_SHUFFLED]

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
_LEARNED: Final = tuple(dict.fromkeys((first, metric) for first, _, metric in _FAMILY))
"""What is claimed to have been learned: of every arm above, on each of its scores."""
_CONTROLS: Final = ((_RL_SHUFFLED, PRIMARY), (_SFT_SHUFFLED, PRIMARY))
_EQUIVALENT: Final = tuple(
    (first, second, metric)
    for first, second in ((_RL, OFFSET), (_RL, _SFT), (_RL, _MORE), (_THEN, OFFSET))
    for metric in (Metric.LABEL_MATCH, PRIMARY)
)
_PROMPT, _PROMPT_SHUFFLED = WORDS[ArmName.PROMPT], WORDS[ArmName.PROMPT_SHUFFLED]
_PROMPT_FAMILY: Final = ((_RL, _PROMPT, PRIMARY), (_PROMPT, _ZERO, PRIMARY))
"""What is claimed of a searched prompt: a family of its own, so that it changes no other claim."""
_CONTROL_OF: Final[Mapping[str, str]] = {
    _RL: _RL_SHUFFLED,
    _THEN: _RL_SHUFFLED,
    _SFT: _SFT_SHUFFLED,
    _RL_SHUFFLED: _RL_SHUFFLED,
    _SFT_SHUFFLED: _SFT_SHUFFLED,
    _PROMPT: _PROMPT_SHUFFLED,
    _PROMPT_SHUFFLED: _PROMPT_SHUFFLED,
}
_NOTES: Final[Mapping[str, str]] = {
    _SFT: "SFT samples nothing while it trains: that sampler and trainer are one model was seen in the RL runs, on "
    "the same base and engine.",
    _SFT_SHUFFLED: "That sampler and trainer are one model was seen in the RL runs.",
    _PROMPT: "Nothing is trained. That sampler and trainer are one model was seen in the RL runs.",
    _PROMPT_SHUFFLED: "Nothing is trained. That sampler and trainer are one model was seen in the RL runs.",
}
_OTHER_CONTROL: Final[Mapping[str, str]] = {_THEN: f"The control on shuffled labels is that of {_RL}."}


_NONE: Final[Mapping[ArmName, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The answers of every system to the test split, by its name."""

    systems: Mapping[str, Runs]
    training: Mapping[str, Training | None]
    """What each of them was trained on."""
    metadata: Runs | None
    parity: ParityRecord | None
    """Sampler against trainer over all RL steps of the study."""
    draws: Bootstrap

    @classmethod
    def of(cls, arms: Mapping[ArmName, Arm], draws: Bootstrap, searched: Mapping[ArmName, int] = _NONE) -> Evidence:
        """Collect it from the arms' runs; `searched`: how many papers a search looked at, by its arm.

        Raises:
            DataError: a run has no answers to the test split, or they are not to the same papers.
        """
        systems = {WORDS[name]: answers(arm, Split.TEST) for name, arm in arms.items()}
        systems[OFFSET] = replace(answers(arms[ArmName.SFT], Split.TEST_OFFSET), name=OFFSET)
        seen = [record for arm in arms.values() if (record := arm.parity()) is not None]
        steps, unequal = sum(one.steps for one in seen), sum(one.unequal_bits for one in seen)
        training = {WORDS[name]: training_of(arm) for name, arm in arms.items()}
        training[OFFSET] = training[_SFT]
        for name, papers in searched.items():
            data = arms[name].first.config.data.fingerprint
            training[WORDS[name]] = Training(data, papers)
        return cls(
            systems,
            training,
            metadata_of(arms[ArmName.RL].first, systems[_RL]),
            ParityRecord(steps=steps, unequal_bits=unequal) if seen else None,
            draws,
        )

    def judged(self) -> tuple[StudyClaim, ...]:
        """Judge which arm beats which."""
        return self._beats(_FAMILY)

    def prompt_judged(self) -> tuple[StudyClaim, ...]:
        """Judge RL against a searched prompt, and that against none."""
        return self._beats(_PROMPT_FAMILY)

    def prompt_learned(self) -> tuple[StudyClaim, ...]:
        """Judge whether anything simpler explains what a searched prompt scores."""
        return self._learned([(_PROMPT, PRIMARY)])

    def prompt_controls(self) -> tuple[StudyClaim, ...]:
        """Judge what was found by shuffled labels."""
        return self._learned([(_PROMPT_SHUFFLED, PRIMARY)])

    def _beats(self, family: Sequence[tuple[str, str, Metric]]) -> tuple[StudyClaim, ...]:
        claims = judge_beats(
            [
                Beats(
                    first=self.systems[first],
                    second=self.systems[second],
                    metric=metric,
                    training=None if mine is None or theirs is None else (mine, theirs),
                    parity=self.parity,
                )
                for first, second, metric in family
                for mine, theirs in [(self.training[first], self.training[second])]
            ],
            self.draws,
        )
        return tuple(StudyClaim(claim=claim, note=_NOTES.get(claim.first, "")) for claim in claims)

    def learned(self) -> tuple[StudyClaim, ...]:
        """Judge what the arms learned."""
        return self._learned(_LEARNED)

    def controls(self) -> tuple[StudyClaim, ...]:
        """Judge what was learned from shuffled labels."""
        return self._learned(_CONTROLS)

    def _learned(self, family: Sequence[tuple[str, Metric]]) -> tuple[StudyClaim, ...]:
        claims = judge_learned(
            [
                Learned(
                    system=self.systems[name],
                    metric=metric,
                    metadata=self.metadata,
                    control=self.systems[_CONTROL_OF[name]],
                    parity=self.parity,
                )
                for name, metric in family
            ],
            self.draws,
        )
        return tuple(
            StudyClaim(
                claim=claim, note=" ".join(filter(None, (_NOTES.get(claim.first), _OTHER_CONTROL.get(claim.first))))
            )
            for claim in claims
        )

    def equivalences(self) -> tuple[Equivalence, ...]:
        """Test which systems are as good as each other."""
        return tuple(self._equivalence(*pair) for pair in _EQUIVALENT)

    def _equivalence(self, first: str, second: str, metric: Metric) -> Equivalence:
        found = difference(self.systems[first], self.systems[second], metric, self.draws)
        interval = found.at(_TWO_ONE_SIDED)
        assert interval is not None, "a share and a macro-F1 are defined in every resample"
        return Equivalence(
            first=first, second=second, metric=metric, value=found.value, low=interval.low, high=interval.high
        )
