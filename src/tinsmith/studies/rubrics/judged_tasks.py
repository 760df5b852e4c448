"""Tasks with rubrics as a subject: one instruction, one response, and a judge who says which rubrics it fulfils.

All responses of a step are judged together. What the judge cannot be asked about is a failure with its cause and no
reward; where it fails on every response of a step, the run stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinsmith.lab.environment import OneReply
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.tree import pass_rate
from tinsmith.lab.judge.verdicts import Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.rollout_metrics import Line
from tinsmith.lab.rollouts import Failure, Rollout, Trajectory, Unread
from tinsmith.lab.subject import NamedTerms, Split, Subject
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.studies.rubrics.rule_judge import RubricJudge
from tinsmith.studies.rubrics.splitting import RubricSplit
from tinsmith.studies.rubrics.task import RubricTask

JUDGE = "judge"
"""Where a failure took place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge found in a response."""

    verdicts: tuple[Verdict, ...]
    """One a rubric, in order."""
    score: float
    """The task's, by its tree or its weights: the pass rate where weights are equal."""

    @property
    def pass_rate(self) -> float:
        """The share of rubrics that hold."""
        return pass_rate([verdict.passed for verdict in self.verdicts])


RubricRollout = Rollout[RubricTask, Judgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the judge was asked for in one go, and what it took."""

    judged: int
    failed: int
    from_cache: int
    spent: Spent


@dataclass(slots=True, kw_only=True)
class JudgedTasks(Subject[RubricTask, Judgement]):
    """See Subject; its methods are described there."""

    split: RubricSplit
    renderer: Renderer
    judge: RubricJudge
    paid: Callable[[Asked], None]
    """Is told of every asking."""
    _prompts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def items(self, split: Split) -> Sequence[RubricTask]:
        """Return those to train on, or those held out, which are those to train on where none are; no test."""
        if split is Split.VALIDATION:
            return self.split.test or self.split.train
        return self.split.train if split is Split.TRAIN else ()

    def stop(self) -> Sequence[int]:
        """See Subject."""
        return self.renderer.stop_sequences()

    def environments(self, item: RubricTask, count: int, seed: int) -> Sequence[OneReply]:
        """See Subject; nothing is drawn."""
        del seed
        if item.task_id not in self._prompts:
            asked = Message(role=Role.USER, content=item.prompt)
            self._prompts[item.task_id] = self.renderer.build_generation_prompt((asked,))
        return [OneReply(self._prompts[item.task_id])] * count

    def text(self, tokens: Sequence[int]) -> str:
        """See Subject."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[RubricTask]]) -> list[Judgement | Unread]:
        """Have every response judged.

        Raises:
            JudgeError: the judge failed on every one of them.
        """
        found = self.judge.judge_all(
            [JudgeRequest(task=one.item.prompt, response=one.text, criteria=one.item.criteria) for one in trajectories]
        )
        failures = [one for one in found if isinstance(one, JudgeFailure)]
        self.paid(
            Asked(
                judged=len(found) - len(failures),
                failed=len(failures),
                from_cache=sum(isinstance(one, Judged) and one.from_cache for one in found),
                spent=sum((one.spent for one in found), Spent()),
            )
        )
        if found and len(failures) == len(found):
            raise failures[0].error()
        return [_read(one.item, judged) for one, judged in zip(trajectories, found, strict=True)]

    def score(self, rollouts: Sequence[RubricRollout]) -> list[NamedTerms]:
        """Return the task's score of each response; from 0 to 1."""
        scores = [one.answer.score for one in rollouts]
        return [NamedTerms(values={"rubric": one}, total=one) for one in scores]

    def figures(self, groups: Sequence[Sequence[RubricRollout | Failure[RubricTask]]], split: str) -> dict[str, float]:
        """See Subject; a task with several responses counts once in the pass rate and the score."""
        by_task = [[one for one in group if isinstance(one, Rollout)] for group in groups]
        kept = [one for group in by_task for one in group]
        answers = [[one.answer for one in group] for group in by_task if group]
        failures = [one for group in groups for one in group if isinstance(one, Failure)]
        found = {
            "pass_rate": _mean([_mean([one.pass_rate for one in each]) for each in answers]),
            "score": _mean([_mean([one.score for one in each]) for each in answers]),
            "all_passed": _mean([float(one.answer.pass_rate == 1.0) for one in kept]),
            "tokens/answer": _mean([float(len(one.tokens)) for one in kept]),
            "distinct_texts": len({one.text for one in kept}) / len(kept),
            "judge_failed": _judge_failed(failures, len(kept) + len(failures)),
        }
        return {f"{split}/{name}": value for name, value in found.items()}

    def train_figures(self, groups: Sequence[ScoredGroup[RubricTask, Judgement]]) -> dict[str, float]:
        """See Subject."""
        failures = [one for group in groups for one in group.failures]
        answers = [one.rollout.answer for group in groups for one in group.scored]
        found = {"train/judge_failed": _judge_failed(failures, len(answers) + len(failures))}
        if answers:
            found["train/pass_rate"] = _mean([one.pass_rate for one in answers])
        return found

    def facts(self, rollout: RubricRollout) -> Line:
        """See Subject."""
        verdicts = rollout.answer.verdicts
        return {
            "pass_rate": rollout.answer.pass_rate,
            "verdicts": [{"passed": one.passed, "rationale": one.rationale} for one in verdicts],
        }

    def close(self) -> None:
        """Let go of the judge."""
        self.judge.close()


def _read(task: RubricTask, judged: Judged | JudgeFailure) -> Judgement | Unread:
    if isinstance(judged, JudgeFailure):
        return Unread(JUDGE, f"{judged.cause}: {judged.detail}")
    passed = [verdict.passed for verdict in judged.verdicts]
    return Judgement(verdicts=judged.verdicts, score=task.score(passed))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _judge_failed(failures: Sequence[Failure[RubricTask]], total: int) -> float:
    return sum(one.where == JUDGE for one in failures) / total if total else 0.0
