"""The page of a run on rubrics: what held-out prompts gained first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.run_details import run_document
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import (
    Block,
    Document,
    Example,
    Judgement,
    Pairs,
    Plates,
    Reply,
    Section,
    Verbatim,
    Words,
    kept,
    missing,
    note,
)
from tinsmith.pages.wording import counted
from tinsmith.studies.rubrics.pages.gains import best_constant, gains_of, gains_table
from tinsmith.studies.rubrics.pages.gathering import Examination, RubricRun, read_rubric_run
from tinsmith.studies.rubrics.pages.story import (
    cannot_be_said,
    cost_table,
    cost_words,
    failed_words,
    rubric_story,
)
from tinsmith.studies.rubrics.pages.tables import (
    examinations_table,
    moved_tables,
    rubric_plates,
    stuck,
)
from tinsmith.studies.rubrics.records import RubricRollout


def rubric_document(run: Run) -> Document:
    """Return the page of a run on rubrics; the same folder, the same bytes."""
    return _page(read_rubric_run(run.folder, run))


def _page(read: RubricRun) -> Document:
    run, constant = read.run, best_constant(read)
    gains = gains_of(read, constant)
    gained = gains_table(gains) or missing("Missing: it takes two examinations.")
    return run_document(
        run,
        kind="Report of one run on rubrics",
        facts=_facts(read),
        story=rubric_story(read, gains, constant),
        limits=cannot_be_said(read, gains),
        notes=read.notes,
        sections=(
            Section("gains", "Gains", kept(gained, examinations_table(read))),
            Section("steps", "Over the steps", [Plates(rubric_plates(read, constant))]),
            Section("rubrics", "Rubrics", _rubrics(read)),
            Section("examples", "Examples", _examples(read)),
            Section(
                "cost",
                "Cost and failures",
                (cost_table(read), failures_table(read.failures) or Words("No rollout failed.")),
            ),
        ),
    )


def _rubrics(read: RubricRun) -> tuple[Block, ...]:
    moved = moved_tables(read) or [missing("No criterion moved between two examinations.")]
    return *moved, *stuck(read)


def _examples(read: RubricRun) -> tuple[Block, ...]:
    found = examples(read)
    if not found:
        return (missing("Missing: no prompt was examined."),)
    chosen = note(
        "Examined prompts that gained most, in the middle, and least, by the mean of their sampled responses; of each "
        "the first sampled response, at the first and the last examination."
    )
    return chosen, *found


def _facts(read: RubricRun) -> Pairs:
    return (
        ("Model", read.run.config.model_name or "not stated"),
        ("Judge", read.judge),
        ("Judging cost", cost_words(read)),
        ("Without verdicts", failed_words(read)),
        ("Tasks", tasks_words(read.run)),
    )


def tasks_words(run: Run) -> str:
    """Say how many tasks there are, on which side, with how many rubrics."""
    data = run.config.data
    sides = [
        f"{count:,} {side}"
        for count, side in ((data.train, "for training"), (data.test, "held out"))
        if count is not None
    ]
    if data.rubrics is not None:
        sides.append(counted(data.rubrics, "rubric"))
    return ", ".join(sides) or "not stated"


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
