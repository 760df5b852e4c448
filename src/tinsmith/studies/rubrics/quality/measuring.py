"""Measures `rubric_quality`: pairs under every condition, put to the judge, and the files that are left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tinsmith.lab.judge.answers import VerdictCache
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.lab.study.files import write_json, write_text
from tinsmith.pages.page import document_html, write
from tinsmith.studies.rubrics.quality.answers import PairAnswer, answered_by_rules
from tinsmith.studies.rubrics.quality.chat import Drawn, answered_by_chat
from tinsmith.studies.rubrics.quality.page import QUESTION, QualityRun, limits, quality_page, quality_story
from tinsmith.studies.rubrics.quality.statistics import rubric_quality
from tinsmith.studies.rubrics.quality.study import NAME
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.home import home
from tinsmith.types.source import source_sha256
from tinsmith.types.version import VERSION

CACHE: Final = "verdicts"
"""Under TINSMITH_HOME: answers that were paid for, by their content."""
ANSWERS, QUALITY, SPENT = "answers.jsonl", "quality.json", "spent.json"


def measured(pairs: Drawn, folder: Path) -> tuple[str, ...]:
    """Ask the judge, write the folder, and return what may be said."""
    if pairs.chat is None:
        answers = answered_by_rules(pairs.shown)
    else:
        with BlockingJudge(pairs.chat, cache=VerdictCache(home() / CACHE)) as judge:
            answers = answered_by_chat(pairs.shown, judge)
    run = QualityRun(pairs, answers, rubric_quality(answers.judged, answers.verdicts, seed=pairs.seed))
    _write(folder, run)
    return quality_story(run)


def _write(folder: Path, run: QualityRun) -> None:
    """Write the folder; the manifest last, with the hashes of the others."""
    pairs, answers = run.pairs, run.answers
    (folder / MANIFEST).unlink(missing_ok=True)
    identity = {"tinsmith": VERSION, "experiment": NAME, "settings": pairs.settings, "pairs_sha256": pairs.sha256}
    head: Mapping[str, object] = {
        "schema": 1,
        "name": NAME,
        "kind": Kind.MEASUREMENT,
        "question": QUESTION,
        "identity_sha256": sha256_of(identity),
    }
    data = {
        "source": run.source_name,
        "fingerprint": pairs.sha256,
        "pairs": pairs.num_pairs,
        "without_rubrics": pairs.source.without_rubrics,
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
        "judge": pairs.judge,
        "story": quality_story(run),
        "cannot_be_claimed": limits(run),
        **asdict(run.quality),
        "idle_criteria": run.quality.idle,
        "drawn": pairs.num_pairs,
        "left_out": pairs.num_pairs - run.quality.pairs,
        "unrated": answers.unrated,
        "failures": {cause.value: count for cause, count in answers.failures},
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
