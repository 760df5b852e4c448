"""One set of bits for two whole runs of 20 steps, on every machine: `run_rl.json` and `run_sft.json`, with `==`.

After a change that is meant to change them: `python scripts/freeze_golden.py`, and say why.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden_runs import RUNS, Ground, build, conducted, conducted_debate, conducted_rlvr

pytestmark = [pytest.mark.golden, pytest.mark.whole, pytest.mark.usefixtures("without_pictures")]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(tmp_path_factory.mktemp("home")))
    yield build()
    patch.undo()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_committed_bits(ground: Ground, name: str, tmp_path: Path) -> None:
    assert conducted(ground, name, tmp_path / name) == _frozen(name)
    # What would be equal whatever is computed proves nothing.
    lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    assert len(steps) == 21
    assert sum("optim/grad_norm" in step for step in steps) >= 15


def _frozen(name: str) -> object:
    return json.loads((Path(__file__).parent / f"run_{name}.json").read_text())


def test_a_run_on_rubrics_has_the_committed_bits(ground: Ground, tmp_path: Path) -> None:
    assert conducted_rlvr(ground, tmp_path / "rlvr") == _frozen("rlvr")


def test_a_debate_has_the_committed_bits(tmp_path: Path) -> None:
    assert conducted_debate(tmp_path) == _frozen("debate")
