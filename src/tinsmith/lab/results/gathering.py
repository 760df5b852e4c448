"""Goes through a run's rollouts once: the answers of every evaluation, the failures, and a choice to be shown.

A file of rollouts may be far larger than what a page can hold; nothing but the answers of evaluations and the
choice is kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from tinsmith.lab.labels.contracts import Outcome
from tinsmith.lab.runs.reader import read_rollouts
from tinsmith.lab.runs.records import RolloutRecord, Run, Split
from tinsmith.lab.strict_json import NotJsonError, read_json
from tinsmith.stats.evaluation import Answered, Evaluation
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

SHOWN = 2000
"""Most rollouts on one page."""

_ROUNDING = 1e-9
_PARSED = frozenset(
    {Outcome.OK, Outcome.NOT_OBJECT, Outcome.BAD_KEYS, Outcome.BAD_LABEL, Outcome.BAD_CONFIDENCE, Outcome.BAD_VALUE}
)


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why rollouts failed: where, what, and of which split."""

    split: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was found in a run's rollouts."""

    evaluations: Mapping[tuple[str, int], Evaluation]
    """By split and step, those of training left out."""
    failures: Mapping[Cause, int]
    rollouts: int
    """All of them, failed ones included."""
    shown: tuple[RolloutRecord, ...]
    """A choice of at most SHOWN: an equal part of every kind, see `_Chooser`."""
    notes: tuple[str, ...]

    def last(self, split: Split) -> Evaluation | None:
        """Return the last evaluation on a split."""
        steps = [step for name, step in self.evaluations if name == split]
        return self.evaluations[split, max(steps)] if steps else None

    def at(self, split: Split, step: int) -> Evaluation | None:
        """Return the evaluation on a split before update `step`."""
        return self.evaluations.get((split, step))


def gather(run: Run, subject: str | None = None) -> Gathered:
    """Read the rollouts of a run; with a `subject`, what answers about several labels say of this one."""
    notes: list[str] = []
    answers: dict[tuple[str, int], dict[str, Answered]] = {}
    failures: Counter[Cause] = Counter()
    chooser = _Chooser()
    count = again = 0
    for rollout in read_rollouts(run.folder, notes, subject):
        count += 1
        chooser.offer(rollout)
        if rollout.failure is not None:
            failures[Cause(rollout.split, rollout.failure.where, rollout.failure.what)] += 1
        elif rollout.split != Split.TRAIN:
            kept = answers.setdefault((rollout.split, rollout.step), {})
            again += rollout.prompt_id in kept
            kept.setdefault(rollout.prompt_id, _answered(rollout))
    if again:
        notes.append(f"{again} evaluation rollouts answer a paper again; the first answer is counted.")
    return Gathered(
        evaluations=_evaluations(run, answers, notes),
        failures=dict(sorted(failures.items())),
        rollouts=count,
        shown=chooser.chosen(),
        notes=tuple(notes),
    )


def disagreements(run: Run, gathered: Gathered) -> tuple[str, ...]:
    """Say where the metrics that training wrote are not what its rollouts give."""
    found: list[str] = []
    for (split, step), evaluation in gathered.evaluations.items():
        # The test is written in the last line, whichever step's policy it is of.
        line = step if split.startswith("eval") else run.last_step
        row = run.metrics.get(line, {}) if line is not None else {}
        confusion = evaluation.confusion()
        for metric in (Metric.LABEL_MATCH, Metric.MACRO_F1):
            told, counted = row.get(f"{split}/{metric}"), confusion.score(metric)
            if told is not None and abs(told - counted) > _ROUNDING:
                found.append(
                    f"{split}/{metric} at step {step} is {told:.4f} in metrics.jsonl, but the "
                    f"rollouts give {counted:.4f}."
                )
    return tuple(found)


def _evaluations(
    run: Run, answers: Mapping[tuple[str, int], Mapping[str, Answered]], notes: list[str]
) -> dict[tuple[str, int], Evaluation]:
    found: dict[tuple[str, int], Evaluation] = {}
    for (split, step), kept in sorted(answers.items()):
        # By paper, so that two files with the same answers give the same intervals.
        ordered = tuple(kept[item] for item in sorted(kept))
        try:
            found[split, step] = Evaluation(labels=run.labels, answers=ordered)
        except DataError as error:
            notes.append(f"The rollouts of {split} at step {step} cannot be scored: {error.what}.")
    return found


def _answered(rollout: RolloutRecord) -> Answered:
    return Answered(
        item=rollout.prompt_id,
        gold=rollout.gold,
        predicted=rollout.predicted,
        outcome=rollout.outcome,
        parse_ok=parsed(rollout.outcome, rollout.text),
        confidence=rollout.confidence,
    )


def parsed(outcome: str, text: str) -> bool:
    """Whether an answer is JSON; its outcome says so, but for a thought, which hides what else there is."""
    if outcome != Outcome.THINK:
        return outcome in _PARSED
    try:
        read_json(text)
    except NotJsonError:
        return False
    return True


@dataclass(slots=True)
class _Chooser:
    """Chooses rollouts to show: in turn one of every kind, until there are SHOWN.

    A kind is a split, a true label, and what came of it (the label answered, the fault, or the failure). Within a
    kind a hash of the rollout's place decides, so that all steps occur and the same files give the same choice. Rare
    kinds are therefore shown whole, and frequent ones in part.
    """

    kinds: dict[tuple[str, str, str], list[tuple[int, int, RolloutRecord]]] = field(
        default_factory=dict[tuple[str, str, str], list[tuple[int, int, RolloutRecord]]]
    )
    _count: int = 0

    def offer(self, rollout: RolloutRecord) -> None:
        """Consider one rollout."""
        came = "failure" if rollout.failure else rollout.predicted or f"invalid {rollout.outcome}"
        heap = self.kinds.setdefault((rollout.split, rollout.gold, came), [])
        place = derive(0, "shown", rollout.split, rollout.step, rollout.prompt_id, rollout.sample)
        self._count += 1
        # A heap of the negated hashes keeps the smallest; the count decides where two are equal.
        entry = (-place, -self._count, rollout)
        if len(heap) < SHOWN:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)

    def chosen(self) -> tuple[RolloutRecord, ...]:
        """Return the choice, by split in their fixed order, then step, paper and sample."""
        queues = [sorted(self.kinds[kind], reverse=True) for kind in sorted(self.kinds)]
        turns = (one[2] for turn in zip_longest(*queues) for one in turn if one is not None)
        order = {split.value: place for place, split in enumerate(Split)}
        last = len(order)
        return tuple(
            sorted(islice(turns, SHOWN), key=lambda r: (order.get(r.split, last), r.step, r.prompt_id, r.sample))
        )
