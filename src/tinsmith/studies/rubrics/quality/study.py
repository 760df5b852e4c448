"""`rubric_quality`: what a rubric adds to a weak judge's accuracy on preference pairs, with an exact test.

Run from Python, with the keys of the command line::

    folder = rubric_quality(judge_model="gpt-5-nano", limit=200)(print)

The folder holds config.json, manifest.json, answers.jsonl, quality.json and report.html, the same bytes whenever the
same answers come, from the cache or not; and spent.json, what this run really sent.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, cast

from tinsmith.lab.experiment.key_text import folder_name
from tinsmith.lab.judge.prompting import load_prices
from tinsmith.lab.judge.records import RULES, ChatSettings
from tinsmith.lab.measurement import Measure, at_least
from tinsmith.lab.runs.files import CONFIG
from tinsmith.types.errors import ConfigError
from tinsmith.types.json_text import parse_json
from tinsmith.types.waits import Say

NAME: Final = "rubric_quality"


class IfExists(StrEnum):
    """Reaction to a folder that holds such a run already."""

    RAISE = "raise"
    DELETE = "delete"


def rubric_quality(
    *,
    data_path: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    log_path: Path | None = None,
    prices: Path | None = None,
    behavior_if_log_dir_exists: IfExists = IfExists.RAISE,
    dry_run: bool = False,
    judge_model: str = RULES,
    **judge: Annotated[object, ChatSettings],
) -> Measure:
    """Return what measures how much a rubric adds to a judge's accuracy.

    Keys that begin with judge_ are of a judge behind an endpoint; OPENAI_API_KEY is its key.

    Args:
        data_path: Preference pairs as JSON Lines; None: the built-in ones.
        limit: Most pairs to judge, drawn by the seed.
        seed: The random seed of the pairs, of the order of their responses, and of the control's rubrics.
        log_path: The folder it is written to; None: named after what was changed, below `runs`.
        prices: A table of prices, laid over the one that comes with the package.
        behavior_if_log_dir_exists: What to do if the folder holds such a run: `raise` or `delete`.
        dry_run: Only say what the run would take.
        judge_model: rules, or a model of an OpenAI-compatible endpoint.
        judge: See ChatSettings.
    """
    if limit is not None:
        at_least(1, limit=limit)
    chat = None
    if judge_model != RULES:
        base_url = judge.get("judge_base_url") or os.environ.get("OPENAI_BASE_URL")
        # A name means one model at one address only: elsewhere the cache must not answer for it.
        identity = f"{judge_model} at {base_url}" if base_url else None
        own = cast("dict[str, Any]", judge)
        chat = ChatSettings(judge_model=judge_model, seed=seed, identity=identity, **own)
    for key, value in ({} if chat else {**judge, **({} if prices is None else {"prices": prices})}).items():
        what = "judge_model=rules does not use this key"
        raise ConfigError(what, field=key, value=value, fix="name a judge with judge_model=NAME, or leave this key out")
    usual = {"data_path": None, "judge_model": RULES, "limit": None, "seed": 0}
    asked = {"data_path": data_path, "judge_model": judge_model, "limit": limit, "seed": seed, **judge}
    changes = [f"{key}={value}" for key, value in sorted(asked.items()) if key not in usual or value != usual[key]]
    folder = log_path or Path("runs") / folder_name(NAME, changes)

    def measure(say: Say) -> Path:
        from tinsmith.studies.rubrics.quality.measuring import drawn, measured

        pairs = drawn(data_path, limit, seed, chat, load_prices(prices))
        for line in pairs.forecast():
            say(line)
        if not dry_run:
            _require_free(folder, delete=behavior_if_log_dir_exists is IfExists.DELETE)
            for line in measured(pairs, folder):
                say(line)
        return folder

    return measure


def _require_free(folder: Path, *, delete: bool) -> None:
    """Check that a run may be written there, before a call is paid for."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        config: Any = parse_json((folder / CONFIG).read_bytes())
        ours = config["name"] == NAME
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if ours and delete:
        return
    what = "this folder holds such a run already" if ours else "this folder holds something else"
    fix = "behavior_if_log_dir_exists=delete writes over it; paid answers stay in the cache" if ours else None
    raise ConfigError(what, field="log_path", value=str(folder), allowed="an empty or new folder", fix=fix)
