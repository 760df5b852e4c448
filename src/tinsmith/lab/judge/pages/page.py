"""The page of a run on rubrics: what held-out prompts gained first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.judge.pages.gains import best_constant, gains_of, gains_table
from tinsmith.lab.judge.pages.gathering import RubricRun, read_rubric_run, rule_in
from tinsmith.lab.judge.pages.story import cannot_be_said, cost_table, cost_words, failed_words, rubric_story
from tinsmith.lab.judge.pages.tables import examinations_table, moved_tables, rubric_plates, stuck
from tinsmith.lab.judge.records import RubricRollout
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
            Section("examples", "Examples", examples(read)),
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


def examples(run: RubricRun) -> tuple[Block, ...]:
    """Return prompts that gained most, least, and in the middle; the first sampled response of each examination."""
    if not run.sampled:
        return (missing("Missing: no prompt was examined."),)
    first, last = run.sampled[0], run.sampled[-1]
    before, after = first.by_prompt, last.by_prompt
    ranked = sorted(before.keys() & after.keys(), key=lambda one: (before[one] - after[one], one))
    if len(ranked) > SHOWN:
        third = SHOWN // 3
        middle = (len(ranked) - third) // 2
        ranked = [*ranked[:third], *ranked[middle : middle + third], *ranked[-third:]]
    if not ranked:
        return (missing("Missing: no prompt was examined."),)
    chosen = note(
        "Examined prompts that gained most, in the middle, and least, by the mean of their sampled responses; of each "
        "the first sampled response, at the first and the last examination."
    )
    exams = (first, last) if first is not last else (last,)
    return chosen, *(
        Example(
            f"{prompt}: {float(before[prompt]):.3f} to {float(after[prompt]):.3f}",
            [_prompt(run, prompt)],
            [_reply(run, one.shown[prompt], one.step) for one in exams],
        )
        for prompt in ranked
    )


def _prompt(run: RubricRun, prompt: str) -> Block:
    words = run.tasks[prompt].prompt if prompt in run.tasks else ""
    return Verbatim(_cut(words)) if words else missing("The prompt is not in the run's folder.")


def _reply(run: RubricRun, one: RubricRollout, step: int) -> Reply:
    judged: list[Judgement] = []
    for place, verdict in enumerate(one.verdicts):
        criterion = run.criterion((one.prompt_id, place))
        # What a judge by rules says is the rule once more.
        why = "" if rule_in(verdict.rationale) == criterion.removeprefix("rule: ") else verdict.rationale
        judged.append(Judgement(criterion, verdict.passed, _cut(why, _LONGEST_RATIONALE)))
    held = sum(each.passed for each in judged)
    return Reply(
        title=f"Step {step:,}",
        text=_cut(one.text),
        remark=f"{held} of {len(judged)} rubrics hold",
        judgements=tuple(judged),
    )


def _cut(words: str, longest: int = _LONGEST) -> str:
    return words if len(words) <= longest else f"{words[:longest]} [cut]"
