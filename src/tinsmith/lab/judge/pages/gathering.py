"""Goes through the rollouts of a run on rubrics once: pass rates by prompt, verdicts by criterion, what is missing.

The unit of every statistic is the prompt: the responses to one prompt are averaged before anything else is done.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from tinsmith.lab.judge.records import JUDGE, LedgerRecord, RubricRollout, TaskRecord
from tinsmith.lab.results.gathering import Cause
from tinsmith.lab.runs.files import LEDGER, ROLLOUTS, TASKS
from tinsmith.lab.runs.reader import json_lines, read_run
from tinsmith.lab.runs.records import FailureRecord, Run, Split

Place = tuple[str, int]
"""A prompt, and the place of one of its rubrics."""


@dataclass(slots=True)
class Tally:
    """How often something held."""

    held: int = 0
    n: int = 0

    def add(self, held: int, n: int = 1) -> None:
        """Count verdicts."""
        self.held += held
        self.n += n

    @property
    def share(self) -> Fraction:
        """The share that held, of one or more."""
        return Fraction(self.held, self.n)


@dataclass(slots=True)
class Examination:
    """What one examination found: at one step, sampled or greedy."""

    step: int
    rates: dict[str, list[Fraction]] = field(default_factory=dict[str, list[Fraction]])
    """The pass rate of every response, by prompt."""
    places: dict[Place, Tally] = field(default_factory=dict[Place, Tally])
    shown: dict[str, RubricRollout] = field(default_factory=dict[str, RubricRollout])
    """The first response to each prompt."""
    texts: set[str] = field(default_factory=set[str])
    all_passed: int = 0

    @property
    def responses(self) -> int:
        """Responses with verdicts."""
        return sum(map(len, self.rates.values()))

    @property
    def distinct(self) -> float:
        """The share of its texts that differ."""
        return len(self.texts) / self.responses

    @property
    def by_prompt(self) -> dict[str, Fraction]:
        """The mean pass rate of each prompt."""
        return {prompt: sum(rates, Fraction()) / len(rates) for prompt, rates in sorted(self.rates.items())}

    @property
    def mean(self) -> float:
        """The mean over prompts."""
        means = self.by_prompt.values()
        return float(sum(means, Fraction()) / len(means))

    def take(self, one: RubricRollout, rate: Fraction) -> None:
        """Count one response."""
        self.rates.setdefault(one.prompt_id, []).append(rate)
        self.shown.setdefault(one.prompt_id, one)
        self.texts.add(one.text)
        self.all_passed += rate == 1


@dataclass(slots=True)
class Trained:
    """What the training rollouts come to."""

    groups: dict[tuple[int, str], list[float]] = field(default_factory=dict[tuple[int, str], list[float]])
    """The rewards of each group that were given, by step and prompt."""
    places: dict[Place, Tally] = field(default_factory=dict[Place, Tally])
    responses: int = 0
    failed: int = 0

    @property
    def too_few(self) -> int:
        """Groups with fewer than two rewards, dropped whole."""
        return sum(len(rewards) < 2 for rewards in self.groups.values())

    @property
    def alike(self) -> int:
        """Groups whose rewards are all the same: nothing is learned from them."""
        return sum(len(set(rewards)) == 1 < len(rewards) for rewards in self.groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricRun:
    """A run on rubrics and all that its page needs."""

    run: Run
    tasks: Mapping[str, TaskRecord]
    """By id; empty in a run that did not write them down."""
    ledger: LedgerRecord
    """The sum of every asking. `dollars` is None where one has no known price."""
    sampled: tuple[Examination, ...]
    """By step."""
    greedy: tuple[Examination, ...]
    trained: Trained
    failures: Mapping[Cause, int]
    texts: Mapping[str, int]
    """How often each text was written."""
    criteria: Mapping[Place, str]
    """The text of each rubric that has a verdict, as far as it is known."""
    notes: tuple[str, ...]

    @property
    def judge(self) -> str:
        """Who judged."""
        return str((self.run.config.reward or {}).get("judge", "")) or "not stated"

    @property
    def held_out(self) -> bool:
        """Whether the prompts of the examinations are not trained on."""
        return self.run.config.data.test != 0

    @property
    def built_in(self) -> bool:
        """Whether the tasks are the built-in ones; False where that is not known."""
        manifest = self.run.manifest
        return manifest is not None and manifest.circumstances.get("data_path", "") is None

    def criterion(self, place: Place) -> str:
        """Return what a rubric says."""
        return self.criteria.get(place) or f"rubric {place[1] + 1} of {place[0]}"


def read_rubric_run(folder: Path, run: Run | None = None) -> RubricRun:
    """Read everything of a run on rubrics."""
    run = run or read_run(folder)
    notes = list(run.notes)
    tasks = {task.task_id: task for task in json_lines(folder / TASKS, TaskRecord, notes)}
    ledger = _summed(list(json_lines(folder / LEDGER, LedgerRecord, notes)))
    exams: dict[tuple[str, int], Examination] = {}
    trained, failures, texts = Trained(), Counter[Cause](), Counter[str]()
    criteria = {
        (task.task_id, place): criterion for task in tasks.values() for place, criterion in enumerate(task.criteria)
    }
    for one in json_lines(folder / ROLLOUTS, RubricRollout, notes):
        training = one.split == Split.TRAIN
        if training:
            trained.groups.setdefault((one.step, one.prompt_id), [])
            trained.responses += 1
        if one.failure is not None or not one.verdicts:
            cause = one.failure or FailureRecord(where=JUDGE, what="no verdicts")
            failures[Cause(one.split, cause.where, cause.what)] += 1
            trained.failed += training
            continue
        texts[one.text] += 1
        rate = Fraction(sum(each.passed for each in one.verdicts), len(one.verdicts))
        if training:
            rewards = trained.groups[one.step, one.prompt_id]
            rewards.append(float(rate) if one.total is None else one.total)
            places = trained.places
        else:
            exam = exams.setdefault((one.split, one.step), Examination(one.step))
            exam.take(one, rate)
            places = exam.places
        for place, verdict in enumerate(one.verdicts):
            at = (one.prompt_id, place)
            places.setdefault(at, Tally()).add(verdict.passed)
            if at not in criteria and (rule := rule_in(verdict.rationale)):
                criteria[at] = rule

    def of(split: Split) -> tuple[Examination, ...]:
        return tuple(exam for (name, _), exam in sorted(exams.items()) if name == split)

    return RubricRun(
        run=run,
        tasks=tasks,
        ledger=ledger,
        sampled=of(Split.EVAL),
        greedy=of(Split.EVAL_GREEDY),
        trained=trained,
        failures=dict(sorted(failures.items())),
        texts=texts,
        criteria=criteria,
        notes=tuple(notes),
    )


def rule_in(rationale: str) -> str:
    """Return the rule that a judge by rules tells of; empty where it is a model's reasoning."""
    verdict, _, rule = rationale.partition(": ")
    return rule if verdict in ("holds", "fails") else ""


def _summed(lines: Sequence[LedgerRecord]) -> LedgerRecord:
    counts = ("judged", "failed", "from_cache", "calls", "prompt_tokens", "completion_tokens")
    # Answers from the cache alone cost nothing, whatever the judge's price.
    dollars = [line.dollars if line.calls else 0.0 for line in lines]
    known = [each for each in dollars if each is not None]
    return LedgerRecord(
        **{name: sum(getattr(line, name) for line in lines) for name in counts},
        estimated=any(line.estimated for line in lines),
        dollars=sum(known) if len(known) == len(dollars) else None,
    )


def by_criterion(run: RubricRun, places: Mapping[Place, Tally]) -> dict[str, list[Fraction]]:
    """Return the shares of each criterion, one a prompt that has it."""
    found: defaultdict[str, list[Fraction]] = defaultdict(list)
    for place, tally in sorted(places.items()):
        found[run.criterion(place)].append(tally.share)
    return dict(found)
