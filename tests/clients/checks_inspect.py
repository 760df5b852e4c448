"""`inspect-ai`: tasks that match, choose, grade and call tools; and twice the same on fresh servers."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from workbench import TALKER, Workbench

from running import Running

PROGRAM = "with_inspect"
Samples = Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def twice(
    bench: Workbench, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Mapping[str, Samples], Mapping[str, Samples]]:
    """The same tasks on two fresh servers with one seed."""
    done: list[Mapping[str, Samples]] = []
    for _ in range(2):
        with bench.serve(tmp_path_factory.mktemp("fresh") / "state", seed=7) as server:
            done.append(bench.run(server, PROGRAM, "scored", "chosen"))
    return done[0], done[1]


def test_recipe(bench: Workbench, server: Running) -> None:
    assert "accuracy" in bench.recipe(server, "inspect-ai", model=TALKER)


def test_answers_are_matched_and_graded(twice: tuple[Mapping[str, Samples], Mapping[str, Samples]]) -> None:
    samples = twice[0]["scored"]
    assert len(samples) == 16
    for sample in samples:
        assert sample["scores"]["match"] == ("C" if sample["answer"].startswith("42") else "I")
    assert {sample["scores"]["match"] for sample in samples} == {"C", "I"}
    assert {sample["scores"]["model_graded_qa"] for sample in samples} == {"C", "I"}


def test_letters_are_chosen(twice: tuple[Mapping[str, Samples], Mapping[str, Samples]]) -> None:
    for sample in twice[0]["chosen"]:
        assert sample["scores"]["choice"] == ("C" if "42" in sample["answer"] else "I"), sample


def test_a_run_repeats_on_a_fresh_server(twice: tuple[Mapping[str, Samples], Mapping[str, Samples]]) -> None:
    first, again = ({task: _sorted(done[task]) for task in done} for done in twice)
    assert first == again


def test_tools_are_called_and_their_answers_used(bench: Workbench, server: Running) -> None:
    for sample in bench.run(server, PROGRAM, "called")["called"]:
        assert sample["roles"] == ["user", "assistant", "tool", "assistant"]
        assert "is the sum" in sample["answer"]


def _sorted(samples: Samples) -> Samples:
    """Every sample, by its question; the epochs of one question have equal prompts and may change places."""
    named = [{name: value for name, value in each.items() if name != "epoch"} for each in samples]
    return sorted(named, key=str)
