"""Held-out items of a run on a task, as the model answered them before and after training, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tinsmith.lab.page.examples import cut, earned_words
from tinsmith.lab.runs.reader import Examination, Judging, TaskRunRecords, rule_in
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.pages.choice import choice_words, in_turn
from tinsmith.pages.document import Block, Browser, missing
from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import RIGHT, WRONG, Cell, Table, TableRow, absent, column, figure, text
from tinsmith.pages.wording import signed
from tinsmith.types.seeds import derive

SHOWN: Final = 200
"""Most items on a page."""
_LONGEST: Final = 1500
"""Characters of a text; what is longer is cut."""
_TONES: Final = {"better": RIGHT, "worse": WRONG, "failed": WRONG}


def answers(read: TaskRunRecords) -> Block:
    """Return evaluated items with their answers: of the first evaluation beside the last where there are two."""
    if not read.sampled:
        return missing("Missing: nothing was evaluated.")
    exams = (read.sampled[0], read.sampled[-1]) if len(read.sampled) > 1 else read.sampled
    scores = [one.by_item() for one in exams]
    items = set[str].intersection(*({*one.shown, *one.failed} for one in exams))
    kinds: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda name: (derive(0, "shown", name), name)):
        kinds.setdefault(_result([one.get(item) for one in scores]), []).append(item)
    shown = sorted(in_turn([kinds[kind] for kind in sorted(kinds)], SHOWN))
    moved = len(exams) > 1
    titles = ("Before", "After") if moved else ("Answer",)
    heads = [cell for title, exam in zip(titles, exams, strict=True) for cell in _heads(title, exam, read.score)]
    prompts = {one.id: one.prompt for one in read.task.items}
    rows: list[TableRow] = []
    for item in shown:
        prompt = prompts.get(item, "")
        cells = [Cell(text=cut(prompt, _LONGEST), verbatim=True) if prompt else absent("not in the run's folder")]
        for exam, score in zip(exams, scores, strict=True):
            cells += _answered(exam, item, score.get(item), read.judging)
        rows.append(TableRow(name=text(item), cells=(*cells, *([_change(item, scores)] if moved else []))))
    caption = (
        f"{choice_words(len(shown), len(items), 'evaluated item', 'result')} Of each the first sampled answer; its "
        f"{read.score} is the mean of all its sampled answers."
    )
    table = Table(
        caption=caption,
        heads=(text("Item"), text("Prompt"), *heads, *([text("Result")] if moved else [])),
        rows=tuple(rows),
    )
    return Browser(table, ("Result",) if moved else ())


def _heads(title: str, exam: Examination, score: str) -> tuple[Cell, Cell]:
    return text(title, f"step {exam.step:,}"), column(score, title.lower())


def _result(scores: Sequence[Fraction | None]) -> str:
    first, last = scores[0], scores[-1]
    if first is None or last is None:
        return "failed"
    return "better" if last > first else "worse" if last < first else "same"


def _change(item: str, scores: Sequence[dict[str, Fraction]]) -> Cell:
    ends = [one.get(item) for one in scores]
    result, known = _result(ends), [float(one) for one in ends if one is not None]
    under = signed(known[-1] - known[0]) if result in ("better", "worse") else ""
    return Cell(text=result, under=under, tone=_TONES.get(result, ""))


def _answered(exam: Examination, item: str, score: Fraction | None, judging: Judging | None) -> tuple[Cell, Cell]:
    """Return an answer, with a judge's verdicts below it, and what it earned."""
    if score is None:
        why = exam.failed[item]
        return Cell(text=cut(f"{why.where}: {why.what}", _LONGEST), missing=True), absent("failed")
    one, mean = exam.shown[item], float(score)
    more = [earned_words(one), *_verdicts(one, judging)]
    return Cell(text=_written(one), under="\n".join(more), verbatim=True), figure(f"{mean:.3f}", Measure(mean))


def _written(one: TaskRollout) -> str:
    """Return the turns of an answer."""
    turns = [turn.text if turn.role == "assistant" else f"The task says: {turn.text}" for turn in one.turns]
    return cut("\n\n".join(turns or [one.text]), _LONGEST) or "(empty text)"


def _verdicts(one: TaskRollout, judging: Judging | None) -> list[str]:
    found: list[str] = []
    for place, verdict in enumerate(one.verdicts if judging else ()):
        assert judging is not None
        criterion = judging.criterion((one.prompt_id, place))
        # The reason of a judge by rules is the rule once more.
        why = "" if rule_in(verdict.rationale) == criterion.removeprefix("rule: ") else verdict.rationale
        found.append(f"{'holds' if verdict.passed else 'fails'}: {criterion} {cut(why, _LONGEST // 3)}".rstrip())
    return found
