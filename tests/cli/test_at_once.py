"""What is answered at once: help, the list, and mistakes load none of the heavy libraries; told by what is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "transformers", "tinker", "pandas", "polars", "httpx")

ANSWERED = (("--help",), ("run",), ("run", "--help"), ("run", "remedy/exp6", "--help"))
MISTAKES = (
    ("runn",),
    ("run", "WRONG"),
    ("run", "remedy/exp6", "stepz=3"),
    ("run", "remedy/exp6", "learning_rate=abc"),
    ("run", "remedy/exp6", "reward=gold"),
    ("run", "remedy/exp6", "adapter=full", "lora_alpha=8"),
    ("run", "remedy/exp6", "data=nowhere"),
    ("run", "remedy/exp6", "model_name=nowhere"),
    ("run", "remedy/exp6", "at=seed"),
    ("run", "remedy/exp6", "at=seed", "dry_run=true"),
    ("run", "remedy/exp6", "log_path=taken"),
    ("run", "remedy/exp6", "log_path=other"),
    ("run", "remedy/exp6", "base_url=http://127.0.0.1:9", "learning_rate=1", "model_name=x"),
    ("run", "rlvr", "data_path=nowhere"),
    ("run", "study/adapters", "stepz=3"),
    ("run", "study/sft_vs_rl", "stepz=3"),
    ("run", "rubric_quality", "limit=x"),
    ("report", "nowhere"),
    ("replay", "nowhere"),
    ("audit", "nowhere"),
    ("diff", "nowhere", "there"),
    ("export", "nowhere", "--to", "peft", "--out", "x"),
    ("serve", "--model", "a=nowhere"),
    ("data", "baselines", "nowhere"),
    ("sweep", "x=1", "--out", "x"),
)

PROGRAM = """
import contextlib, io, json, sys
from tinsmith.cli import main

for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as stop:
            code = stop.code or 0
    heavy = [name for name in HEAVY if name in sys.modules]
    told = {"code": code, "out": out.getvalue(), "err": err.getvalue(), "heavy": heavy}
    print(json.dumps(told), file=sys.__stdout__)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in it and with something that is none."""
    folder = tmp_path_factory.mktemp("place")
    for name, file in (("taken", "config.json"), ("other", "thesis.tex")):
        (folder / name).mkdir()
        (folder / name / file).write_text("{}")
    return folder


@pytest.fixture(scope="module")
def answers(place: Path) -> Mapping[tuple[str, ...], dict[str, Any]]:
    """Everything that one fresh process answers, in turn: what one command loads the next would be blamed for."""
    asked = (*ANSWERED, *MISTAKES)
    environment = {**os.environ, "TINSMITH_HOME": str(place / "home")}
    environment.pop("TINKER_API_KEY", None)
    environment.pop("TINKER_CREDENTIAL_CMD", None)
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{PROGRAM}"],
        input="".join(json.dumps(each) + "\n" for each in asked),
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(asked, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("asked", ANSWERED, ids=" ".join)
def test_what_is_asked_for_most_loads_nothing_heavy(
    answers: Mapping[tuple[str, ...], dict[str, Any]], asked: tuple[str, ...]
) -> None:
    answer = answers[asked]
    assert (answer["code"], answer["err"], answer["heavy"]) == (0, "", [])
    assert answer["out"]


@pytest.mark.parametrize("asked", MISTAKES, ids=" ".join)
def test_a_mistake_is_told_in_five_lines_before_anything_heavy_is_loaded_or_written(
    answers: Mapping[tuple[str, ...], dict[str, Any]], place: Path, asked: tuple[str, ...]
) -> None:
    answer = answers[asked]
    assert (answer["code"], answer["heavy"]) == (2, [])
    assert 1 <= len(answer["err"].splitlines()) <= 5
    assert {each.name for each in place.iterdir()} == {"taken", "other"}
