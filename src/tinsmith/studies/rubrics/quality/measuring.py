"""Measures `rubric_quality`: the pairs that are judged, put to the judge, and the files that are left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.prices import PriceTable, estimate_questions, estimate_spent
from tinsmith.lab.judge.prices import shown as dollars
from tinsmith.lab.judge.prompting import VerdictCache
from tinsmith.lab.judge.records import RULES, ChatSettings
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.lab.study.files import write_json, write_text
from tinsmith.pages.page import document_html, write
from tinsmith.studies.rubrics.quality.answers import (
    Answers,
    answered_by_chat,
    answered_by_rules,
    questions_of,
    ratings_of,
    require_rules,
)
from tinsmith.studies.rubrics.quality.page import BUILTIN_PAIRS, QUESTION, limits, quality_page, quality_story
from tinsmith.studies.rubrics.quality.statistics import (
    Figures,
    Showing,
    builtin_pairs,
    drawn_pairs,
    read_pairs,
    rubric_quality,
    showings,
)
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
    """Pairs that are judged, and by whom; settings are all that decides the answers but for the judge's own mind."""

    data: Mapping[str, object]
    shown: tuple[Showing, ...]
    settings: Mapping[str, object]
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
            f"{spent.completion_tokens:,} written, {dollars(self.prices.dollars(self.judge, spent))}",
            "what is in the cache is not asked again",
        )


def drawn(file: Path | None, limit: int | None, seed: int, chat: ChatSettings | None, prices: PriceTable) -> Drawn:
    """Draw the pairs that are judged."""
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
    data = {
        "source": BUILTIN_PAIRS if file is None else file.name,
        "fingerprint": sha256_of(pairs),
        "pairs": len(pairs),
        "without_rubrics": source.without_rubrics,
    }
    return Drawn(
        data=data,
        shown=showings(pairs, seed=seed),
        settings=settings,
        num_pairs=len(pairs),
        seed=seed,
        chat=chat,
        prices=prices,
    )


def measured(pairs: Drawn, folder: Path) -> tuple[str, ...]:
    """Ask the judge, write the folder, and return what may be said."""
    if pairs.chat is None:
        answers = answered_by_rules(pairs.shown)
    else:
        with BlockingJudge(pairs.chat, cache=VerdictCache(home() / CACHE)) as judge:
            answers = answered_by_chat(pairs.shown, judge)
    quality = rubric_quality(answers.judged, answers.verdicts, seed=pairs.seed)
    found = {
        "schema": 1,
        "judge": pairs.judge,
        **quality,
        "drawn": pairs.num_pairs,
        "left_out": pairs.num_pairs - quality["pairs"],
        "unrated": answers.unrated,
        "failures": {cause.value: count for cause, count in answers.failures},
        "asking_once": asdict(answers.once),
    }
    said = {"story": quality_story(found), "cannot_be_claimed": limits(found, pairs.data["source"])}
    _write(folder, pairs, answers, {**found, **said})
    return said["story"]


def _write(folder: Path, pairs: Drawn, answers: Answers, found: Figures) -> None:
    """Write the folder; the manifest last, with the hashes of the others."""
    (folder / MANIFEST).unlink(missing_ok=True)
    sha256 = pairs.data["fingerprint"]
    identity = {"tinsmith": VERSION, "experiment": NAME, "settings": pairs.settings, "pairs_sha256": sha256}
    head: Mapping[str, object] = {
        "schema": 1,
        "name": NAME,
        "kind": Kind.MEASUREMENT,
        "question": QUESTION,
        "identity_sha256": sha256_of(identity),
    }
    spent = {
        "note": "what this run really sent; another run of the same may find answers in the cache",
        **asdict(answers.spent),
        "dollars": pairs.prices.dollars(pairs.judge, answers.spent),
        "from_cache": answers.from_cache,
        "fields_left_out": answers.left_out_fields,
    }
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
        for one in answers.answers
    ]
    money = dollars(pairs.prices.dollars(pairs.judge, answers.once))
    write_json({**head, "settings": pairs.settings, "data": pairs.data}, folder / CONFIG)
    write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), folder / ANSWERS)
    write_json(found, folder / QUALITY)
    write_json(spent, folder / SPENT)
    write(document_html(quality_page(found, pairs.data, pairs.seed, money)), folder / REPORT)
    manifest = {
        **head,
        "status": Status.FINISHED,
        "identity": {**identity, "source_sha256": source_sha256()},
        "hashes": {name: file_sha256(folder / name) for name in (ANSWERS, QUALITY, REPORT)},
    }
    write_json(manifest, folder / MANIFEST)
