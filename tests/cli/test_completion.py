"""Completions of the shell, asked for as bash asks for them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinsmith.cli.completion import complete_keys

STUDY = Path(__file__).parents[2] / "examples" / "turned_words_study.py"
HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "transformers", "tinker", "pandas", "polars", "httpx")
PROGRAM = """
import contextlib, io, json, os, sys
from tinsmith.cli import main

for line in sys.stdin:
    words = json.loads(line)
    os.environ.update(COMP_WORDS=" ".join(["tinsmith", *words]), COMP_CWORD=str(len(words)))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([])
    heavy = [name for name in HEAVY if name in sys.modules]
    print(json.dumps({"words": out.getvalue().split(), "heavy": heavy}), file=sys.__stdout__)
"""
WORDS: Mapping[tuple[str, ...], tuple[set[str], set[str]]] = {
    ("run", "cro"): ({"crossroads", "crossroads/sft"}, {"remedy/exp6"}),
    ("run", "study/ad"): ({"study/adapters"}, set()),
    ("run", "remedy/"): ({"remedy/exp6"}, {"crossroads"}),
    ("run", "remedy/exp6", ""): ({"steps=", "reward=", "data="}, {"kind="}),
    ("run", "crossroads", "st"): ({"steps=", "stop_after="}, {"seed="}),
    ("run", "crossroads", "stop"): ({"stop_after=", "stop_after=VALUE"}, set()),
    ("run", "crossroads", "steps", "=", "3", "grou"): ({"group_size=", "groups_per_batch="}, {"steps="}),
    ("run", "sandbagger", "fa"): ({"fails="}, set()),
    ("run", "relay", "bo"): ({"bonus="}, set()),
    ("run", "verifiers:x", "env"): (set(), {"environment="}),
    ("run", "dead_groups", ""): ({"size=", "out=", "seeds=", "base_steps=", "threads="}, {"log_path=", "seed="}),
    ("run", "microscope", "thr"): ({"threshold=", "threads="}, set()),
    ("run", "rubric_quality", "li"): ({"limit="}, set()),
    ("run", "crossroads", "at", "="): ({"nano", "small", "seed"}, {"steps="}),
    ("run", "crossroads", "at", "=", "s"): ({"small", "seed"}, {"nano"}),
    ("run", "crossroads", "at=s"): ({"at=small", "at=seed"}, {"at=nano"}),
    ("run", "crossroads", "dry_run", "="): ({"true", "false"}, set()),
    ("run", "crossroads", "model_name", "=", "tins"): ({"tinsmith/nano", "tinsmith/smollm2"}, set()),
    ("run", "crossroads", "kind", "="): ({"task", "task_sft", "task_sparse"}, {"measurement", "rl", "rlvr"}),
    ("run", "nothing", "st"): (set(), {"steps="}),
    ("run", "dead_groups", "size", "="): ({"smallest", "nano"}, {"macro_f1"}),
    ("run", "remedy/exp6", "reward", "=", "m"): ({"macro_f1"}, {"exp5"}),
    ("quickstart", "da"): ({"data="}, set()),
    ("replay", "runs/x", "dev"): ({"device="}, set()),
    ("serve", "--model", "tinsmith/n"): ({"tinsmith/nano"}, {"tinsmith/tiny"}),
    ("base", "fetch", "smo"): ({"smollm2"}, set()),
    ("run", str(STUDY), ""): ({"size=", "seeds=", "out=", "base_steps=", "steps="}, {"log_path=", "kind="}),
    ("run", f"{STUDY}:turn", ""): ({"base_steps=", "log_path=", "kind="}, {"size="}),
}
"""Words of a command line, the last of which is to be completed: what is among the answers, and what is not."""


@pytest.fixture(scope="module")
def answers() -> Mapping[tuple[str, ...], dict[str, Any]]:
    """Answers of one fresh process: what one loads the next would be blamed for."""
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{PROGRAM}"],
        input="".join(json.dumps(each) + "\n" for each in WORDS),
        env={**os.environ, "_TINSMITH_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(WORDS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("asked", WORDS, ids=" ".join)
def test_words_are_completed_and_nothing_heavy_is_loaded(
    answers: Mapping[tuple[str, ...], dict[str, Any]], asked: tuple[str, ...]
) -> None:
    here, absent = WORDS[asked]
    words = set(answers[asked]["words"])
    assert here <= words
    assert not absent & words
    assert answers[asked]["heavy"] == []


def test_a_file_that_no_parser_takes_completes_nothing(tmp_path: Path) -> None:
    deep = tmp_path / "deep.py"
    deep.write_text(f"x = {'-' * 100_000}1\n")
    contexts: list[Any] = [
        SimpleNamespace(params={"name": str(one), "changes": []}) for one in (deep, tmp_path / "no.py")
    ]
    assert complete_keys(contexts[0], "") == complete_keys(contexts[1], "")
