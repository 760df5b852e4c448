"""Some prompts of the examinations with the first and the last response, and what the judge said of each rubric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.reports.rubric_gathering import Examination, RubricRun
from tinsmith.runs.rubric_records import RubricRollout

SHOWN: Final = 6
"""Prompts, if there are as many."""
_LONGEST: Final = 3000
_LONGEST_RATIONALE: Final = 500


@dataclass(frozen=True, slots=True)
class Said:
    """A rubric, whether it holds, and why."""

    criterion: str
    passed: bool
    rationale: str
    """Empty where it only repeats the criterion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response with its verdicts."""

    title: str
    text: str
    held: int
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One prompt; `gain` is that of the mean over its sampled responses."""

    prompt_id: str
    prompt: str
    """Empty where the run did not write it down."""
    first: float
    last: float
    responses: tuple[Response, ...]


def examples(run: RubricRun) -> tuple[Example, ...]:
    """Return prompts that gained most, least, and in the middle; the first sampled response of each examination."""
    if not run.sampled:
        return ()
    first, last = run.sampled[0], run.sampled[-1]
    before, after = first.by_prompt, last.by_prompt
    ranked = sorted(
        before.keys() & after.keys(), key=lambda prompt: (before[prompt] - after[prompt], prompt)
    )
    return tuple(_example(run, prompt, first, last) for prompt in _chosen(ranked))


def _chosen(ranked: list[str]) -> list[str]:
    if len(ranked) <= SHOWN:
        return ranked
    third = SHOWN // 3
    middle = (len(ranked) - third) // 2
    return [*ranked[:third], *ranked[middle : middle + third], *ranked[-third:]]


def _example(run: RubricRun, prompt: str, first: Examination, last: Examination) -> Example:
    task = run.tasks.get(prompt)
    asked = (first, last) if first is not last else (last,)
    return Example(
        prompt_id=prompt,
        prompt=_cut(task.prompt, _LONGEST) if task else "",
        first=float(first.by_prompt[prompt]),
        last=float(last.by_prompt[prompt]),
        responses=tuple(_response(run, one.shown[prompt], one.step) for one in asked),
    )


def _response(run: RubricRun, one: RubricRollout, step: int) -> Response:
    said = tuple(
        Said(
            run.criterion((one.prompt_id, place)),
            verdict.passed,
            _reason(verdict.rationale, run.criterion((one.prompt_id, place))),
        )
        for place, verdict in enumerate(one.verdicts)
    )
    return Response(
        title=f"Step {step:,}",
        text=_cut(one.text, _LONGEST),
        held=sum(each.passed for each in said),
        said=said,
    )


def _reason(rationale: str, criterion: str) -> str:
    """Leave out what a judge by rules says: the rule once more."""
    rule = criterion.removeprefix("rule: ")
    if rationale in (f"holds: {rule}", f"fails: {rule}"):
        return ""
    return _cut(rationale, _LONGEST_RATIONALE)


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]} [cut]"
