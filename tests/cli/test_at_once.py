"""Answers given at once: help, the list, and mistakes load none of the heavy libraries; told by what is loaded."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "transformers", "tinker", "pandas", "polars", "httpx")

ANSWERED = (("--help",), ("run",), ("run", "--help"), ("run", "remedy/exp6", "--help"), ("export", "--help"))
MISTAKES: Mapping[tuple[str, ...], str] = {
    ("runn",): "",
    ("run", "WRONG"): "",
    ("run", "remedy/exp6", "learning_rate=abc"): "",
    ("run", "remedy/exp6", "adapter=full", "lora_alpha=8"): "",
    ("run", "crossroads", "adapter=full", "lora_rank=8"): "lora_rank",
    ("run", "remedy/exp6", "at=seed", "dry_run=true"): "",
    ("run", "remedy/exp6", "log_path=taken"): "",
    ("run", "remedy/exp6", "log_path=other"): "",
    ("run", "remedy/exp6", "base_url=http://127.0.0.1:9", "learning_rate=1", "model_name=x"): "",
    ("run", "rlvr", "data_path=nowhere"): "",
    ("run", "study/adapters", "stepz=3"): "",
    ("run", "study/sft_vs_rl", "stepz=3"): "",
    ("run", "rubric_quality", "limit=x"): "",
    ("report", "nowhere"): "",
    ("report", "other/thesis.tex"): "a FILE.zip that `tinsmith pack` wrote",
    ("replay", "nowhere"): "",
    ("audit", "nowhere"): "",
    ("diff", "nowhere", "there"): "",
    ("export", "nowhere", "--to", "peft", "--out", "x"): "",
    ("serve", "--model", "a=nowhere"): "",
    ("serve", "--model", "tinsmith/nano", "--host", "192.0.2.1"): "field: --host",
    ("serve", "--model", "tinsmith/nano", "--port", "0", "--state", "other/thesis.tex"): "--state",
    ("data", "baselines", "nowhere"): "",
    ("sweep", "x=1", "--out", "x"): "",
    ("run", "ladder/exp44"): "ladder/exp4",
    ("run", "exp6"): "remedy/exp6",
    ("run", "sft/lora_offest"): "sft/lora_offset",
    ("run", "ladder/exp4", "stepz=3"): "perhaps steps",
    ("run", "ladder/exp4", "out=mine"): "perhaps log_path",
    ("run", "ladder/exp4", "lr=1e-3"): "perhaps learning_rate",
    ("run", "crossroads", "size=smallest"): "this is a key of studies",
    ("run", "ladder/exp4", "seeds=0,1"): "seed=N",
    ("run", "crossroads", "reward=x"): "do: tinsmith run crossroads --help lists all ",
    ("run", "crossroads", "batch_sise=3"): "perhaps batch_size",
    ("run", "crossroads", "at=smal"): "perhaps small",
    ("run", "dead_groups", "size=smalest"): "do: perhaps smallest\n",
    ("run", "crossroads/sfd"): "perhaps crossroads/sft",
    ("base", "fetch", "smolm2"): "perhaps smollm2",
    ("export-results", ".", "--to", "parqet"): "Perhaps parquet?",
    ("serve", "--model", "tinsmith/nano", "--keys", "other/access.toml"): "perhaps name",
    ("run", "quickstart"): "do: tinsmith quickstart",
    ("quickstart", "--steps", "3"): "write steps=3",
    ("replay", "taken", "--device", "cuda"): "write device=cuda",
    ("run", "--config", "other/typo.toml"): "perhaps run",
    ("run", "crossroads", "num_generations=4"): "perhaps group_size",
    ("run", "ladder/exp4", "steps=three"): "a whole number",
    ("run", "ladder/exp4", "batch_size=3"): "perhaps groups_per_batch",
    ("run", "ladder/exp4", "max_steps=3"): "perhaps steps;",
    ("run", "sft/lora", "groups_per_batch=3"): "perhaps batch_size",
    ("run", "ladder/exp4", "--out", "mine"): "write log_path=mine",
    ("run", "ladder/exp4", "-o", "mine"): "write log_path=mine",
    ("run", "ladder/exp4", "--output-dir=mine"): "write log_path=mine",
    ("run", "ladder/exp4", "--dry-run"): "write dry_run=true",
    ("run", "ladder/exp4", "--quickly"): "tinsmith run ladder/exp4 --help",
    ("run", "dead_groups", "--out", "mine"): "write out=mine",
    ("run", "dead_groups", "log_path=mine"): "write out=mine",
    ("run", "dead_groups", "output_dir=mine"): "perhaps out",
    ("run", "dead_groups", "seeds=0,1"): "leave 0 out",
    ("run", "steps=3"): "tinsmith run NAME steps=3",
    ("run", "taken"): "tinsmith replay taken",
    ("run", "other"): "this is a folder",
    ("run", "other/thesis.tex"): "a Python file",
    ("run", "--config", "other/keys.toml"): "tinsmith run NAME steps=5",
    ("run", "crossroads", "--config", "other/mistyped.toml"): "mistyped.toml: there is no such key",
    ("new", "mine"): "tinsmith new mine.py",
    ("new", "mine/task.py"): "mkdir -p mine",
    ("train", "ladder/exp4"): "'tinsmith run'",
    ("ladder/exp4",): "'tinsmith run ladder/exp4'",
    ("mine.py", "steps=3"): "'tinsmith run mine.py'",
    ("run", "ladder/exp4", "model_name=smolm2"): "perhaps smollm2",
    ("run", "ladder/exp4", "steps", "3"): "a change must be written as key=value",
    ("run", "ladder/exp4", "steps=3", "steps=4"): "given twice",
    ("run", "ladder/exp4", "data=nowhere"): "nowhere is not a slice",
    ("run", "ladder/exp4", "at=seed"): "no model is named",
    ("run", "ladder/exp4", "at=seed", "model_name=tinsmith/nano", "data=nowhere"): "nowhere is not",
    ("run", "ladder/exp4", "model_name=nowhere"): "there is no such model",
    ("run", "ladder/exp4", "device=tpu"): "device=cuda",
    ("run", "ladder/exp4", "steps=-1"): "1 or more",
    ("run", "ladder/exp4", "reward=gold"): "there is no such reward",
    ("run", "study/sft_vs_rl", "rl_rate=1e-3"): "perhaps rl_rates",
    ("run", "study/sft_vs_rl", "kl_penalty_coef=0.1"): "no such key",
    ("run", "study/adapters", "adapters=lora,qdora", "rates.dora=1,2,3,4,5"): "cannot be compared",
    ("run", "study/adapters", "log_path=x"): "seeds, out",
    ("run", "rubric_quality", "limt=3"): "perhaps limit",
    ("run", "instructions", "suite=ifevil"): "ifeval",
    ("run", "instructions", "held_out=nothing"): "kinds",
}
"""Commands, and words of their answers."""

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
    (folder / "other" / "keys.toml").write_text("steps = 5\n")
    (folder / "other" / "typo.toml").write_text('rn = "crossroads"\n')
    (folder / "other" / "mistyped.toml").write_text("stpes = 5\n")
    (folder / "other" / "access.toml").write_text('[[key]]\nnam = "me"\n')
    return folder


@pytest.fixture(scope="module")
def answers(place: Path) -> Mapping[tuple[str, ...], dict[str, Any]]:
    """Everything that one fresh process answers, in turn: what one command loads the next would be blamed for."""
    requests = (*ANSWERED, *MISTAKES)
    environment = {**os.environ, "TINSMITH_HOME": str(place / "home"), "COLUMNS": "200"}
    environment.pop("TINKER_API_KEY", None)
    environment.pop("TINKER_CREDENTIAL_CMD", None)
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{PROGRAM}"],
        input="".join(json.dumps(each) + "\n" for each in requests),
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(requests, map(json.loads, done.stdout.splitlines()), strict=True))


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
    assert answer["out"] == ""
    assert MISTAKES[asked] in answer["err"]
    assert {each.name for each in place.iterdir()} == {"taken", "other"}
