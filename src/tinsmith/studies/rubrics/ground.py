"""Where rubric rollouts take place: one instruction, one response, and a judge who says which rubrics it fulfils.

All responses of a step are judged together. What the judge cannot be asked about is a failure with its cause and no
reward; where it fails on every response of a step, the run stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinsmith.lab.environment import OneReply
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.tree import evaluate, pass_rate
from tinsmith.lab.judge.verdicts import Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.rollouts import Rollout, Trajectory, Unread
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.studies.rubrics.rule_judge import RubricJudge
from tinsmith.studies.rubrics.task import RubricTask

JUDGE = "judge"
"""Where a failure took place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge found in a response."""

    verdicts: tuple[Verdict, ...]
    """One a rubric, in order."""
    score: float
    """The tree's score where the data give one, else the pass rate."""

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
class RubricGround:
    """See Ground; its methods are described there."""

    renderer: Renderer
    judge: RubricJudge
    paid: Callable[[Asked], None]
    """Is told of every asking."""
    _prompts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def stop(self) -> Sequence[int]:
        """See Ground."""
        return self.renderer.stop_sequences()

    def environments(self, item: RubricTask, count: int, seed: int) -> Sequence[OneReply]:
        """See Ground; nothing is drawn."""
        del seed
        if item.task_id not in self._prompts:
            asked = Message(role=Role.USER, content=item.prompt)
            self._prompts[item.task_id] = self.renderer.build_generation_prompt((asked,))
        return [OneReply(self._prompts[item.task_id])] * count

    def text(self, tokens: Sequence[int]) -> str:
        """See Ground."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[RubricTask]]) -> list[Judgement | Unread]:
        """Have every response judged.

        Raises:
            JudgeError: the judge failed on every one of them.
        """
        found = self.judge.judge_all(
            [
                JudgeRequest(
                    task=one.item.prompt, response=one.turns[-1].text, criteria=one.item.criteria
                )
                for one in trajectories
            ]
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


def _read(task: RubricTask, judged: Judged | JudgeFailure) -> Judgement | Unread:
    if isinstance(judged, JudgeFailure):
        return Unread(JUDGE, f"{judged.cause}: {judged.detail}")
    passed = [verdict.passed for verdict in judged.verdicts]
    score = pass_rate(passed) if task.tree is None else evaluate(task.tree, passed).score
    return Judgement(verdicts=judged.verdicts, score=score)
