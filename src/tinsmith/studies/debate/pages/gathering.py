"""Goes through the conversations of a run with a challenger once: who said what before and after, and what failed.

Every field of a line has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from tinsmith.lab.labels.contracts import CONTRACTS, Contract
from tinsmith.lab.results.gathering import Cause
from tinsmith.lab.runs.files import CONFIG, ROLLOUTS
from tinsmith.lab.runs.reader import json_lines, read_run, read_whole
from tinsmith.lab.runs.records import FailureRecord, Run, Split
from tinsmith.studies.debate.frame import NOBODY
from tinsmith.studies.debate.stance import Arm, Arms, WrongLabel
from tinsmith.studies.debate.statistics import Debated, Figures, by_group, metrics
from tinsmith.types.errors import ConfigError

TEST, GREEDY = Split.TEST.value, Split.TEST_GREEDY.value
CONTROL, CONTROL_GREEDY = "test_no_evidence", "test_no_evidence_greedy"
TESTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TEST: "Test papers, challenged as in training, sampled",
        GREEDY: "The same, greedy",
        CONTROL: "Negative control: no evidence, sampled",
        CONTROL_GREEDY: "Negative control: no evidence, greedy",
    }
)
"""The splits that a run looks at once, and what they are called."""
_ROUNDING = 1e-9


class ConfigRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `config.json` says beside what every run's does: who challenges, and argues for what how often."""

    challenge: dict[str, object] = {}


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the two said."""

    role: str = ""
    text: str = ""


class ChallengeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the challenger argued for."""

    arm: str = ""
    label: str | None = None
    evidence: bool = False
    grounded: bool | None = None
    """Whether the words it quotes speak for its label; None where nobody knows."""


class ConversationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of rollouts; `failure` is set where it came to nothing, `challenge` where there was one."""

    step: int
    split: str
    prompt_id: str
    gold: str = ""
    turns: tuple[TurnRecord, ...] = ()
    challenge: ChallengeRecord | None = None
    speaks_for: int | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One whole conversation that is no training, and how it is counted."""

    record: ConversationRecord
    debated: Debated


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateRun:
    """A run with a challenger, and all that its page needs."""

    run: Run
    challenge: Mapping[str, object]
    """Who challenges, and argues for what how often, as `config.json` has it."""
    talks: Mapping[str, tuple[Talk, ...]]
    """By split, those of its last step, in the order of the papers' names."""
    by_split: Mapping[str, Mapping[str, Figures]]
    """The figures of every split by group."""
    failures: Mapping[Cause, int]
    notes: tuple[str, ...]

    def debated(self, split: str) -> tuple[Debated, ...]:
        """Return the conversations of a split as they are counted."""
        return tuple(talk.debated for talk in self.talks.get(split, ()))

    def figures(self, split: str) -> Mapping[str, Figures]:
        """Return the figures of a split by group; empty where nobody was asked there."""
        return self.by_split.get(split, {})

    @property
    def shown(self) -> Sequence[str]:
        """The splits that have conversations, of those that a test looks at; else the validation's."""
        tested = [split for split in TESTS if self.talks.get(split)]
        return tested or [s for s in (Split.EVAL, Split.EVAL_GREEDY) if self.talks.get(s)]

    @property
    def main(self) -> str | None:
        """The split that sentences are about: the test, or where there is none yet the validation."""
        return next((split for split in (TEST, Split.EVAL) if self.talks.get(split)), None)

    @property
    def opponent(self) -> str:
        """Who challenged."""
        return str(self.challenge.get("opponent", "")) or "not stated"

    @property
    def alone(self) -> bool:
        """Whether nobody challenged."""
        return self.opponent == NOBODY

    @property
    def arms(self) -> Arms | None:
        """What the challenger argued for, and how often; None where that is not known."""
        told = self.challenge
        shares = {key: told.get(key) for key in ("truthful", "misleading", "null", "evidence")}
        found = {key: float(value) for key, value in shares.items() if isinstance(value, int | float)}
        wrong = str(told.get("wrong", self.run.config.overrides.get("wrong", WrongLabel.ANY)))
        if len(found) < len(shares) or wrong not in tuple(WrongLabel):
            return None
        try:
            return Arms(**found, wrong=WrongLabel(wrong))
        except ConfigError:
            return None

    @property
    def leak(self) -> float | None:
        """The J of changing to whatever label is named; None where the arms are not known."""
        arms = self.arms
        return None if arms is None else arms.discrimination_for_nothing(max(len(self.run.labels), 2))


def read_debate_run(folder: Path, run: Run | None = None) -> DebateRun:
    """Read everything of a run with a challenger.

    Raises:
        DataError: there is no run in `folder`, or its `config.json` is damaged.
    """
    run = run or read_run(folder)
    notes = list(run.notes)
    contract = CONTRACTS.get(run.config.task.contract)
    if contract is None:
        notes.append(f"The contract {run.config.task.contract!r} is not known: no answer is read.")
    found: dict[str, dict[int, dict[tuple[str, str, bool], Talk]]] = {}
    failures: Counter[Cause] = Counter()
    for record in json_lines(folder / ROLLOUTS, ConversationRecord, notes):
        if record.failure is not None:
            failures[Cause(record.split, record.failure.where, record.failure.what)] += 1
        elif record.split != Split.TRAIN and contract is not None and record.turns:
            talk = Talk(record=record, debated=_counted(record, contract))
            key = (record.prompt_id, talk.debated.arm.value, talk.debated.evidence)
            # What stands there twice was written again after a resume: the first counts.
            found.setdefault(record.split, {}).setdefault(record.step, {}).setdefault(key, talk)
    talks = {split: _last(steps) for split, steps in sorted(found.items())}
    by_split = {split: by_group([one.debated for one in told], len(run.labels)) for split, told in talks.items()}
    # Where the metrics that training wrote are not what its conversations give.
    row = run.metrics.get(run.last_step, {}) if run.last_step is not None else {}
    notes += [
        f"{key} is {told:.4f} in metrics.jsonl, but the conversations give {value:.4f}."
        for split in TESTS
        for key, value in metrics(by_split.get(split, {}), split).items()
        if (told := row.get(key)) is not None and abs(told - value) > _ROUNDING
    ]
    config = read_whole(folder / CONFIG, ConfigRecord, notes) or ConfigRecord()
    return DebateRun(
        run=run,
        challenge=config.challenge,
        talks=talks,
        by_split=by_split,
        failures=dict(sorted(failures.items())),
        notes=tuple(notes),
    )


def _last(steps: Mapping[int, Mapping[tuple[str, str, bool], Talk]]) -> tuple[Talk, ...]:
    last = steps[max(steps)]
    return tuple(last[key] for key in sorted(last))


def _counted(record: ConversationRecord, contract: Contract) -> Debated:
    answers = [contract.parse(turn.text) for turn in record.turns if turn.role == "assistant"]
    first, last = answers[0], answers[-1]
    challenge = record.challenge
    arm = Arm(challenge.arm) if challenge and challenge.arm in tuple(Arm) else Arm.NULL
    return Debated(
        item=record.prompt_id,
        gold=record.gold,
        first=first.predicted,
        last=last.predicted,
        arm=arm,
        evidence=arm is not Arm.NULL and challenge is not None and challenge.evidence,
        first_confidence=first.confidence,
        last_confidence=last.confidence,
        speaks_for=record.speaks_for,
    )
