"""Scores of judged responses to a rubric task, by the weights or the tree that its data give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinsmith.lab.judge.rules.rule_text import RuleJudge
from tinsmith.lab.judge.verdicts import Judged, Spent, Verdict
from tinsmith.studies.rubrics.task import RubricTask


class Reading(NamedTuple):
    """A judged response: its score in [0, 1], and the verdicts that the score follows from."""

    score: float
    verdicts: tuple[Verdict, ...]


def judged_by_rules(task: RubricTask, responses: Sequence[str]) -> tuple[Reading, ...]:
    """Judge responses by the task's rules, in their order.

    Raises:
        DataError: a criterion is prose.
    """
    judge = RuleJudge(task.criteria)
    return tuple(
        _read(task, Judged(verdicts=judge.judge(response), spent=Spent(), from_cache=False)) for response in responses
    )


def _read(task: RubricTask, judged: Judged) -> Reading:
    """Return a judged response with its score, in which a negative weight lowers what others gave."""
    return Reading(task.score([verdict.passed for verdict in judged.verdicts]), judged.verdicts)
