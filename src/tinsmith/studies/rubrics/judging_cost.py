"""What judging will take, told before a run; and a line of the ledger for what it took."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.judge.prices import estimate_spent, load_prices, shown
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.lab.settings import RlSettings
from tinsmith.studies.rubrics.frame import Asking, RubricFrame
from tinsmith.studies.rubrics.judged_tasks import Asked
from tinsmith.studies.rubrics.records import RULES
from tinsmith.studies.rubrics.splitting import RubricSplit
from tinsmith.studies.rubrics.task import RubricTask


def cost_lines(plan: Plan, frame: RubricFrame, asking: Asking, split: RubricSplit) -> list[str]:
    """Return calls, tokens and money of a whole run, for a person.

    Raises:
        ConfigError: the table of prices cannot be read.
    """
    trained, examined = responses(plan, frame, split)
    total = trained + examined
    told = f"{total:,} responses to judge: {trained:,} in training, {examined:,} in evaluations"
    if frame.judge_model == RULES:
        return [f"{told}; the judge is rules: no calls, no cost"]
    spent = _spent(plan, split.train, trained) + _spent(plan, split.test or split.train, examined)
    dollars = load_prices(asking.prices).dollars(frame.judge_model, spent)
    return [
        told,
        f"about {spent.calls:,} calls of {frame.judge_model}, {spent.prompt_tokens / 1e6:.2f} M tokens read, "
        f"{spent.completion_tokens / 1e6:.2f} M written: {shown(dollars)} "
        "(prices are in a table that prices=FILE replaces; what is in the cache is free)",
    ]


def responses(plan: Plan, frame: RubricFrame, split: RubricSplit) -> tuple[int, int]:
    """Return how many responses a whole run has judged: in training and in examinations."""
    settings = plan.settings
    assert isinstance(settings, RlSettings)
    trained = settings.steps * settings.groups_per_batch * settings.group_size
    held_out = min(len(split.test) or len(split.train), settings.eval_items)
    before = -(-settings.steps // settings.eval_every) if settings.eval_every else 0
    return trained, (before + 1) * held_out * (frame.eval_samples + 1)


def _spent(plan: Plan, tasks: Sequence[RubricTask], count: int) -> Spent:
    """Estimate `count` judgings spread evenly over tasks; every response is taken to be as long as it may be."""
    once = estimate_spent(
        (JudgeRequest(task=one.prompt, response="", criteria=one.criteria) for one in tasks),
        response_tokens=plan.settings.max_tokens,
    )
    share = count / len(tasks)
    return Spent(
        calls=count,
        prompt_tokens=round(once.prompt_tokens * share),
        completion_tokens=round(once.completion_tokens * share),
        estimated=True,
    )


def ledger_line(asked: Asked, dollars: float | None) -> dict[str, object]:
    """Return what one asking took; `dollars` is None where the price is not known."""
    return {
        "judged": asked.judged,
        "failed": asked.failed,
        "from_cache": asked.from_cache,
        "calls": asked.spent.calls,
        "prompt_tokens": asked.spent.prompt_tokens,
        "completion_tokens": asked.spent.completion_tokens,
        "estimated": asked.spent.estimated,
        "dollars": dollars,
    }
