"""Metrics of a run in Python: a table, and a figure that stands alone and is saved as a file."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tinsmith.lab.runs.frames import History
from tinsmith.types.errors import DataError

LINES = [
    {"step": 0, "train/reward/total": 0.25, "eval/macro_f1": 0.5, "alarms/x": "early"},
    {"step": 1, "train/reward/total": 0.75},
    {"step": 2, "eval/macro_f1": 0.625},
]


def test_a_history_is_its_lines_and_a_table_with_nulls() -> None:
    history = History(LINES)
    assert history[-1] == LINES[-1]
    assert history.to_polars()["train/reward/total"].to_list() == [0.25, 0.75, None]


def test_a_plot_draws_what_is_named_or_reward_and_evaluations_and_saves_a_whole_svg(tmp_path: Path) -> None:
    history = History(LINES)
    usual, named = history.plot(), history.plot("eval/macro_f1")
    assert "train/reward/total, eval/macro_f1." in usual.svg
    assert "train/reward" not in named.svg
    file = named.save(tmp_path / "macro_f1.svg")
    drawn = ElementTree.fromstring(file.read_text(encoding="utf-8"))  # our own file
    assert drawn.tag.endswith("svg")
    assert "--series-0: #" in file.read_text(encoding="utf-8")
    assert history.plot().svg == usual.svg == history._repr_html_()


def test_a_plot_of_nothing_is_refused_and_shown_as_text() -> None:
    with pytest.raises(DataError, match="no step has such a metric"):
        History(LINES).plot("eval/accuracy")
    assert History()._repr_html_() == "[]"
