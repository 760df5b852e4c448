"""Example answers with rewards, a judge's criteria and costs, and the best single text for all items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import compress
from typing import Final

import msgspec

from tinsmith.lab.judge.prompting import shown
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.rules import RuleJudge
from tinsmith.lab.runs.reader import BaselineRecord, Examination, Judging, Places, TaskRunRecords, rule_in
from tinsmith.lab.runs.records import PASS_RATE, TaskRollout, TurnRecord
from tinsmith.pages.document import Block, Browser, Bullets, Fold, Reply, Tone, Words, missing
from tinsmith.pages.measures import Measure, choice_words, counted, in_turn, listed, percent, signed
from tinsmith.pages.tables import (
    RIGHT,
    WRONG,
    Cell,
    Column,
    Table,
    absent,
    column,
    figure,
    plain,
    shown_table,
    table_of,
    text,
)
from tinsmith.stats.mean_runs import exact_mean
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

_LONGEST: Final = 3000


def prompt_block(words: str) -> Block:
    """Return an item's prompt."""
    return Words(cut(words), Tone.VERBATIM) if words else missing("The prompt is not in the run's folder.")


def shown_replies(rollout: TaskRollout, title: str) -> list[Reply]:
    """Return the turns of an answer under a title, with its reward above the first."""
    turns = rollout.turns or (TurnRecord(role="assistant", text=rollout.text),)
    return [
        Reply(
            title=title if turn.role == "assistant" else "The task says",
            text=cut(turn.text),
            remark=earned_words(rollout) if place == 0 else "",
        )
        for place, turn in enumerate(turns)
    ]


def earned_words(rollout: TaskRollout) -> str:
    """Return an answer's reward in words, by its terms if there are several."""
    if rollout.verdicts:
        return f"{sum(each.passed for each in rollout.verdicts)} of {len(rollout.verdicts)} criteria hold"
    terms = rollout.terms if len(rollout.terms) > 1 else {}
    apart = f" ({', '.join(f'{name} {value:g}' for name, value in terms.items())})" if terms else ""
    return f"reward {rollout.total:g}{apart}"


def cut(words: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text that is too long for a page."""
    return words if len(words) <= longest else f"{words[:longest]} [cut]"


MOST_TEXTS: Final = 5_000  # Texts that are tried: those that the run wrote most often.
MOST: Final = 12  # Rows of the criteria that gained most, and of those that lost most; names of those that never move.
_LONGEST_CRITERION, _LONGEST_BEST = 400, 120


class BestText(BaselineRecord, frozen=True, kw_only=True):
    """Best single text of a run for all items, selected in hindsight on the items of its score."""

    text: str
    tried: int  # Texts it was chosen from.
    rates: dict[str, Fraction]

    def exact(self, name: str = "total") -> dict[str, Fraction]:
        """Return the pass rate by item."""
        return self.rates if name == "total" else {}


def with_best_text(read: TaskRunRecords) -> TaskRunRecords:
    """Return a rule-judged run with a further baseline: the text with the best score on all items."""
    best = _best_text(read)
    if best is None:
        return read
    return replace(read, task=msgspec.structs.replace(read.task, baselines=(*read.task.baselines, best)))


def _best_text(read: TaskRunRecords) -> BestText | None:
    """Return the best single text by rules; None without evaluation or criteria, or if the score is no pass rate."""
    judging = read.judging
    if judging is None or judging.judge != RULES or not read.sampled or read.score != PASS_RATE:
        return None
    by_item: dict[str, list[str]] = {item: [] for item in read.sampled[-1].by_item()}
    for (item, _), criterion in sorted(judging.criteria.items()):
        if item in by_item:
            by_item[item].append(criterion)
    criteria = sorted({each for some in by_item.values() for each in some})
    try:
        judge = RuleJudge(criteria)
    except DataError:
        return None
    if not all(by_item.values()):
        return None
    # What a criterion adds to the mean where it holds, in whole numbers over one denominator.
    unit = math.lcm(*map(len, by_item.values()))
    worth = dict.fromkeys(criteria, 0)
    for some in by_item.values():
        for each in some:
            worth[each] += unit // len(some)
    texts = sorted(judging.texts, key=lambda one: (-judging.texts[one], one))[:MOST_TEXTS]
    by_text = dict(zip(texts, zip(*judge.hold(texts), strict=True), strict=True))
    best = max(texts, key=lambda one: sum(compress(worth.values(), by_text[one])))
    held = dict(zip(criteria, by_text[best], strict=True))
    rates = {item: Fraction(sum(held[each] for each in some), len(some)) for item, some in by_item.items()}
    return BestText(name="best text for all", text=best, tried=len(texts), rates=rates)


def judged_sentences(read: TaskRunRecords) -> list[str]:
    """Return sentences on the judge, its costs, and the best single text."""
    judging = read.judging
    if judging is None:
        return []
    best = next((one for one in read.task.baselines if isinstance(one, BestText)), None)
    judge_line = f"Judge: {judging.judge}; {cost_words(judging)}; without verdicts: {failed_words(judging)}."
    if judging.ledger.left_out:
        judge_line += f" Its endpoint refused {listed(judging.ledger.left_out)}: asked without, under its own default."
    if best is None:
        why = "criteria are missing" if read.score == PASS_RATE else "it is not the score"
        why = "a judge that is no program is not asked again" if judging.judge != RULES else why
        return [judge_line, f"What one text for every item would pass is not known: {why}."]
    line = " ".join(best.text.split())
    line = line if len(line) <= _LONGEST_BEST else line[: _LONGEST_BEST - 3] + "..."
    return [judge_line, f'Best text for all, chosen with hindsight from {best.tried:,} that the run wrote: "{line}".']


def judged_limits(judging: Judging) -> list[str]:
    """Return the limits of the judge's verdicts in sentences."""
    if judging.judge == RULES:
        return [
            "That the answers are good: rules see words, counts and form, and the rules that measure are those that "
            "were rewarded."
        ]
    return [
        "That people would agree: the judge that measures is the judge that rewarded, and what pleases it need not be "
        "better."
    ]


def money_words(judging: Judging) -> str:
    """Return the judge's price in words."""
    dollars = judging.ledger.dollars
    about = "about " if judging.ledger.estimated and dollars else ""
    return "price not known" if dollars is None else f"{about}{shown(dollars)}"


def cost_words(judging: Judging) -> str:
    """Return calls, tokens and money, in short."""
    spent = judging.ledger
    if not spent.judged + spent.failed:
        return "cost not known: judge.jsonl has no line"
    if judging.judge == RULES and not spent.calls:
        return "no calls, no cost"
    tokens = f"{spent.prompt_tokens:,} tokens read, {spent.completion_tokens:,} written"
    cached = f", {spent.from_cache:,} answers from the cache" if spent.from_cache else ""
    return f"{counted(spent.calls, 'call')}, {tokens}{cached}: {money_words(judging)}"


def failed_words(judging: Judging) -> str:
    """Return the number of answers without verdicts."""
    failed, total = judging.ledger.failed, judging.ledger.failed + judging.ledger.judged
    if not total:
        return "not known"
    share = f" ({percent(failed / total)})" if failed else ""
    return f"{failed:,} of {counted(total, 'answer')}{share}"


def cost_table(judging: Judging) -> Table:
    """Return the ledger's sums."""
    spent = judging.ledger
    estimated = " Some token counts are estimated: the endpoint reported none." if spent.estimated else ""
    return plain(
        f"From judge.jsonl. Interrupted runs count too, including what they asked twice.{estimated}",
        ("Judging", ""),
        (
            ("answers judged", f"{spent.judged:,}"),
            ("without verdicts", f"{spent.failed:,}"),
            ("answered from the cache", f"{spent.from_cache:,}"),
            ("calls, failed attempts included", f"{spent.calls:,}"),
            ("tokens read", f"{spent.prompt_tokens:,}"),
            ("tokens written", f"{spent.completion_tokens:,}"),
            ("money", money_words(judging)),
        ),
    )


def criteria_blocks(read: TaskRunRecords, judging: Judging) -> list[Block]:
    """Return the criteria that moved most between the first and the last evaluation, and those that never did."""
    first, last = ({}, {}) if not read.sampled else (judging.by_criterion(read.sampled[at].places) for at in (0, -1))
    names = sorted(first.keys() & last.keys())
    found = [(name, len(first[name]), exact_mean(first[name]), exact_mean(last[name])) for name in names]
    gained, lost = (sorted(found, key=lambda one: sign * (one[2] - one[3])) for sign in (1, -1))
    moved = {"gained": [one for one in gained if one[3] > one[2]], "lost": [one for one in lost if one[3] < one[2]]}
    tables = [_moved(word, some) for word, some in moved.items() if some]
    examined: Places = {}
    for exam in read.sampled:
        for place, held in exam.places.items():
            examined.setdefault(place, []).extend(held)
    stuck = [
        _stuck(f"{word} in {where}", judging.by_criterion(places), share)
        for where, places in (("training answers", judging.trained), ("sampled answers of evaluations", examined))
        for word, share in (("Never held", 0), ("Always held", 1))
        if places
    ]
    return [*(tables or [missing("No criterion moved between two evaluations.")]), *stuck]


def _moved(word: str, criteria: Sequence[tuple[str, int, Fraction, Fraction]]) -> Table:
    left = len(criteria) - MOST
    caption = (
        f"Criteria that {word} most: the share of sampled answers that fulfil them, mean over the items that have "
        "them. Picked by size out of many, so that some of it is chance."
    )
    if left > 0:
        caption += f" {counted(left, 'criterion', 'criteria')} more {word} less."
    heads = (Column(head="items", form="d"), "first", "last", Column(head="change", form="+.3f"))
    rows = [
        (cut(name, _LONGEST_CRITERION), *map(Measure, (items, float(first), float(last), float(last - first))))
        for name, items, first, last in criteria[:MOST]
    ]
    return shown_table(caption, "Criterion", heads, rows)


def _stuck(title: str, shares: dict[str, list[Fraction]], share: int) -> Fold:
    names = [name for name, found in shares.items() if all(each == share for each in found)]
    names.sort(key=lambda name: (-len(shares[name]), name))
    head = f"{title}: {len(names):,} of {counted(len(shares), 'criterion', 'criteria')}"
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return Fold(
        head,
        [Bullets([*(cut(name, _LONGEST_CRITERION) for name in names[:MOST]), *more]) if names else missing("None.")],
    )


SHOWN: Final = 200  # Most items on a page.
_LONGEST_ANSWER: Final = 1500  # Characters of a text; what is longer is cut.
_TONES: Final = {"better": RIGHT, "worse": WRONG, "failed": WRONG}


def answers(read: TaskRunRecords) -> Block:
    """Return evaluated items with their answers: of the first evaluation beside the last where there are two."""
    if not read.sampled:
        return missing("Missing: nothing was evaluated.")
    exams = (read.sampled[0], read.sampled[-1]) if len(read.sampled) > 1 else read.sampled
    scores = [one.by_item() for one in exams]
    items = set[str].intersection(*({*one.first_answers, *one.failed} for one in exams))
    kinds: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda name: (derive(0, "shown", name), name)):
        kinds.setdefault(_result([one.get(item) for one in scores]), []).append(item)
    chosen = sorted(in_turn([kinds[kind] for kind in sorted(kinds)], SHOWN))
    prompts = {one.id: one.prompt for one in read.task.items}

    def prompt(item: str) -> Cell:
        known = prompts.get(item, "")
        return Cell(text=cut(known, _LONGEST_ANSWER), verbatim=True) if known else absent("not in the run's folder")

    columns: list[tuple[str | Cell, Callable[[str], Cell]]] = [("Item", text), (text("Prompt"), prompt)]
    for title, exam in zip(("Before", "After") if len(exams) > 1 else ("Answer",), exams, strict=True):
        columns.append((text(title, f"step {exam.step:,}"), partial(_answered, exam, read.judging)))
        columns.append((column(read.score, title.lower()), partial(_earned, exam.by_item())))
    if len(exams) > 1:
        columns.append((text("Result"), lambda item: _change([one.get(item) for one in scores])))
    caption = (
        f"{choice_words(len(chosen), len(items), 'evaluated item', 'result')} Of each the first sampled answer; its "
        f"{read.score} is the mean of all its sampled answers."
    )
    return Browser(table_of(caption, chosen, *columns), ("Result",) if len(exams) > 1 else ())


def _result(scores: Sequence[Fraction | None]) -> str:
    first, last = scores[0], scores[-1]
    if first is None or last is None:
        return "failed"
    return "better" if last > first else "worse" if last < first else "same"


def _change(ends: Sequence[Fraction | None]) -> Cell:
    result, known = _result(ends), [float(one) for one in ends if one is not None]
    under = signed(known[-1] - known[0]) if result in ("better", "worse") else ""
    return Cell(text=result, under=under, tone=_TONES.get(result, ""))


def _answered(exam: Examination, judging: Judging | None, item: str) -> Cell:
    if item not in exam.by_item():
        why = exam.failed[item]
        return Cell(text=cut(f"{why.where}: {why.what}", _LONGEST_ANSWER), missing=True)
    one = exam.first_answers[item]
    more = [earned_words(one), *_verdicts(one, judging)]
    turns = [turn.text if turn.role == "assistant" else f"The task says: {turn.text}" for turn in one.turns]
    written = cut("\n\n".join(turns or [one.text]), _LONGEST_ANSWER) or "(empty text)"
    return Cell(text=written, under="\n".join(more), verbatim=True)


def _earned(scores: Mapping[str, Fraction], item: str) -> Cell:
    if item not in scores:
        return absent("failed")
    mean = float(scores[item])
    return figure(f"{mean:.3f}", Measure(mean))


def _verdicts(one: TaskRollout, judging: Judging | None) -> list[str]:
    found: list[str] = []
    for place, verdict in enumerate(one.verdicts if judging else ()):
        assert judging is not None
        criterion = judging.criterion((one.prompt_id, place))
        # The reason of a judge by rules is the rule once more.
        why = "" if rule_in(verdict.rationale) == criterion.removeprefix("rule: ") else verdict.rationale
        found.append(f"{'holds' if verdict.passed else 'fails'}: {criterion} {cut(why, _LONGEST_ANSWER // 3)}".rstrip())
    return found
