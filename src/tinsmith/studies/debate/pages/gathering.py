"""Goes through the conversations of a run with a challenger once: who said what before and after, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.labels.contracts import CONTRACTS, Contract
from tinsmith.lab.results.gathering import Cause
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run, Split
from tinsmith.studies.debate.records import ConversationRecord, read_conversations
from tinsmith.studies.debate.stance import Arms, WrongLabel
from tinsmith.studies.debate.statistics import Debated, Figures, by_group, metrics
from tinsmith.types.challenges import Arm
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
SCRIPTED, NOBODY = "scripted", "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One whole conversation that is no training, and how it is counted."""

    record: ConversationRecord
    debated: Debated


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateRun:
    """A run with a challenger, and all that its page needs."""

    run: Run
    talks: Mapping[str, tuple[Talk, ...]]
    """By split, those of its last step, in the order of the papers' names."""
    failures: Mapping[Cause, int]
    trained: int
    """Training conversations, failed ones included."""
    notes: tuple[str, ...]

    def debated(self, split: str) -> tuple[Debated, ...]:
        """Return the conversations of a split as they are counted."""
        return tuple(talk.debated for talk in self.talks.get(split, ()))

    def figures(self, split: str) -> Mapping[str, Figures]:
        """Return the figures of a split by group; empty where nobody was asked there."""
        found = self.debated(split)
        return by_group(found, len(self.run.labels)) if found else {}

    @property
    def opponent(self) -> str:
        """Who challenged."""
        return str(self.run.config.challenge.get("opponent", "")) or "not stated"

    @property
    def alone(self) -> bool:
        """Whether nobody challenged."""
        return self.opponent == NOBODY

    @property
    def arms(self) -> Arms | None:
        """What the challenger argued for, and how often; None where that is not known."""
        told = self.run.config.challenge
        shares = {key: told.get(key) for key in ("truthful", "misleading", "null", "evidence")}
        found = {
            key: float(value) for key, value in shares.items() if isinstance(value, int | float)
        }
        wrong = str(told.get("wrong", self.run.config.overrides.get("wrong", WrongLabel.ANY)))
        if len(found) < len(shares) or wrong not in tuple(WrongLabel):
            return None
        try:
            return Arms(**found, wrong=WrongLabel(wrong))
        except ConfigError:
            return None


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
    trained = 0
    for record in read_conversations(folder, notes):
        trained += record.split == Split.TRAIN
        if record.failure is not None:
            failures[Cause(record.split, record.failure.where, record.failure.what)] += 1
        elif record.split != Split.TRAIN and contract is not None and record.turns:
            talk = Talk(record=record, debated=_counted(record, contract))
            key = (record.prompt_id, talk.debated.arm.value, talk.debated.evidence)
            # What stands there twice was written again after a resume: the first counts.
            found.setdefault(record.split, {}).setdefault(record.step, {}).setdefault(key, talk)
    read = DebateRun(
        run=run,
        talks={split: _last(steps) for split, steps in sorted(found.items())},
        failures=dict(sorted(failures.items())),
        trained=trained,
        notes=tuple(notes),
    )
    return replace(read, notes=(*notes, *_disagreements(read)))


def _disagreements(read: DebateRun) -> list[str]:
    """Say where the metrics that training wrote are not what its conversations give."""
    row = read.run.metrics.get(read.run.last_step, {}) if read.run.last_step is not None else {}
    return [
        f"{key} is {told:.4f} in metrics.jsonl, but the conversations give {value:.4f}."
        for split in TESTS
        if read.talks.get(split)
        for key, value in metrics(read.figures(split), split).items()
        if (told := row.get(key)) is not None and abs(told - value) > _ROUNDING
    ]


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
        first_confidence=_confidence(first),
        last_confidence=_confidence(last),
        speaks_for=record.speaks_for,
    )


def _confidence(answer: Answer) -> str | None:
    return None if answer.confidence is None else answer.confidence.value


def shown_splits(read: DebateRun) -> Sequence[str]:
    """Return the splits that have conversations, of those that a test looks at; else the validation's."""
    tested = [split for split in TESTS if read.talks.get(split)]
    return tested or [s for s in (Split.EVAL.value, Split.EVAL_GREEDY.value) if read.talks.get(s)]
