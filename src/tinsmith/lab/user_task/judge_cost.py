"""Cost of a judge that is a reward: its calls, tokens and money before a run, and the ledger of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.judge.prices import estimate_spent, load_prices, shown
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.items import UserItem, UserSplit
from tinsmith.lab.user_task.judge_choice import parts_of
from tinsmith.lab.user_task.judged import JudgedReward, Judging
from tinsmith.lab.user_task.kinds import Asking


def cost_lines(plan: Plan, reward: JudgedReward, split: UserSplit) -> list[str]:
    """Return calls, tokens and money of a whole run, for a person."""
    frame, asking = parts_of(plan)
    trained, examined = responses(plan, split)
    total = trained + examined
    told = f"{total:,} responses to judge: {trained:,} in training, {examined:,} in evaluations"
    if frame.judge_model == RULES:
        return [f"{told}; rules judge them: no calls, no cost"]
    spent = _spent(plan, reward, split.train, trained) + _spent(plan, reward, split.held_out or split.train, examined)
    dollars = load_prices(asking.prices).dollars(frame.judge_model, spent)
    return [
        told,
        f"about {spent.calls:,} calls of {frame.judge_model}, {spent.prompt_tokens / 1e6:.2f} M tokens read, "
        f"{spent.completion_tokens / 1e6:.2f} M written: {shown(dollars)} "
        "(prices are in a table that prices=FILE replaces; what is in the cache is free)",
    ]


def responses(plan: Plan, split: UserSplit) -> tuple[int, int]:
    """Return how many responses a whole run has judged: in training and in examinations."""
    settings = plan.settings
    assert isinstance(settings, RlSettings)
    samples = parts_of(plan)[0].eval_samples + 1
    trained = settings.steps * settings.groups_per_batch * settings.group_size
    held_out = min(len(split.held_out) or len(split.train), settings.eval_items)
    before = -(-settings.steps // settings.eval_every) if settings.eval_every else 0
    return trained, (before + 1) * held_out * samples


def _spent(plan: Plan, reward: JudgedReward, items: Sequence[UserItem], count: int) -> Spent:
    """Estimate `count` judgings spread evenly over items; every response is taken to be as long as it may be."""
    once = estimate_spent(
        (
            JudgeRequest(task=reward.prompt(one.item), response="", criteria=tuple(reward.criteria(one.item)))
            for one in items
        ),
        response_tokens=plan.settings.max_tokens,
    )
    share = count / len(items)
    return Spent(
        calls=count,
        prompt_tokens=round(once.prompt_tokens * share),
        completion_tokens=round(once.completion_tokens * share),
        estimated=True,
    )


def ledger_line(judging: Judging, dollars: float | None) -> dict[str, object]:
    """Return what one asking took, as LedgerRecord; `dollars` is None where the price is not known."""
    counts = {"judged": judging.judged, "failed": judging.failed, "from_cache": judging.from_cache}
    return {**counts, **asdict(judging.spent), "dollars": dollars}


def asking_circumstances(asking: Asking) -> Mapping[str, object]:
    """Return every key of the asking, paths whole: with them a replay asks as the run did.

    An address is written without what may be a secret in it; an endpoint refuses such an address later.
    """
    told: dict[str, object] = {
        name: str(value.absolute()) if isinstance(value, Path) else value for name, value in asdict(asking).items()
    }
    url = asking.judge_base_url
    return told | {"judge_base_url": None if url is None else _without_secrets(url)}


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
