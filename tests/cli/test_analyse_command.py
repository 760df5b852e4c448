"""`tinsmith analyse`: what it prints, and what it says to the likeliest mistakes."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from command_line import Run, command
from sentences import missing


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys, "analyse")


def squeezed(text: str) -> list[str]:
    """Return lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_seeds_tables_are_checked(run: Run) -> None:
    ran = run("consistency", "--seeds", code=0)
    printed = squeezed(ran.out)
    assert "n = 500: 145 disruptive, 166 consolidating, 189 neutral" in printed
    assert "n = 2000: 693 disruptive, 1307 consolidating + neutral" in printed
    assert "Exp4 1 47 150 198 0.396 [0.354, 0.440] 1-9 102-181 317-396 1" in printed
    assert any(line.startswith("no ") and "n = 500:" in line for line in printed)
    assert any(missing(line, "always", "neutral", "0.378") == [] for line in printed)
    assert any("step 250 0.3345" in line for line in printed)


def test_the_seeds_tables_as_json(run: Run) -> None:
    found = json.loads(run("consistency", "--seeds", "--json").out)
    assert found["ladder"]["solutions"][0]["sizes"] == {"disruptive": 145, "consolidating": 166, "neutral": 189}
    assert found["exp5_as_stated"]["solutions"] == []
    assert found["exp5"]["solutions"][0]["n"] == 2000


EXP4 = ["disruptive=0.0069", "consolidating=0.2831", "neutral=0.7937"]


def test_one_line_from_options(run: Run) -> None:
    recalls = [part for rate in EXP4 for part in ("--recall", rate)]
    ran = run("consistency", *recalls, "--label-match", ".396", "--n", 500, code=0)
    assert "n = 500: 145 disruptive, 166 consolidating, 189 neutral" in ran.out
    none = run("consistency", *recalls, "--label-match", ".397", "--n", 500, code=1)
    assert missing(none.out, "label_match", "0.397", "500") == []


def test_a_table_from_a_file_keeps_its_digits(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(
        '{"labels": ["a", "b"], "n": 100, "runs": {"x": {"recall/a": 0.50, "recall/b": 0.20, "label_match": 0.41}}}'
    )
    found = json.loads(run("consistency", "--file", file, "--json").out)
    assert {"a": 70, "b": 30} in [solution["sizes"] for solution in found["solutions"]]
    other = run("consistency", "--file", file, "--n", 10, code=1)
    assert "n = 10" in other.out


@pytest.mark.whole
def test_the_example_prints_the_worked_table(run: Run) -> None:
    printed = squeezed(run("incentives").out)
    expected = [
        "soft c n c n 0.391 0.313 0.00/0.59/0.59 0.00/0.50/0.50 0.313",
        "strong c n c n 0.391 0.313 0.00/0.59/0.59 0.00/0.50/0.50 0.313",
        "exp5 d d d d 0.333 0.167 1.00/0.00/0.00 1.00/0.00/0.00 0.167",
        "macro_f1 .66d+.34c .67d+.33n c n 0.384 0.384 0.36/0.40/0.40 0.33/0.34/0.33 0.374",
        "prior_matching .65d+.35c .65d+.35n c n 0.384 0.384 0.35/0.40/0.40 0.33/0.34/0.34 0.374",
        "g_mean .68d+.32c .69d+.31n c n 0.384 0.384 0.37/0.39/0.39 0.34/0.33/0.33 0.374",
        "inverse_share .64d+.36c .64d+.36n c n 0.384 0.384 0.35/0.40/0.40 0.32/0.34/0.34 0.374",
        "macro_f1, plain rule c d c n 0.386 0.374 0.27/0.59/0.30 0.25/0.50/0.25",
        "min_class_recall, plain rule d d c n 0.381 0.374 0.54/0.30/0.30 0.50/0.25/0.25",
        "g_mean, plain rule d d c n 0.381 0.374 0.54/0.30/0.30 0.50/0.25/0.25",
    ]
    for line in expected:
        assert line in printed
    weights = next(line for line in printed if line.startswith("disruptive 0.00 0.313"))
    assert "0.00 0.313 0.50 0.374 0.50 0.374 0.75 0.274 1.00 0.167" in weights
    lines = next(line for line in printed if line.startswith("! exp5: "))
    assert missing(lines, "disruptive", "100%") == []
    assert any(line.startswith("! strong: disruptive dies") for line in printed)
    dual = next(line for line in printed if line.startswith("dual"))
    assert " 0.30/0.4" in dual


def test_a_matrix_and_posteriors_from_files(run: Run, tmp_path: Path) -> None:
    known, table = tmp_path / "p.jsonl", tmp_path / "r.json"
    known.write_text('{"no": 0.4, "yes": 0.6, "weight": 3, "id": "W1"}\n\n{"yes": 0.2, "no": 0.8}\n')
    table.write_text('{"no": {"no": 1, "yes": 0}, "yes": {"no": 0, "yes": 1.5}}')
    found = json.loads(run("incentives", "--posteriors", known, "--matrix", table, "--json").out)
    assert found["labels"] == ["no", "yes"]
    (reward,) = found["rewards"]
    assert reward["policy"] == [[0.0, 1.0], [1.0, 0.0]]
    assert reward["accuracy"] == pytest.approx(0.75 * 0.6 + 0.25 * 0.8)
    assert found["prior"]["yes"] == pytest.approx(0.5)


def test_posteriors_of_a_task_stand_in_the_tasks_order(run: Run, tmp_path: Path) -> None:
    known, array = tmp_path / "p.jsonl", tmp_path / "p.npy"
    known.write_text('{"neutral": 0.2, "disruptive": 0.5, "consolidating": 0.3}\n' * 7)
    np.save(array, np.tile([0.5, 0.3, 0.2], (7, 1)))
    requests = ("incentives", "--reward", "strong", "--json", "--posteriors")
    first, second = (json.loads(run(*requests, file).out) for file in (known, array))
    assert first == second
    assert first["labels"] == ["disruptive", "consolidating", "neutral"]
    assert first["rewards"][0]["ruling"] == ["disruptive"]


def test_a_class_weight_is_a_setting_of_the_reward(run: Run) -> None:
    ran = run("incentives", "--reward", "strong", "--class-weight", "disruptive=3", "--json")
    (weighted,) = json.loads(ran.out)["rewards"]
    assert weighted["policy"] == [[1.0, 0.0, 0.0]] * 4, "that of exp5"


@pytest.mark.parametrize(
    ("verb", "arguments", "words", "text"),
    [
        ("consistency", [], "there is no rate to check", ""),
        ("consistency", ["--label-match", "39.6"], "write 0.396", ""),
        ("consistency", ["--recall", "disruptiv=0.3"], "write disruptive", ""),
        ("consistency", ["--recall", "disruptive"], "NAME=NUMBER", ""),
        ("consistency", ["--recall", "disruptive=0.3", "--recall", "disruptive=0.4"], "named twice", ""),
        ("consistency", ["--recall", "x=0.3"], "--labels", ""),
        ("consistency", ["--label-match", "0.3", "--n", "0"], "the number of items must be a whole number above 0", ""),
        ("consistency", ["--label-match", "0.3", "--n", "5", "--max-n", "9"], "not both", ""),
        ("consistency", ["--file", "none.json"], "there is no file none.json", ""),
        ("consistency", ["--seeds", "--n", "500"], "their own labels and n", ""),
        ("consistency", ["--seeds", "--label-match", "0.3"], "one place", ""),
        ("consistency", ["--label-match", "0.3", "--labels", "a,,b"], "--labels", ""),
        ("consistency", ["--file", "table.json"], "not JSON", "[1, 2"),
        ("consistency", ["--file", "table.json"], "not a table of rates", "[]"),
        (
            "consistency",
            ["--file", "table.json"],
            "a rate is a number",
            '{"labels": ["a", "b"], "runs": {"x": {"recall/a": true}}}',
        ),
        (
            "consistency",
            ["--file", "table.json"],
            "no such rate",
            '{"labels": ["a", "b"], "runs": {"x": {"recall": 0.5}}}',
        ),
        ("consistency", ["--file", "table.json"], "at least one line", '{"labels": ["a", "b"], "runs": {}}'),
        (
            "consistency",
            ["--file", "table.json"],
            "n must be the number of items",
            '{"labels": ["a", "b"], "n": 1.5, "runs": {"x": {"recall/a": 0.5}}}',
        ),
        ("incentives", ["--reward", "exp6"], "there is no such reward", ""),
        ("incentives", ["--reward", "exp5", "--set", "tau=0.3"], "no such setting", ""),
        ("incentives", ["--set", "tau=0.3"], "belong to one reward", ""),
        ("incentives", ["--reward", "dual", "--set", "tau"], "NAME=NUMBER", ""),
        ("incentives", ["--reward", "dual", "--set", "tau=x"], "not a number", ""),
        ("incentives", ["--posteriors", "none.jsonl"], "there is no file none.jsonl", ""),
        ("incentives", ["--matrix", "none.json"], "there is no file none.json", ""),
        ("incentives", ["--matrix", "none.json", "--reward", "strong"], "a reward of its own", ""),
        ("incentives", ["--labels", "a,b"], "its own labels", ""),
        ("incentives", ["--posteriors", "p.jsonl"], "not a distribution", '{"yes": 60, "no": 40}'),
        (
            "incentives",
            ["--posteriors", "p.jsonl"],
            "line 2 has other labels",
            '{"yes": 0.6, "no": 0.4}\n{"yes": 0.6, "maybe": 0.4}',
        ),
        ("incentives", ["--posteriors", "p.jsonl"], "not one number for every label", '{"yes": 0.6, "no": "x"}'),
        ("incentives", ["--posteriors", "p.jsonl"], "line 1 is not JSON", "{"),
        ("incentives", ["--posteriors", "p.jsonl"], "has no line", ""),
        ("incentives", ["--posteriors", "p.jsonl"], "rewards with a name", '{"yes": 0.6, "no": 0.4}'),
        ("incentives", ["--posteriors", "p.csv"], ".jsonl or .npy", "0.6,0.4"),
        ("incentives", ["--posteriors", "p.npy"], "not an array of numbers", "not an array"),
        ("incentives", ["--matrix", "r.json"], "3 rows of 3 numbers", "[[1, 0], [0, 1]]"),
    ],
)
def test_a_mistake_is_told_in_a_few_lines(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, arguments: list[str], words: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text or arguments[-1:] == ["p.jsonl"]:
        Path(arguments[-1]).write_text(text)
    ran = run(verb, *arguments, code=2)
    assert words in ran.err
