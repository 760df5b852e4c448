"""A judge that answers from a run's record: whoever checks the run computes the rest again, and asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import CriteriaRecord, VerdictRecord
from tinsmith.lab.judge.verdicts import FailureCause, Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.runs.files import ROLLOUTS, TASKS

_UNKNOWN: Final = "the record has no verdict on this response"


class _Failed(msgspec.Struct, frozen=True):
    where: str = ""
    what: str = ""


class _Line(msgspec.Struct, frozen=True):
    """A response and its verdicts, as a line of rollouts has them."""

    prompt_id: str = ""
    text: str = ""
    verdicts: tuple[VerdictRecord, ...] | None = None
    failure: _Failed | None = None


class RecordedJudge:
    """Verdicts by criteria and response; a response that the record lacks fulfils none, and so shows as a difference.

    A response on which the judge failed then stands in no record: one to the same criteria fails for the same cause.
    """

    def __init__(self, folder: Path) -> None:
        """Read the record of a run's folder."""
        tasks = map(msgspec.json.Decoder(CriteriaRecord).decode, (folder / TASKS).read_bytes().splitlines())
        criteria = {one.task_id: one.criteria for one in tasks}
        self._said: dict[tuple[tuple[str, ...], str], tuple[Verdict, ...]] = {}
        self._failed: dict[tuple[str, ...], JudgeFailure] = {}
        with (folder / ROLLOUTS).open("rb") as lines:
            for line in map(msgspec.json.Decoder(_Line).decode, lines):
                asked = criteria.get(line.prompt_id, ())
                if line.verdicts is not None:
                    found = tuple(Verdict(one.passed, one.rationale) for one in line.verdicts)
                    self._said.setdefault((asked, line.text), found)
                elif line.failure is not None and line.failure.where == "judge":
                    cause, _, detail = line.failure.what.partition(": ")
                    failure = JudgeFailure(cause=FailureCause(cause), detail=detail, spent=Spent())
                    self._failed.setdefault(asked, failure)

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Return what the record says of each."""
        return [self._found(one) for one in requests]

    def _found(self, request: JudgeRequest) -> Judged | JudgeFailure:
        known = self._said.get((request.criteria, request.response))
        if known is None and request.criteria in self._failed:
            return self._failed[request.criteria]
        verdicts = known or tuple(Verdict(False, _UNKNOWN) for _ in request.criteria)
        return Judged(verdicts=verdicts, spent=Spent(), from_cache=True)

    def close(self) -> None:
        """Do nothing: nothing is held open."""
