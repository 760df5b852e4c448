"""The first screen of a comparison: who collapsed, what is highest, and what no run is above."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import LADDER, write_run
from pages_of import compared

from tinsmith.pages.document import Fold, Plates
from tinsmith.studies.disruption.comparison import compare_labels

pytestmark = pytest.mark.whole


def test_the_first_sentences_name_who_collapsed_and_what_is_highest(tmp_path: Path) -> None:
    names = ("exp4", "exp5", "exp6", "sft")
    folders = [write_run(tmp_path / name, replace(LADDER[name], steps=20, eval_every=10)) for name in names]
    compared = compare_labels(folders)
    told = compared.headline
    gone = {one.arm for one in compared.lost}
    assert gone, "the made-up ladder has a run that loses classes"
    collapsed = [sentence for sentence in told if "collapsed" in sentence]
    assert len(collapsed) == len(gone)
    assert all(any(arm in sentence for arm in gone) for sentence in collapsed)
    scores = {name: one.measures["macro_f1"].value for name, one in compared.tested.items()}
    best = max(scores, key=scores.__getitem__)
    (highest,) = [sentence for sentence in told if "highest" in sentence]
    assert f"{scores[best]:.3f}, of {best}" in highest
    assert all(f"{name} {value:.3f}" in highest for name, value in scores.items() if name != best)


def test_the_picture_of_the_shares_stands_on_the_first_screen(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, LADDER[name]) for name in ("exp4", "exp5")]
    page = compared(folders).page
    kinds = [type(block) for block in page.sections[0].blocks]
    assert kinds.index(Plates) < kinds.index(Fold)
    (plates,) = [block for block in page.sections[0].blocks if isinstance(block, Plates)]
    assert [plate.title for plate in plates.plates] == ["ladder/exp4@1", "ladder/exp5@1"]
    assert all(plate.svg for plate in plates.plates)
