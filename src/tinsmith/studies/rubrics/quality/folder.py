"""What `rubric_quality` leaves behind: its files, what stands in each, and what the folder must be before."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

from tinsmith.data.replacing import replacing
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT
from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import RUBRIC_QUALITY
from tinsmith.pages.page import write
from tinsmith.studies.rubrics.quality.answers import Answers, PairAnswer
from tinsmith.studies.rubrics.quality.page import QualityRun, quality_html
from tinsmith.studies.rubrics.quality.story import cannot_be_claimed, quality_story
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.source import source_sha256
from tinsmith.types.version import VERSION

ANSWERS, QUALITY, SPENT = "answers.jsonl", "quality.json", "spent.json"
_HASHED: Final = (ANSWERS, QUALITY, REPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFiles:
    """All that is written."""

    question: str
    settings: Mapping[str, object]
    """Everything that decides the answers, but for the judge's own mind."""
    answers: Answers
    run: QualityRun
    dollars: float | None
    """What was really paid; None where the price is not known."""


def require_free(folder: Path, *, delete: bool) -> None:
    """Check that a run may be written there, before a call is paid for.

    Raises:
        ConfigError: such a run is there and is to stay, or something else is.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    ours = _name_in(folder / CONFIG) == RUBRIC_QUALITY
    if ours and delete:
        return
    raise ConfigError(
        "this folder holds such a run already"
        if ours
        else "this folder holds something that is no such run",
        field="log_path",
        value=str(folder),
        allowed="an empty or new folder",
        fix="behavior_if_log_dir_exists=delete writes over it; paid answers stay in the cache"
        if ours
        else None,
    )


def write_files(folder: Path, files: QualityFiles) -> None:
    """Write the folder; the manifest last, with the hashes of the others."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    identity = {
        "tinsmith": VERSION,
        "experiment": RUBRIC_QUALITY,
        "settings": files.settings,
        "pairs_sha256": files.run.sha256,
    }
    head: Mapping[str, object] = {
        "schema": 1,
        "name": RUBRIC_QUALITY,
        "question": files.question,
        "identity_sha256": sha256_of(identity),
    }
    _write(folder / CONFIG, _json({**head, "settings": files.settings, "data": _data(files.run)}))
    lines = [_line(answer) for answer in files.answers.answers]
    _write(folder / ANSWERS, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    _write(folder / QUALITY, _json(_quality(files)))
    _write(folder / SPENT, _json(_spent(files)))
    write(quality_html(files.run, files.question), folder / REPORT)
    manifest = {
        **head,
        "status": Status.FINISHED,
        "identity": {**identity, "source_sha256": source_sha256()},
        "hashes": {name: file_sha256(folder / name) for name in _HASHED},
    }
    _write(folder / MANIFEST, _json(manifest))


def _data(run: QualityRun) -> Mapping[str, object]:
    return {
        "source": run.source,
        "fingerprint": run.sha256,
        "pairs": run.drawn,
        "without_rubrics": run.without_rubrics,
    }


def _quality(files: QualityFiles) -> Mapping[str, object]:
    run, quality = files.run, files.run.quality
    limits = cannot_be_claimed(
        quality, built_in=run.built_in, by_rules=run.by_rules, drawn=run.drawn
    )
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
        "cannot_be_claimed": limits,
        **asdict(quality),
        "accuracies": accuracies,
        "idle_criteria": quality.idle,
        "drawn": run.drawn,
        "left_out": run.drawn - quality.pairs,
        "unrated": run.unrated,
        "failures": dict(run.failures),
        "asking_once": asdict(files.answers.once),
    }


def _spent(files: QualityFiles) -> Mapping[str, object]:
    answers = files.answers
    return {
        "note": "what this run really sent; another run of the same may find answers in the cache",
        **asdict(answers.spent),
        "dollars": files.dollars,
        "from_cache": answers.from_cache,
        "fields_left_out": answers.left_out_fields,
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
        "failures": [
            {
                name: value
                for name, value in dataclasses.asdict(failure).items()
                if name in ("cause", "detail", "parse")
            }
            for failure in answer.failures
        ],
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, content: str) -> None:
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")


def _name_in(config: Path) -> object:
    try:
        value: object = json.loads(config.read_bytes())
    except (OSError, ValueError):
        return None
    return cast("dict[str, object]", value).get("name") if isinstance(value, dict) else None
