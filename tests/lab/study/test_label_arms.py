"""A study whose arms are experiments on labels: what it refuses, and what it records."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import FEW, LADDER, without_splits, write_run

from tinsmith.lab.results.label_tables import PICTURE
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import Cell
from tinsmith.lab.study.study import Arm, Size, Study
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.rates import Metric
from tinsmith.studies.disruption.experiments import REMEDY_EXP6, SFT_LORA
from tinsmith.types.errors import DataError
from tinsmith.types.waits import Say, unsaid

pytestmark = pytest.mark.whole

STUDY = Study(
    name="study/labels",
    question="Which is better?",
    task=None,
    arms=[Arm("rl", "RL", experiment=REMEDY_EXP6), Arm("sft", "SFT", experiment=SFT_LORA)],
    sizes={"nano": Size(seeds=(1, 2))},
    score=Metric.MACRO_F1,
    pictures=(PICTURE,),
    ways={"greedy": ("SFT, greedy", "sft", Split.TEST_GREEDY)},
)


def conducted(out: Path, untested: str = "", split: str = "") -> Path:
    def run(cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            story = replace(LADDER["exp6" if cell.experiment is REMEDY_EXP6 else "sft"], **FEW)
            write_run(cell.folder, replace(story, seed=int(cell.overrides["seed"])))
            if cell.folder.name == untested:
                without_splits(cell.folder, split)

    draws = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))
    return run_study(STUDY, {"out": str(out)}, unsaid, run=run, draws=draws)


def test_arms_and_ways_without_measures_have_no_figures(tmp_path: Path) -> None:
    record = json.loads((conducted(tmp_path / "out") / STUDY_JSON).read_text())
    assert record["arms"] == ["RL", "SFT"]
    assert record["figures"] == {}


@pytest.mark.parametrize(("run", "split"), [("rl-seed=2", "test"), ("sft-seed=1", "test_greedy")])
def test_a_seed_without_answers_is_refused_in_claims_or_not(tmp_path: Path, run: str, split: str) -> None:
    with pytest.raises(DataError, match="no answers to the test split"):
        conducted(tmp_path / "out", run, split)
