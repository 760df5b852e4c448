"""Some prompts of the examinations with the first and the last response, and what the judge said of each rubric."""

from __future__ import annotations

from typing import Final

from tinsmith.pages.document import Example, Judgement, Reply, Verbatim, missing
from tinsmith.studies.rubrics.pages.gathering import Examination, RubricRun
from tinsmith.studies.rubrics.records import RubricRollout

SHOWN: Final = 6
"""Prompts, if there are as many."""
_LONGEST: Final = 3000
_LONGEST_RATIONALE: Final = 500


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
    before, after = float(first.by_prompt[prompt]), float(last.by_prompt[prompt])
    told = missing("The prompt is not in the run's folder.")
    return Example(
        f"{prompt}: {before:.3f} to {after:.3f}",
        [Verbatim(_cut(task.prompt, _LONGEST)) if task and task.prompt else told],
        [_reply(run, one.shown[prompt], one.step) for one in asked],
    )


def _reply(run: RubricRun, one: RubricRollout, step: int) -> Reply:
    judged: list[Judgement] = []
    for place, verdict in enumerate(one.verdicts):
        criterion = run.criterion((one.prompt_id, place))
        judged.append(Judgement(criterion, verdict.passed, _reason(verdict.rationale, criterion)))
    held = sum(each.passed for each in judged)
    return Reply(
        title=f"Step {step:,}",
        text=_cut(one.text, _LONGEST),
        remark=f"{held} of {len(judged)} rubrics hold",
        judgements=tuple(judged),
    )


def _reason(rationale: str, criterion: str) -> str:
    """Return why; leave out what a judge by rules says: the rule once more."""
    rule = criterion.removeprefix("rule: ")
    if rationale in (f"holds: {rule}", f"fails: {rule}"):
        return ""
    return _cut(rationale, _LONGEST_RATIONALE)


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]} [cut]"
