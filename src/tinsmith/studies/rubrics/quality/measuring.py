"""Measures `rubric_quality`: pairs under every condition, put to the judge, and the files that are left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.judge.answers import VerdictCache
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.prices import PriceTable, estimate_questions, estimate_spent, shown
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.settings import ChatSettings
from tinsmith.lab.measurement import write_json, write_text
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.pages.page import document_html, write
from tinsmith.studies.rubrics.quality.answers import (
    Answers,
    PairAnswer,
    Showing,
    answered_by_rules,
    require_rules,
    showings,
)
from tinsmith.studies.rubrics.quality.chat import answered_by_chat, questions_of, ratings_of
from tinsmith.studies.rubrics.quality.page import QUESTION, QualityRun, quality_page, quality_story
from tinsmith.studies.rubrics.quality.pairs import PairSet, builtin_pairs, drawn_pairs, foreign_rubrics, read_pairs
from tinsmith.studies.rubrics.quality.statistics import rubric_quality
from tinsmith.studies.rubrics.quality.study import NAME
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.home import home
from tinsmith.types.source import source_sha256
from tinsmith.types.version import VERSION

CACHE: Final = "verdicts"
"""Under TINSMITH_HOME: answers that were paid for, by their content."""
ANSWERS, QUALITY, SPENT = "answers.jsonl", "quality.json", "spent.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Pairs that are judged, by whom, and what that costs."""

    source: PairSet
    file: str | None
    """Name of the file they are from; None: the built-in ones."""
    shown: tuple[Showing, ...]
    settings: Mapping[str, object]
    """All that decides the answers but for the judge's own mind."""
    sha256: str
    num_pairs: int
    seed: int
    chat: ChatSettings | None
    prices: PriceTable

    @property
    def judge(self) -> str:
        """The judge's name."""
        return RULES if self.chat is None else self.chat.judge_model

    def forecast(self) -> tuple[str, ...]:
        """Return what it takes: nothing retried, nothing found in the cache."""
        conditions = len(self.shown) // self.num_pairs
        first = f"{self.num_pairs} pairs under {conditions} conditions, judge {self.judge}"
        if self.chat is None:
            return (f"{first}: no call, no key, no network",)
        spent = estimate_questions(questions_of(self.shown))
        spent += estimate_spent(ratings_of(self.shown), response_tokens=0)
        return (
            f"{first}: {spent.calls:,} calls, both orders of each pair; about {spent.prompt_tokens:,} tokens read, "
            f"{spent.completion_tokens:,} written, {shown(self.prices.dollars(self.judge, spent))}",
            "what is in the cache is not asked again",
        )


def drawn(file: Path | None, limit: int | None, seed: int, chat: ChatSettings | None, prices: PriceTable) -> Drawn:
    """Draw the pairs that are judged.

    Raises:
        DataError: the pairs cannot be read, or rules are to judge prose.
    """
    source = builtin_pairs() if file is None else read_pairs(file)
    pairs = drawn_pairs(source.pairs, limit, seed=seed)
    settings: dict[str, object] = {"judge_model": RULES, "seed": seed, "limit": limit}
    if chat is None:
        require_rules(pairs)
    else:
        settings |= {
            "judge_model": chat.judge_model,
            "judge_temperature": chat.judge_temperature,
            "judge_max_tokens": chat.judge_max_tokens or None,
            "judge_base_url": chat.judge_base_url or os.environ.get("OPENAI_BASE_URL"),
        }
    return Drawn(
        source=source,
        file=None if file is None else file.name,
        shown=showings(pairs, foreign_rubrics(pairs, seed=seed), seed=seed),
        settings=settings,
        sha256=sha256_of(pairs),
        num_pairs=len(pairs),
        seed=seed,
        chat=chat,
        prices=prices,
    )


def measured(pairs: Drawn, folder: Path) -> tuple[str, ...]:
    """Ask the judge, write the folder, and return what may be said.

    Raises:
        LostError: the judge refused, or no pair got all its answers.
    """
    if pairs.chat is None:
        answers = answered_by_rules(pairs.shown)
    else:
        with BlockingJudge(pairs.chat, cache=VerdictCache(home() / CACHE)) as judge:
            answers = answered_by_chat(pairs.shown, judge)
    run = QualityRun(
        judge=pairs.judge,
        source=pairs.file,
        sha256=pairs.sha256,
        seed=pairs.seed,
        drawn=pairs.num_pairs,
        without_rubrics=pairs.source.without_rubrics,
        unrated=answers.unrated,
        failures=tuple((cause.value, count) for cause, count in answers.failures),
        cost=(
            ("calls", f"{answers.once.calls:,}"),
            ("tokens read, estimated", f"{answers.once.prompt_tokens:,}"),
            ("tokens written, estimated", f"{answers.once.completion_tokens:,}"),
            ("money", shown(pairs.prices.dollars(pairs.judge, answers.once))),
        ),
        quality=rubric_quality(answers.judged, answers.verdicts, seed=pairs.seed),
    )
    _write(folder, pairs, run, answers)
    return quality_story(run.quality, run.judge)


def _write(folder: Path, pairs: Drawn, run: QualityRun, answers: Answers) -> None:
    """Write the folder; the manifest last, with the hashes of the others."""
    (folder / MANIFEST).unlink(missing_ok=True)
    identity = {"tinsmith": VERSION, "experiment": NAME, "settings": pairs.settings, "pairs_sha256": run.sha256}
    head: Mapping[str, object] = {
        "schema": 1,
        "name": NAME,
        "kind": Kind.MEASUREMENT,
        "question": QUESTION,
        "identity_sha256": sha256_of(identity),
    }
    data = {
        "source": run.source_name,
        "fingerprint": run.sha256,
        "pairs": run.drawn,
        "without_rubrics": run.without_rubrics,
    }
    spent = {
        "note": "what this run really sent; another run of the same may find answers in the cache",
        **asdict(answers.spent),
        "dollars": pairs.prices.dollars(pairs.judge, answers.spent),
        "from_cache": answers.from_cache,
        "fields_left_out": answers.left_out_fields,
    }
    found = {
        "schema": 1,
        "judge": run.judge,
        "story": quality_story(run.quality, run.judge),
        "cannot_be_claimed": run.limits,
        **asdict(run.quality),
        "idle_criteria": run.quality.idle,
        "drawn": run.drawn,
        "left_out": run.drawn - run.quality.pairs,
        "unrated": run.unrated,
        "failures": dict(run.failures),
        "asking_once": asdict(answers.once),
    }
    write_json({**head, "settings": pairs.settings, "data": data}, folder / CONFIG)
    write_text(_lines(answers.answers), folder / ANSWERS)
    write_json(found, folder / QUALITY)
    write_json(spent, folder / SPENT)
    write(document_html(quality_page(run)), folder / REPORT)
    manifest = {
        **head,
        "status": Status.FINISHED,
        "identity": {**identity, "source_sha256": source_sha256()},
        "hashes": {name: file_sha256(folder / name) for name in (ANSWERS, QUALITY, REPORT)},
    }
    write_json(manifest, folder / MANIFEST)


def _lines(answers: Sequence[PairAnswer]) -> str:
    rows = [
        {
            "pair_id": one.showing.pair.pair_id,
            "condition": one.showing.condition.value,
            "rubric_of": None if one.showing.rubric is None else one.showing.rubric.pair_id,
            "chosen_first": one.showing.chosen_first,
            "right": one.right,
            "right_turned": one.turned,
            "ground": None if one.ground is None else one.ground.value,
            "scores": one.scores,
            "rationales": one.rationales,
            "failures": [{"cause": each.cause, "detail": each.detail, "parse": each.parse} for each in one.failures],
        }
        for one in answers
    ]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
