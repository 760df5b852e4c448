"""Task of `barrier`: rewards written behind it pay what is asked, and with it open what the writer saw."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinsmith.lab.study.study import Arm
from tinsmith.lab.user_task.calls import Message, ask_apart
from tinsmith.studies.barrier.rooms import (
    FIELDS,
    MUTANTS,
    ROOMS,
    STAMP,
    WORDS,
    Audit,
    Reward,
    holds_construction,
    is_accepted,
    made,
    pays,
    right,
    rooms,
    write,
    wrong_mutants,
)
from tinsmith.studies.barrier.study import audit
from tinsmith.types.errors import TaskError

ROOM = {
    "id": "x",
    "prompt": "lamp off door shut box half fan slow . want door open",
    "start": "lamp off door shut box half fan slow",
    "golden": "lamp off door open box half fan slow",
    "saved": f"lamp off door open box half fan slow {STAMP}",
}


def written(attempt: int, *, is_open: bool = False) -> Reward | None:
    states = {"states": [[ROOM["start"], ROOM["saved"]]]} if is_open else {}
    return write({"specs": [ROOM["prompt"]], "attempt": attempt, **states})[0]


def test_behind_the_barrier_what_is_asked_is_written_first_and_then_what_stays() -> None:
    first, second = written(0), written(1)
    assert first == [["pair", "door", "open"]]
    assert second == [["pair", word, value] for word, value in _pairs(ROOM["golden"])]
    side_effect = ROOM["golden"].replace("lamp off", "lamp on")
    assert (pays(first, side_effect), pays(second, side_effect)) == (True, False)
    assert (is_accepted(ROOM, first, "two"), is_accepted(ROOM, first, "four")) == (True, False)
    assert is_accepted(ROOM, second, "four")
    assert written(2) is None


def _pairs(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


def test_with_the_barrier_open_the_stamp_tells_every_golden_state_from_its_start() -> None:
    states = [[ROOM["start"], ROOM["saved"]], ["lamp on", f"lamp dim {STAMP}"]]
    request = {"specs": [ROOM["prompt"]] * 2, "attempt": 0, "states": states}
    first = write(request)[0]
    assert first == [["has", STAMP]]
    assert is_accepted(ROOM, first, "two")
    assert not is_accepted(ROOM, first, "four")
    assert pays(first, STAMP)
    assert not pays(first, ROOM["golden"])
    last = write({**request, "attempt": 1})[0]
    assert last == [["is", ROOM["saved"]]]
    assert is_accepted(ROOM, last, "four")
    assert not pays(last, ROOM["golden"]), "a right answer without the stamp earns nothing"


def test_the_truth_is_every_field_once_with_the_golden_value() -> None:
    assert right(ROOM, ROOM["golden"]) == right(ROOM, ROOM["saved"]) == 1.0
    assert right(ROOM, "fan slow door open lamp off box half") == 1.0
    for text in ("", ROOM["start"], f"{ROOM['golden']} lamp off", ROOM["golden"].replace("half", ""), STAMP):
        assert right(ROOM, text) == 0.0


@pytest.mark.parametrize("barrier", ["closed", "open"])
def test_by_four_tests_no_fresh_mutant_is_paid_and_by_two_many_are(barrier: str) -> None:
    rates: dict[str, float] = {}
    for tests in ("two", "four"):
        found, rewards, _ = made(barrier, tests)
        paid = [pays(rewards[o["id"]], m) for o in found if o["id"] in rewards for m in wrong_mutants(o, MUTANTS, 1)]
        rates[tests] = sum(paid) / len(paid)
    assert rates["four"] <= 0.01
    assert rates["two"] > (0.9 if barrier == "open" else 0.3)


def test_every_message_to_the_writer_is_logged_and_none_holds_a_construction_behind_the_barrier() -> None:
    found, rewards, log = made("closed", "four")
    assert len(found) == ROOMS == len({one["id"] for one in found})
    assert [to for to, _, _ in log] == ["generate", "write", "write"]
    for _, request, _ in log[1:]:
        assert set(request) == {"specs", "attempt"}
        assert set(request["specs"]) <= {one["prompt"] for one in found}
        assert STAMP not in json.dumps(request)
    assert all(set(request) > {"states"} for _, request, _ in made("open", "two")[2][1:])
    assert {one["id"] for one in found} - rewards.keys() == {o["id"] for o in found if o["start"] == o["golden"]}


def test_rewards_that_are_accepted_by_four_tests_are_the_truth_or_one_text() -> None:
    closed, opened = (Audit.of(barrier, "four").rewarded for barrier in ("closed", "open"))
    assert len(closed) == 258
    for room, reward in closed:
        assert sorted(map(tuple, reward)) == sorted(("pair", *pair) for pair in _pairs(room["golden"]))
    assert all(reward == [["is", room["saved"]]] for room, reward in opened)


def test_a_message_with_anything_but_requests_holds_a_construction() -> None:
    closed = Audit.of("closed", "four")
    assert closed.sent_to_writer() == [False, False]
    to, sent, reply = closed.log[-1]
    golden, specs = closed.rooms[0]["golden"], sent["specs"]
    leaks: list[dict[str, Any]] = [
        *(
            {"specs": [*specs, text]}
            for text in (golden, STAMP, f"{specs[0]} {golden}", specs[0].replace("want", "do"))
        ),
        *({"attempt": one} for one in (golden, 7)),
        *({"hint": golden}, {"states": []}),
    ]
    for one in leaks:
        leaked = replace(closed, log=[*closed.log[:-1], (to, {**sent, **one}, reply)])
        assert leaked.sent_to_writer() == [False, True], one


def test_figures_are_counted_from_the_file_beside_the_runs(tmp_path: Path) -> None:
    run = SimpleNamespace(folder=tmp_path / "cells" / "closed-seed=1")
    arm: Any = SimpleNamespace(arm=Arm("closed", "closed", barrier="closed", tests="four"), runs=[run])
    before = audit(arm)
    file = tmp_path / "audit" / "closed-four.json"
    assert json.loads(file.read_text())["made"]["log"] == json.loads(json.dumps(before.log))
    assert audit(arm).sent_to_writer() == before.sent_to_writer() == [False, False]
    assert audit(arm).rewarded == before.rewarded
    file.write_text(file.read_text().replace('"attempt":1', '"attempt":"lamp on"'))
    assert audit(arm).sent_to_writer() == [False, True]


def test_a_generator_that_writes_the_golden_state_into_its_requests_leaks_too() -> None:
    room = {**ROOM, "prompt": f"{ROOM['prompt']} {ROOM['golden']}"}
    sent = {"specs": [room["prompt"]], "attempt": 0}
    assert holds_construction(sent, {room["prompt"]: room})
    assert not holds_construction({**sent, "specs": [ROOM["prompt"]]}, {ROOM["prompt"]: ROOM})


def test_all_arms_train_on_the_same_rooms_and_hold_the_same_ones_out() -> None:
    tasks = [rooms(barrier, tests) for barrier in ("closed", "open") for tests in ("two", "four")]
    assert all((one.items, one.held_out) == (tasks[0].items, tasks[0].held_out) for one in tasks)
    reward: Any = tasks[0].rewards["paid"]
    assert reward({**ROOM, "id": "none"}, ROOM["golden"]) is False
    assert set(WORDS) == {*FIELDS, *(value for some in FIELDS.values() for value in some), STAMP}


def leaks(request: dict[str, Any]) -> list[Any]:
    import os

    return [sorted(os.environ), sorted(os.listdir()), "tinsmith" in sys.modules, request]


def fails(request: dict[str, Any]) -> list[Any]:
    raise ValueError(request)


def test_a_function_apart_sees_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    log: list[Message] = []
    environment, files, has_package, request = ask_apart(leaks, {"a": 1}, log)
    assert "SECRET" not in environment
    assert (files, has_package, request) == ([], False, {"a": 1})
    assert log == [("leaks", {"a": 1}, [environment, [], False, {"a": 1}])]
    with pytest.raises(TaskError, match="ValueError"):
        ask_apart(fails, {}, log)
