"""`rubric_quality`: what a rubric adds to a weak judge's accuracy on preference pairs, with an exact test.

Run from Python, with the keys of the command line::

    folder = run_rubric_quality({"judge_model": "gpt-5-nano", "limit": "200"}, print)

The folder holds config.json, manifest.json, answers.jsonl, quality.json and report.html, the same bytes
whenever the same answers come, from the cache or not; and spent.json, what this run really sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tinsmith.lab.judge.answers import VerdictCache
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.prices import PriceTable, estimate_questions, estimate_spent, load_prices, shown
from tinsmith.lab.judge.settings import ChatSettings
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.studies.rubrics.quality.answers import Answers, Showing, answered_by_rules, require_rules, showings
from tinsmith.studies.rubrics.quality.chat import answered_by_chat, questions_of, ratings_of
from tinsmith.studies.rubrics.quality.folder import require_free, write_files
from tinsmith.studies.rubrics.quality.page import QualityRun
from tinsmith.studies.rubrics.quality.pairs import builtin_pairs, drawn_pairs, foreign_rubrics, read_pairs
from tinsmith.studies.rubrics.quality.settings import IfExists, QualitySettings, default_log_path, make_settings
from tinsmith.studies.rubrics.quality.statistics import rubric_quality
from tinsmith.studies.rubrics.quality.story import quality_story
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home

CACHE: Final = "verdicts"
"""Under TINSMITH_HOME: answers that were paid for, by their content."""


def run_rubric_quality(overrides: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """Measure it and return the folder; with dry_run=true say what it would take, and make no folder.

    Raises:
        ConfigError: an unknown or unused key, a value that is not allowed, or a folder that is taken.
        DataError: the pairs cannot be read, or rules are to judge prose.
        LostError: the judge refused, or no pair got all its answers.
    """
    settings = make_settings(overrides)
    folder = settings.log_path or default_log_path(overrides)
    source = builtin_pairs() if settings.data_path is None else read_pairs(settings.data_path)
    pairs = drawn_pairs(source.pairs, settings.limit, seed=settings.seed)
    to_show = showings(pairs, foreign_rubrics(pairs, seed=settings.seed), seed=settings.seed)
    prices = load_prices(settings.prices)
    if settings.chat is None:
        require_rules(pairs)
    for line in _forecast(settings, to_show, len(pairs), prices):
        say(line)
    if settings.dry_run:
        return folder
    require_free(folder, delete=settings.behavior_if_log_dir_exists is IfExists.DELETE)
    answers = _answered(settings.chat, to_show)
    quality = rubric_quality(answers.judged, answers.verdicts, seed=settings.seed)
    run = QualityRun(
        judge=settings.judge_model,
        by_rules=settings.chat is None,
        built_in=settings.data_path is None,
        source=_source(settings),
        sha256=sha256_of(pairs),
        seed=settings.seed,
        drawn=len(pairs),
        without_rubrics=source.without_rubrics,
        unrated=answers.unrated,
        failures=tuple((cause.value, count) for cause, count in answers.failures),
        cost=_cost(answers.once, settings.judge_model, prices),
        quality=quality,
    )
    dollars = prices.dollars(settings.judge_model, answers.spent)
    write_files(folder, run, answers, _deciding(settings), dollars)
    for line in quality_story(quality, settings.judge_model):
        say(line)
    return folder


def _answered(chat: ChatSettings | None, to_show: Sequence[Showing]) -> Answers:
    if chat is None:
        return answered_by_rules(to_show)
    with BlockingJudge(chat, cache=VerdictCache(home() / CACHE)) as judge:
        return answered_by_chat(to_show, judge)


def _forecast(settings: QualitySettings, to_show: Sequence[Showing], pairs: int, prices: PriceTable) -> tuple[str, ...]:
    """What the run will take: nothing retried, nothing found in the cache."""
    conditions = len(to_show) // pairs
    first = f"{pairs} pairs under {conditions} conditions, judge {settings.judge_model}"
    if settings.chat is None:
        return (f"{first}: no call, no key, no network",)
    spent = estimate_questions(questions_of(to_show))
    spent += estimate_spent(ratings_of(to_show), response_tokens=0)
    return (
        f"{first}: {spent.calls:,} calls, both orders of each pair; about {spent.prompt_tokens:,} tokens read, "
        f"{spent.completion_tokens:,} written, {shown(prices.dollars(settings.judge_model, spent))}",
        "what is in the cache is not asked again",
    )


def _deciding(settings: QualitySettings) -> Mapping[str, object]:
    """The settings that decide the answers, as the files have them."""
    told: dict[str, object] = {"judge_model": settings.judge_model, "seed": settings.seed, "limit": settings.limit}
    if settings.chat is not None:
        told["judge_temperature"] = settings.chat.judge_temperature
        told["judge_max_tokens"] = settings.chat.judge_max_tokens or None
        told["judge_base_url"] = settings.chat.judge_base_url or os.environ.get("OPENAI_BASE_URL")
    return told


def _source(settings: QualitySettings) -> str:
    return "built-in pairs" if settings.data_path is None else settings.data_path.name


def _cost(once: Spent, judge: str, prices: PriceTable) -> tuple[tuple[str, str], ...]:
    return (
        ("calls", f"{once.calls:,}"),
        ("tokens read, estimated", f"{once.prompt_tokens:,}"),
        ("tokens written, estimated", f"{once.completion_tokens:,}"),
        ("money", shown(prices.dollars(judge, once))),
    )
