"""Items as a model answered them, before and after training, with what the answers earned and a judge's verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinsmith.lab.user_task.records import Judging, TaskRollout, TaskRunRecords, TurnRecord, rule_in
from tinsmith.pages.document import Block, Example, Judgement, Reply, Verbatim, missing, note

SHOWN: Final = 6
"""Items with their answers, if there are as many."""
_LONGEST, _LONGEST_RATIONALE = 3000, 500


def examples(read: TaskRunRecords) -> Sequence[Block]:
    """Return items that gained most, least, and in the middle, with the first answer of both evaluations."""
    if not read.sampled:
        return [missing("Missing: nothing was evaluated.")]
    first, last = read.sampled[0], read.sampled[-1]
    before, after = first.by_item(), last.by_item()
    ranked = sorted(before.keys() & after.keys(), key=lambda item: (before[item] - after[item], item))
    if len(ranked) > SHOWN:
        third = SHOWN // 3
        middle = (len(ranked) - third) // 2
        ranked = [*ranked[:third], *ranked[middle : middle + third], *ranked[-third:]]
    prompts = {one.id: one.prompt for one in read.task.items}
    exams = (first, last) if first is not last else (last,)
    chosen = note(
        "Evaluated items that gained most, in the middle, and least, by the mean of their sampled answers; of each the "
        "first sampled answer, at the first and the last evaluation."
    )
    return [
        chosen,
        *(
            Example(
                f"{item}: {float(before[item]):.3f} to {float(after[item]):.3f}",
                [prompt_block(prompts.get(item, ""))],
                [
                    reply
                    for one in exams
                    for reply in shown_replies(one.shown[item], f"Step {one.step:,}", read.judging)
                ],
            )
            for item in ranked
        ),
    ]


def prompt_block(words: str) -> Block:
    """Return a prompt as it was asked."""
    return Verbatim(cut(words)) if words else missing("The prompt is not in the run's folder.")


def shown_replies(one: TaskRollout, title: str, judging: Judging | None = None) -> list[Reply]:
    """Return the turns of one answer under a title, what it earned above the first."""
    turns = one.turns or (TurnRecord(role="assistant", text=one.text),)
    judged = _judgements(one, judging)
    return [
        Reply(
            title=title if turn.role == "assistant" else "The task says",
            text=cut(turn.text),
            remark=_earned(one) if place == 0 else "",
            judgements=judged if place == len(turns) - 1 else (),
        )
        for place, turn in enumerate(turns)
    ]


def _earned(one: TaskRollout) -> str:
    if one.verdicts:
        return f"{sum(each.passed for each in one.verdicts)} of {len(one.verdicts)} criteria hold"
    terms = one.terms if len(one.terms) > 1 else {}
    apart = f" ({', '.join(f'{name} {value:g}' for name, value in terms.items())})" if terms else ""
    return f"reward {one.total:g}{apart}"


def _judgements(one: TaskRollout, judging: Judging | None) -> tuple[Judgement, ...]:
    found: list[Judgement] = []
    for place, verdict in enumerate(one.verdicts if judging else ()):
        assert judging is not None
        criterion = judging.criterion((one.prompt_id, place))
        # The reason of a judge by rules is the rule once more.
        why = "" if rule_in(verdict.rationale) == criterion.removeprefix("rule: ") else verdict.rationale
        found.append(Judgement(criterion, verdict.passed, cut(why, _LONGEST_RATIONALE)))
    return tuple(found)


def cut(words: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text that is too long for a page."""
    return words if len(words) <= longest else f"{words[:longest]} [cut]"
