"""Environments of verifiers as tasks: rows, rewards and turns are served as the library does, or refused by name."""

import asyncio
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from installed_environments import GUESSES, REFUSED, SUMS, WISHES

from command_line import command
from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.environments.task import verifiers
from tinsmith.types.errors import ConfigError

MODULES = {
    "sums_env": SUMS,
    "guess_env": GUESSES,
    "wishes_env": WISHES,
    "refused_env": REFUSED,
    "no_env": "x = 1\n",
    "old_env": "def load_environment():\n    return None\n",
    "lacking_env": "import no_such_package\n",
}


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


def test_tasks_are_items_and_others_are_held_out_by_their_arguments() -> None:
    task = made("sums-env", args__first=1, held_out='{"first": 3, "largest": 3}')
    held_out = task.held_out
    assert len(held_out) == 9
    assert len(items(task)) == 16 - 6, "tasks that are held out are not trained on"
    first = items(task)[0]
    assert [one["role"] for one in first["prompt"]] == ["system", "user"]
    assert (first["prompt"][1]["content"], first["answer"]) == ("1 + 0 =", "1")
    assert first["info"] == {"terms": [1, 0]}
    assert not any(one["prompt"] in [each["prompt"] for each in held_out] for one in items(task))
    few = made("sums_env", args__largest=2, items=2, held_out='{"first": 9}', held_out_items=1)
    assert (len(items(few)), len(few.held_out)) == (2, 1)  # type: ignore[arg-type]
    assert made("sums_env").held_out == 0.2
    with pytest.raises(ConfigError, match="split"):
        made("sums_env", held_out="test")


def test_weighted_values_are_terms_and_the_others_metrics() -> None:
    task = made("sums_env")
    assert list(task.rewards) == ["right", "number", "brief"]
    assert list(task.metrics) == ["total_", "num_turns"]
    one = items(task)[1]
    assert earned(task, one, ["1"], ["1."], ["12"]) == [
        {"right": 1.0, "number": 0.5, "brief": 0.5},
        {"right": 0.0, "number": 0.0, "brief": 0.25},
        {"right": 0.0, "number": 0.5, "brief": 0.25},
    ]
    (found,) = score_group(task, one, [["one"]])
    assert found.metrics == {"total_": 1.0, "num_turns": 1.0}


def test_a_function_that_raises_is_a_failure_and_no_zero() -> None:
    task = made("sums_env", args__task__broken="7")
    failed, fine = score_group(task, items(task)[0], [["7"], ["0"]])
    assert "sums_env.py, line 18: OSError: the checker is not there" in failed.what
    assert isinstance(fine, Earned)
    assert list(made("sums_env", args__task__broken="always").rewards) == ["right", "form", "total_"]


def test_several_turns_are_played_and_repeat() -> None:
    task = made("guess_env")
    assert task.max_turns == 3
    item = items(task)[0]
    state = random.getstate()
    received = {n: task.reply(item, [str(n)]) for n in range(1, 10)}
    assert random.getstate() == state
    (secret,) = (n for n, text in received.items() if text is None)
    assert {text for n, text in received.items() if n < secret} <= {"Higher."}
    assert {text for n, text in received.items() if n > secret} <= {"Lower."}
    assert task.reply(item, ["tea"]) == "A number."
    right, wrong = str(secret), str(secret % 9 + 1)
    assert earned(task, item, [right], [wrong, right], [wrong, wrong, wrong]) == [
        {"found": 1.0, "soon": 0.5},
        {"found": 1.0, "soon": 0.25},
        {"found": 0.0, "soon": 0.0},
    ]
    again = made("guess_env")
    assert {n: again.reply(item, [str(n)]) for n in received} == received  # type: ignore[misc]
    secrets = {n for one in items(task) for n in range(1, 10) if task.reply(one, [str(n)]) is None}
    assert len(secrets) > 1, "each row draws its own"


def test_an_environment_is_played_in_a_notebook() -> None:
    async def cell() -> str | None:
        task = made("guess_env")
        assert task.reply is not None
        return task.reply(items(task)[0], ["tea"])

    assert asyncio.run(cell()) == "A number."


def test_the_lower_limit_of_turns_holds() -> None:
    task = made("guess_env", max_turns=2, env__player__max_turns=9)
    assert task.max_turns == 2
    item = items(task)[0]
    (right,) = (str(n) for n in range(1, 10) if task.reply(item, [str(n)]) is None)  # type: ignore[misc]
    wrong = str(int(right) % 9 + 1)
    assert earned(task, item, [wrong, right], [wrong, wrong]) == [
        {"found": 1.0, "soon": 0.25},
        {"found": 0.0, "soon": 0.0},
    ]
    assert made("guess_env", max_turns=1).reply is None


def test_an_environment_opens_stops_and_records_by_itself() -> None:
    task = made("wishes_env", items=3, env__greeting="Yes?", max_turns=4)
    assert [one["prompt"] for one in items(task)] == [[{"role": "user", "content": "Yes?"}]] * 3
    item = items(task)[0]
    assert task.reply(item, ["tea"]) == "One\n\nmore?"
    assert task.reply(item, ["tea", "no, thanks"]) is None
    thanked, limited = score_group(task, item, [["tea", "thanks"], ["tea"] * 4])
    assert (thanked.terms, thanked.metrics) == ({"wishes": 4.0}, {"limit_": 0.0})
    assert (limited.terms, limited.metrics) == ({"wishes": 8.0}, {"limit_": 1.0})
    with pytest.raises(ConfigError, match="no last task"):
        made("wishes_env")


def test_handlers_of_signals_stay_ours() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    made("sums_env")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("tools", "tools: Search"),
        ("group", "several agents (player, other)"),
        ("harness", "a harness of its own (bash)"),
        ("model", "a model of its own (player)"),
        ("judge", "a judge (grader)"),
        ("services", "services of its own (RefusedEnv.start)"),
        ("container", "a container (Plain)"),
        ("image", "a container (image ubuntu)"),
        ("runs", "a sandbox (tested takes a runtime)"),
        ("sandbox", "a sandbox (runtime.write)"),
        ("asks", "a stop that reads requests or responses (long)"),
        ("changes", "to change messages on their way (redacted)"),
        ("picture", "pictures and tools"),
        ("borrows", "it gives its agent tools"),
        ("again", "several conversations in one episode"),
        ("says", "it answered as ['tool']"),
        ("nothing", "rewards nothing"),
        ("empty", "nothing to train on"),
        ("else", "KeyError"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    kind: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFUSED_KIND", kind)
    ran = command(capsys, "run", "verifiers:refused_env", code=2)
    assert words in " ".join(ran.err.split())


def test_a_name_that_the_first_task_did_not_record_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSED_KIND", "more")
    task = made("refused_env")
    fine, failed = score_group(task, items(task)[0], [[""], ["tea"]])
    assert isinstance(fine, Earned)
    assert "late" in failed.what


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("verifiers:", "", "verifiers:NAME"),
        ("verifiers:no_such", "", "no_such"),
        ("verifiers:no_env", "", "__all__"),
        ("verifiers:old_env", "", "before 0.4"),
        ("verifiers:lacking_env", "", "no_such_package"),
        ("verifiers:sums_env", "args.large=3", "args.largest"),
        ("verifiers:sums_env", "args.largest=few", "a whole number"),
        ("verifiers:sums_env", "args.names=few", "taskset.names: Input should be a valid list"),
    ],
)
def test_mistakes_are_told(name: str, change: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", name, *([change] if change else []), code=2)
    assert words in " ".join(ran.err.split())


def test_arguments_are_keys_and_the_source_is_part_of_the_identity(capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", "verifiers:sums_env", "--help", code=0)
    for words in ("args.largest", "args.names", "args.task.broken", "held_out_items", "eval_every"):
        assert words in ran.out
    ran = command(capsys, "run", "verifiers:guess_env", "--help")
    assert "env.player.max_turns" in ran.out
    assert set(made("sums_env").identity) == {"verifiers", "sums_env.py"}


def test_the_environment_of_the_page_can_be_trained_on(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "kept-tasks.md").read_text("utf-8")
    (tmp_path / "sums_v1.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    task = made("sums_v1", args__largest=3)
    assert len(items(task)) == 9
    assert earned(task, items(task)[1], ["1"], ["2"]) == [{"right": 1.0}, {"right": 0.0}]
    sys.modules.pop("sums_v1")
