"""Judges: who says whether a response fulfils criteria, and what asking costs.

`chat_judge` asks any OpenAI-compatible endpoint. A result is `Judged` (or `Answered`), or `JudgeFailure`.
"""

from __future__ import annotations

from tinsmith.tasks.judges.answers import Answered, AnswerForm, Question, ratings_form
from tinsmith.tasks.judges.cache import VerdictCache
from tinsmith.tasks.judges.chat_judge import BlockingJudge, ChatJudge, ChatSettings
from tinsmith.tasks.judges.preferences import (
    Comparison,
    Place,
    Preference,
    parse_preference,
    preference_question,
)
from tinsmith.tasks.judges.prices import (
    PriceTable,
    estimate_questions,
    estimate_spent,
    load_prices,
    shown,
)
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
    "AnswerForm",
    "Answered",
    "BlockingJudge",
    "ChatJudge",
    "ChatSettings",
    "Comparison",
    "FailureCause",
    "JudgeFailure",
    "JudgePrompt",
    "JudgeRequest",
    "Judged",
    "ParseFailure",
    "Place",
    "Preference",
    "PriceTable",
    "Question",
    "Spent",
    "Verdict",
    "VerdictCache",
    "estimate_questions",
    "estimate_spent",
    "judge_prompt",
    "load_prices",
    "parse_preference",
    "parse_verdicts",
    "preference_question",
    "ratings_form",
    "shown",
]
