"""Judges: who says whether a response fulfils criteria, and what asking costs.

`chat_judge` asks any OpenAI-compatible endpoint. A result is `Judged` or `JudgeFailure`.
"""

from __future__ import annotations

from tinsmith.tasks.judges.cache import VerdictCache
from tinsmith.tasks.judges.chat_judge import BlockingJudge, ChatJudge, ChatSettings
from tinsmith.tasks.judges.prices import PriceTable, estimate_spent, load_prices, shown
from tinsmith.tasks.judges.prompting import JudgePrompt, JudgeRequest, judge_prompt
from tinsmith.tasks.judges.verdicts import (
    FailureCause,
    Judged,
    JudgeFailure,
    ParseFailure,
    Spent,
    Verdict,
    parse_verdicts,
)

__all__ = [
    "BlockingJudge",
    "ChatJudge",
    "ChatSettings",
    "FailureCause",
    "JudgeFailure",
    "JudgePrompt",
    "JudgeRequest",
    "Judged",
    "ParseFailure",
    "PriceTable",
    "Spent",
    "Verdict",
    "VerdictCache",
    "estimate_spent",
    "judge_prompt",
    "load_prices",
    "parse_verdicts",
    "shown",
]
