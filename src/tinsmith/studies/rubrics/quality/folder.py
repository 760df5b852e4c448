"""What `rubric_quality` leaves behind: its files, what stands in each, and what the folder must be before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

from tinsmith.data.replacing import replacing
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.pages.page import write
from tinsmith.studies.rubrics.quality.answers import Answers, PairAnswer
from tinsmith.studies.rubrics.quality.page import QualityRun, quality_html
from tinsmith.studies.rubrics.quality.settings import NAME, QUESTION
from tinsmith.studies.rubrics.quality.story import quality_story
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.json_text import parse_json
from tinsmith.types.source import source_sha256
from tinsmith.types.version import VERSION

ANSWERS, QUALITY, SPENT = "answers.jsonl", "quality.json", "spent.json"
_HASHED: Final = (ANSWERS, QUALITY, REPORT)


def require_free(folder: Path, *, delete: bool) -> None:
    """Check that a run may be written there, before a call is paid for.

    Raises:
        ConfigError: such a run is there and is to stay, or something else is.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    ours = _name_in(folder / CONFIG) == NAME
    if ours and delete:
        return
    raise ConfigError(
        "this folder holds such a run already" if ours else "this folder holds something else",
        field="log_path",
        value=str(folder),
        allowed="an empty or new folder",
        fix="behavior_if_log_dir_exists=delete writes over it; paid answers stay in the cache" if ours else None,
    )


def write_files(
    folder: Path, run: QualityRun, answers: Answers, settings: Mapping[str, object], dollars: float | None
) -> None:
    """Write the folder; the manifest last, with the hashes of the others.

    `settings` are all that decides the answers but for the judge's own mind; `dollars` were really paid, None where the
    price is not known.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    identity = {"tinsmith": VERSION, "experiment": NAME, "settings": settings, "pairs_sha256": run.sha256}
    head: Mapping[str, object] = {
        "schema": 1,
        "name": NAME,
        "kind": Kind.MEASUREMENT,
        "question": QUESTION,
        "identity_sha256": sha256_of(identity),
    }
    data = {"source": run.source, "fingerprint": run.sha256, "pairs": run.drawn, "without_rubrics": run.without_rubrics}
    spent = {
        "note": "what this run really sent; another run of the same may find answers in the cache",
        **asdict(answers.spent),
        "dollars": dollars,
        "from_cache": answers.from_cache,
        "fields_left_out": answers.left_out_fields,
    }
    lines = (json.dumps(_line(answer), ensure_ascii=False) + "\n" for answer in answers.answers)
    _write(folder / CONFIG, _json({**head, "settings": settings, "data": data}))
    _write(folder / ANSWERS, "".join(lines))
    _write(folder / QUALITY, _json(_quality(run, answers)))
    _write(folder / SPENT, _json(spent))
    write(quality_html(run, QUESTION), folder / REPORT)
    manifest = {
        **head,
        "status": Status.FINISHED,
        "identity": {**identity, "source_sha256": source_sha256()},
        "hashes": {name: file_sha256(folder / name) for name in _HASHED},
    }
    _write(folder / MANIFEST, _json(manifest))


def _quality(run: QualityRun, answers: Answers) -> Mapping[str, object]:
    quality = run.quality
    accuracies = [
        {
            **asdict(each),
            "value": each.value,
            "positions": None
            if each.positions is None
            else {**asdict(each.positions), "first_share": each.positions.first_share},
        }
        for each in quality.accuracies
    ]
    return {
        "schema": 1,
        "judge": run.judge,
        "story": quality_story(quality, run.judge),
        "cannot_be_claimed": run.limits,
        **asdict(quality),
        "accuracies": accuracies,
        "idle_criteria": quality.idle,
        "drawn": run.drawn,
        "left_out": run.drawn - quality.pairs,
        "unrated": run.unrated,
        "failures": dict(run.failures),
        "asking_once": asdict(answers.once),
    }


def _line(answer: PairAnswer) -> Mapping[str, object]:
    showing = answer.showing
    return {
        "pair_id": showing.pair.pair_id,
        "condition": showing.condition.value,
        "rubric_of": None if showing.rubric is None else showing.rubric.pair_id,
        "chosen_first": showing.chosen_first,
        "right": answer.right,
        "right_turned": answer.turned,
        "ground": None if answer.ground is None else answer.ground.value,
        "scores": answer.scores,
        "rationales": answer.rationales,
        "failures": [{"cause": one.cause, "detail": one.detail, "parse": one.parse} for one in answer.failures],
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, content: str) -> None:
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")


def _name_in(config: Path) -> object:
    try:
        value = parse_json(config.read_bytes())
    except (OSError, ValueError):
        return None
    return cast("dict[str, object]", value).get("name") if isinstance(value, dict) else None
