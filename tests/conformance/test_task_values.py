"""Conformance of every task with a name: its keys, items, answers, presets, and what is refused."""

import sys
from collections.abc import Iterator, Mapping
from random import Random

import pytest
from installed_environments import GUESSES
from taste_corpora import world, write

from command_line import command
from tinsmith.cli.registered import TASKS, plan_of, source_of
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.user_task.dialogue import score_group
from tinsmith.lab.user_task.functions import TaskSource
from tinsmith.lab.user_task.items import UserItem, UserSplit, items_of_base, split_items
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError

FEW: Mapping[str, Mapping[str, str]] = {
    "reasoning_gym": {"items": "12", "held_out_items": "4"},
    "instructions": {"items": "12", "held_out_items": "4"},
    "crossroads": {"items": "12", "held_out_items": "4"},
    "taste": {"validation_pairs": "6"},
}
"""Keys with which a task is small."""
WRONG: Mapping[str, Mapping[str, str]] = {
    "backchained": {"labels": "guessed"},
    "crossroads": {"steps_on": "1", "shown": "9", "items": "0"},
    "errands": {"nodes": "many", "adapters": "two"},
    "house": {"pays": "luck"},
    "lookup": {"pays": "gold", "two_hops": "1.5"},
    "instructions": {"suite": "ifevil", "held_out": "nothing", "fewest": "4", "held_out_items": "0"},
    "reasoning_gym": {"task": "composite", "config.max_terms": "x", "items": "0"},
    "relay": {"bonus": "most"},
    "rooms": {"barrier": "half", "tests": "three"},
    "sandbagger": {"fails": "often"},
    "shell": {"facts": "false", "world": "1000"},
    "sums": {"pays": "knowledge,speed"},
    "taste": {"evaluate": "train", "match": "day", "answers": "words", "contract": "1.0", "gap": "0", "pairs": "0"},
}
"""Values of a task's own keys that its function refuses."""
ITEMS = 12
"""Items of a side that are looked at."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, dict[str, str]]]]:
    """Return the name that opens each task, and its keys."""
    folder = tmp_path_factory.mktemp("tasks")
    corpus = write(folder / "corpus", world()).folder
    (folder / "guess_env.py").write_text(GUESSES)
    sys.path.insert(0, str(folder))
    found = {name: (name, dict(FEW.get(name, {}))) for name in TASKS}
    found["taste"][1]["data"] = str(corpus)
    found["verifiers"] = ("verifiers:guess_env", {"env.player.max_turns": "2"})
    yield found
    sys.path.remove(str(folder))
    sys.modules.pop("guess_env", None)


@pytest.fixture(scope="module", params=TASKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def keys(given: dict[str, tuple[str, dict[str, str]]], name: str) -> dict[str, str]:
    return given[name][1]


@pytest.fixture(scope="module")
def opened(given: dict[str, tuple[str, dict[str, str]]], name: str) -> str:
    return given[name][0]


@pytest.fixture(scope="module")
def source(opened: str, keys: dict[str, str]) -> TaskSource:
    found = source_of(opened, keys)
    assert found is not None
    return found


def made(source: TaskSource, keys: Mapping[str, str]) -> Task:
    return source.make({key.name: key.read(keys.get(key.name)) for key in source.keys})


@pytest.fixture(scope="module")
def task(source: TaskSource, keys: dict[str, str]) -> Task:
    return made(source, keys)


@pytest.fixture(scope="module")
def split(source: TaskSource, task: Task) -> UserSplit:
    return split_items(task, source.folder, 0)


def test_its_keys_say_what_they_are_and_read_back_their_defaults(source: TaskSource, name: str) -> None:
    assert TASKS[name].question
    for key in source.keys:
        assert key.words, key.name
        assert key.read(None) == key.default
        assert key.read(str(key.default).lower() if key.kind is bool else str(key.default)) == key.default


def test_it_is_opened_again_by_where_it_is_found_with_the_same_code_and_items(
    source: TaskSource, keys: dict[str, str], split: UserSplit
) -> None:
    assert source.found_at is not None
    again = source_of(source.found_at, keys)
    assert again.found_at == source.found_at
    assert again.sha256 == source.sha256
    assert split_items(made(again, keys), again.folder, 0).sha256 == split.sha256


def test_no_item_is_held_out_and_trained_on(split: UserSplit) -> None:
    assert split.train
    assert split.held_out
    apart = [{one.unit for one in side} for side in (split.train, split.held_out, split.tested)]
    assert len(set.union(*apart)) == sum(map(len, apart))


def test_what_the_base_reads_is_not_held_out(task: Task, source: TaskSource, split: UserSplit) -> None:
    read = {one.prompt_id for one in items_of_base(task, source.folder) or split.train}
    assert read.isdisjoint(one.prompt_id for one in (*split.held_out, *split.tested))


def test_right_answers_earn_no_less_than_any_other_and_all_are_scored(task: Task, split: UserSplit) -> None:
    for one in split.train[:ITEMS]:
        others = [total(task, one, answer(one.item)) for answer in task.baselines.values()]
        if task.demonstrate is not None and not (task.base_items or task.reply):
            others.append(total(task, one, task.demonstrate(one.item, Random(0))))
        if task.answer is not None:
            assert total(task, one, task.answer(one.item)) >= max(others or [total(task, one, "")])


def total(task: Task, one: UserItem, answer: object) -> float:
    replies = [answer] if isinstance(answer, str) else list(answer)  # type: ignore[call-overload]
    (found,) = score_group(task, one.item, [replies])
    return found.total


def test_demonstrations_of_what_the_base_reads_are_texts(task: Task, source: TaskSource, split: UserSplit) -> None:
    if task.demonstrate is None:
        pytest.skip("nothing is demonstrated")
    for one in (items_of_base(task, source.folder) or split.train)[:ITEMS]:
        shown = task.demonstrate(one.item, Random(0))
        assert [shown] if isinstance(shown, str) else all(isinstance(each, str) for each in shown)


def test_its_plan_and_presets_resolve_and_the_command_line_goes_first(
    opened: str, name: str, keys: dict[str, str]
) -> None:
    assert plan_of(opened, keys).frame.kind is (Kind.RLVR if name == "rlvr" else Kind.TASK)
    for preset, changes in TASKS[name].presets.items():
        plan = plan_of(f"{name}/{preset}", keys)
        assert plan.experiment.name == f"{name}/{preset}"
        assert plan.frame.kind is Kind(changes.get("kind", Kind.TASK.value))
        assert plan_of(f"{name}/{preset}", {**keys, "steps": "33"}).settings.steps == 33
        defaults = {key.name: key for key in source_of(f"{name}/{preset}", keys).keys}  # type: ignore[union-attr]
        assert all(defaults[key].default == defaults[key].read(changes[key]) for key in changes.keys() & defaults)


def test_mistakes_are_told_by_their_key_in_five_lines(
    opened: str, name: str, source: TaskSource, keys: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"stepz": "3", **{key.name: "few" for key in source.keys if key.kind is int}}
    for key, value in (*wrong.items(), *WRONG.get(name, {}).items()):
        with pytest.raises(ConfigError) as refused:
            plan_of(opened, {**keys, key: value})
        assert refused.value.field == key
    named = [opened if TASKS[name].part else f"{name}:more", f"{name}/no_such_preset"]
    for one in named[TASKS[name].part != "" :]:
        command(capsys, "run", one, code=2)


def test_help_lists_its_own_keys_and_those_of_every_run(
    opened: str, source: TaskSource, keys: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = command(capsys, "run", opened, *(f"{key}={value}" for key, value in keys.items()), "--help", code=0)
    assert all(key.name in ran.out for key in source.keys)
    assert "eval_every" in ran.out
