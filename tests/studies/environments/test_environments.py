"""Environments of verifiers as tasks: rows, rubric and turns are served as the library does, or refused by name."""

import random
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from installed_environments import GUESSES, REFUSED, SUMS

from command_line import command
from tinsmith.lab.user_task.dialogue import Earned, Failed, score_group
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.environments.task import verifiers
from tinsmith.types.errors import TaskError

MODULES = {"sums_env": SUMS, "guess_env": GUESSES, "refused_env": REFUSED, "no_env": "x = 1\n"}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def made(name: str, **changes: Any) -> Task:
    return verifiers(name, **{one.replace("__", "."): value for one, value in changes.items()})


def items(task: Task) -> list[dict[str, Any]]:
    assert isinstance(task.items, list)
    return task.items


def earned(task: Task, item: dict[str, Any], *conversations: list[str]) -> list[Mapping[str, float]]:
    found = score_group(task, item, conversations)
    assert all(isinstance(one, Earned) for one in found), found
    return [one.terms for one in found if isinstance(one, Earned)]


def test_rows_are_items_and_the_evaluation_set_is_held_out() -> None:
    task = made("sums-env")
    held_out = task.held_out
    assert isinstance(held_out, list)
    assert len(held_out) == 5
    assert len(items(task)) == 15, "the row that is in both sets is held out"
    first = items(task)[0]
    assert [one["role"] for one in first["prompt"]] == ["system", "user"]
    assert (first["prompt"][1]["content"], first["answer"]) == ("0 + 1 =", "1")
    assert not any(one["prompt"] in [each["prompt"] for each in held_out] for one in items(task))
    few = made("sums_env", args__largest=2, items=2, held_out_items=1)
    assert (len(items(few)), len(few.held_out)) == (2, 1)  # type: ignore[arg-type]


def test_weighted_functions_are_terms_and_the_others_metrics() -> None:
    task = made("sums_env")
    assert list(task.rewards) == ["right", "rare"]
    assert set(task.metrics) == {"lambda_", "num_turns"}
    one = items(task)[0]
    assert earned(task, one, ["1"], ["1"], ["2"]) == [
        {"right": 1.0, "rare": 0.25},
        {"right": 1.0, "rare": 0.25},
        {"right": 0.0, "rare": 0.5},
    ]
    (found,) = score_group(task, one, [["one"]])
    assert isinstance(found, Earned)
    assert found.metrics == {"lambda_": 3.0, "num_turns": 1.0}


def test_a_function_that_raises_is_a_failure_and_no_zero() -> None:
    task = made("sums_env", args__broken="7")
    failed, fine = score_group(task, items(task)[0], [["7"], ["1"]])
    assert isinstance(failed, Failed)
    assert "the checker is not there" in failed.what
    assert isinstance(fine, Earned)


def test_several_turns_are_played_and_repeat() -> None:
    task = made("guess_env", args__turns=3)
    assert task.reply is not None
    assert task.max_turns == 3
    item = items(task)[0]
    state = random.getstate()
    heard = {n: task.reply(item, [str(n)]) for n in range(1, 10)}
    assert random.getstate() == state
    (secret,) = (n for n, said in heard.items() if said is None)
    assert {said for n, said in heard.items() if n < secret} <= {"Higher."}
    assert {said for n, said in heard.items() if n > secret} <= {"Lower."}
    assert task.reply(item, ["tea"]) == "A number."
    wrong = str(secret % 9 + 1)
    assert task.reply(item, [wrong, wrong, wrong]) is None
    right = str(secret)
    assert earned(task, item, [right], [wrong, right], [wrong, wrong, wrong]) == [
        {"found": 1.0, "soon": 0.5},
        {"found": 1.0, "soon": 0.25},
        {"found": 0.0, "soon": 0.0},
    ]
    again = made("guess_env", args__turns=3)
    assert {n: again.reply(item, [str(n)]) for n in heard} == heard  # type: ignore[misc]
    secrets = {n for one in items(task) for n in range(1, 10) if task.reply(one, [str(n)]) is None}
    assert len(secrets) > 1, "each row draws its own"


def test_the_last_word_is_the_models_where_the_key_ends_it() -> None:
    task = made("guess_env", max_turns=2, args__turns=-1)
    assert task.max_turns == 2
    item = items(task)[0]
    (right,) = (str(n) for n in range(1, 10) if task.reply(item, [str(n)]) is None)  # type: ignore[misc]
    wrong = str(int(right) % 9 + 1)
    assert earned(task, item, [wrong, right], [wrong, wrong]) == [
        {"found": 1.0, "soon": 0.25},
        {"found": 0.0, "soon": 0.0},
    ]
    assert made("guess_env", max_turns=1).reply is None


def test_handlers_of_signals_stay_ours() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    made("sums_env")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("tools", "tools"),
        ("group", "several environments"),
        ("judge", "judged"),
        ("rubric", "score_rollout"),
        ("nothing", "rewards nothing"),
        ("of_all", "of_all"),
        ("asks", "get_model_response"),
        ("empty", "nothing to train on"),
        ("else", "KeyError"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(kind: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", "verifiers:refused_env", f"args.kind={kind}")
    assert ran.code == 2
    assert words in ran.err


def test_what_an_environment_says_that_is_no_text_of_a_user_is_a_failure() -> None:
    task = made("refused_env", args__kind="says")
    assert task.reply is not None
    with pytest.raises(TaskError, match="tool"):
        task.reply(items(task)[0], ["tea"])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("verifiers:", "", "verifiers:NAME"),
        ("verifiers:no_such", "", "no_such"),
        ("verifiers:no_env", "", "load_environment"),
        ("verifiers:sums_env", "args.large=3", "args.largest"),
        ("verifiers:sums_env", "args.largest=few", "a whole number"),
    ],
)
def test_mistakes_are_told(name: str, change: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", name, *([change] if change else []))
    assert ran.code == 2
    assert words in ran.err


def test_arguments_are_keys_and_the_source_is_part_of_the_identity(capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", "verifiers:sums_env", "--help")
    assert ran.code == 0, ran.err
    for words in ("args.largest", "args.names", "held_out_items", "eval_every"):
        assert words in ran.out
    assert set(made("sums_env").identity) == {"verifiers", "sums_env.py"}
