"""What judging a run took and how often it failed: in a sentence, in the page's head, and as tables."""

from __future__ import annotations

from tinsmith.lab.judge.prices import shown
from tinsmith.pages.tables import Table, plain
from tinsmith.pages.wording import counted, percent
from tinsmith.studies.rubrics.pages.gathering import RubricRun
from tinsmith.studies.rubrics.records import RULES


def money_words(run: RubricRun) -> str:
    """Say what was paid."""
    dollars = run.ledger.dollars
    about = "about " if run.ledger.estimated and dollars else ""
    return "price not known" if dollars is None else f"{about}{shown(dollars)}"


def cost_words(run: RubricRun) -> str:
    """Say calls, tokens and money, in short."""
    spent = run.ledger
    if not spent.judged + spent.failed:
        return "not known: judge.jsonl has no line"
    if run.judge == RULES and not spent.calls:
        return "nothing: rules take no calls"
    tokens = f"{spent.prompt_tokens:,} tokens read, {spent.completion_tokens:,} written"
    cached = f", {spent.from_cache:,} answers from the cache" if spent.from_cache else ""
    return f"{counted(spent.calls, 'call')}, {tokens}{cached}: {money_words(run)}"


def failed_words(run: RubricRun) -> str:
    """Say how many responses got no verdicts."""
    failed, asked = run.ledger.failed, run.ledger.failed + run.ledger.judged
    if not asked:
        return "not known"
    share = f" ({percent(failed / asked)})" if failed else ""
    return f"{failed:,} of {counted(asked, 'response')}{share}"


def judge_sentence(run: RubricRun) -> str:
    """Say who judged, what that took, and how often it failed."""
    spent = run.ledger
    if not spent.judged + spent.failed:
        return (
            f"The judge was {run.judge}; what that took is not known, as judge.jsonl has no line."
        )
    who = "The judge was rules, a program" if run.judge == RULES else f"The judge was {run.judge}"
    failed = "every response got its verdicts"
    if spent.failed:
        failed = f"{failed_words(run)} got no verdicts and are in no reward and no score"
    asked = counted(spent.judged + spent.failed, "response")
    cost = cost_words(run).replace("nothing: rules take no calls", "no calls, no cost")
    return f"{who}: {asked} judged, {cost}; {failed}."


def left_out_sentence(run: RubricRun) -> str:
    """Say what of the training was not learned from."""
    trained = run.trained
    groups = len(trained.groups)
    if not groups:
        return ""
    told = (
        f"{trained.failed:,} of {counted(trained.responses, 'training response')} left out for want of a reward, "
        f"{trained.too_few:,} of {counted(groups, 'group')} dropped whole because fewer than two were left"
    )
    return f"{told}; in {trained.alike:,} groups all rewards were equal, which teaches nothing."


def cost_table(run: RubricRun) -> Table:
    """Return the ledger's sums."""
    spent = run.ledger
    estimated = (
        " Some token counts are estimated: the endpoint told none." if spent.estimated else ""
    )
    return plain(
        f"From judge.jsonl. Sittings that were killed count too, and what they asked twice.{estimated}",
        ("Judging", ""),
        (
            ("responses judged", f"{spent.judged:,}"),
            ("without verdicts", f"{spent.failed:,}"),
            ("answered from the cache", f"{spent.from_cache:,}"),
            ("calls, failed attempts included", f"{spent.calls:,}"),
            ("tokens read", f"{spent.prompt_tokens:,}"),
            ("tokens written", f"{spent.completion_tokens:,}"),
            ("money", money_words(run)),
        ),
    )
