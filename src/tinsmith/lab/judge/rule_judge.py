"""Who judges responses by rubrics, as a training run needs it: many at once, without an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.rules.rule_text import RuleJudge
from tinsmith.lab.judge.verdicts import Judged, JudgeFailure, Spent


class Judge(Protocol):
    """A judge; `BlockingJudge` is one, `RulesOnly` another."""

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; results in the order of the requests."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


class RulesOnly:
    """Judges by rules alone: no model, no key, no network, and nothing that a response says can sway it."""

    def __init__(self) -> None:
        self._judges: dict[tuple[str, ...], RuleJudge] = {}

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; nothing fails and nothing is spent."""
        return [self._judge(request) for request in requests]

    def _judge(self, request: JudgeRequest) -> Judged:
        judge = self._judges.get(request.criteria)
        if judge is None:
            judge = self._judges[request.criteria] = RuleJudge(request.criteria)
        verdicts = judge.judge(request.response)
        return Judged(verdicts=verdicts, spent=Spent(), from_cache=False)

    def close(self) -> None:
        """Do nothing: rules hold no connection."""
