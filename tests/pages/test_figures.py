import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from markupsafe import Markup

from tinsmith.lab.runs.frames import History
from tinsmith.pages.curves import Dots, Flag, Limit, Line, Panel, chart_svg, dots_svg, legend_columns, running_mean
from tinsmith.pages.drawing import class_mark, class_slot, series_mark, stand_ins
from tinsmith.pages.measures import Measure, ranged
from tinsmith.pages.tables import Column, shown_table
from tinsmith.stats.intervals import Interval
from tinsmith.types.errors import ConfigError, DataError


def chart(name: str = "one", label: str = "a label") -> Markup | None:
    mark = class_mark("disruptive", 0)
    line = Line(label=label, mark=mark, steps=[0, 10, 20], values=[0.1, 0.5, 0.9])
    limits, flags = [Limit(0.75, "limit")], [Flag(1, 10, 0.5, mark)]
    return chart_svg(name, "what is seen", [line], shares=True, limits=limits, flags=flags)


def test_a_figure_is_the_same_bytes_again_whatever_a_reader_has_set() -> None:
    first = chart()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert chart() == first


def test_a_figure_has_ids_of_its_own_and_the_pages_colours() -> None:
    one, two = chart("one"), chart("two")
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg in (one, two):
        assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg)) <= ids[0] | ids[1]
    assert "var(--class-0)" in one
    assert "var(--alarm)" in one
    assert not re.search("#[0-9a-f]{6}", one)
    assert one.startswith('<svg class="figure" role="img" aria-label="what is seen" viewBox=')


def test_words_in_a_figure_are_text_and_are_escaped() -> None:
    svg = chart(label="<b>$x$ & y</b>")
    assert "&lt;b&gt;$x$ &amp; y&lt;/b&gt;" in svg
    assert "<b>" not in svg


def test_a_figure_without_a_point_is_none() -> None:
    empty = Line(label="a", mark=series_mark(0), steps=[], values=[])
    assert chart_svg("a", "b", [empty]) is None
    nothing = Dots("a", series_mark(0), [None])
    assert dots_svg("a", "b", ["row"], [Panel(title="t", dots=[nothing])]) is None


def test_a_single_place_on_the_axis_has_one_tick() -> None:
    line = Line(label="a", mark=series_mark(0), steps=[3], values=[0.5])
    texts = re.findall(r">([^<]+)</text>", str(chart_svg("a", "b", [line], shares=True)))
    assert [one for one in texts if one == "3" or one.startswith(("2.9", "3.0"))] == ["3"]


def test_dots_are_drawn_with_and_without_an_interval() -> None:
    dots = Dots("a", series_mark(1), [Measure(0.5, 0.4, 0.6), Measure(0.2), None])
    svg = dots_svg("a", "b", ["x", "y", "z"], [Panel(title="t", dots=[dots])])
    assert svg.count("var(--series-1)") >= 3


def test_an_interval_that_leaves_out_0_does_not_print_as_touching_it() -> None:
    gap = Measure(0.004, 0.0002, 0.01)
    (cell,) = shown_table("", "n", [Column(head="gap", form="+.3f")], [("a", gap)]).rows[0].cells
    assert gap.between == cell.under == "+0.0002 to +0.010"
    assert str(Interval(0.0002, 0.01, 0.95)) == "[0.0002, 0.010]"
    assert ranged(Measure(-1e-17, -0.0004, 1e-17)) == "0.000 (-0.0004 to 0.000)"


def test_colours_are_distinct_and_a_class_keeps_its_own_in_any_order() -> None:
    assert len(set(stand_ins().values())) == len(stand_ins())
    assert class_slot("neutral", 0) == class_slot("neutral", 2) == class_slot("balanced", 1)
    novelty = {class_mark(label, i) for i, label in enumerate(("novel", "balanced", "conventional"))}
    assert len(novelty) == 3


def test_a_running_mean_is_taken_around_its_place_and_shrinks_at_the_ends() -> None:
    values = np.array([1.0, 2.0, 6.0, 3.0, 8.0])
    assert running_mean(values, 3).tolist() == pytest.approx([1.0, 3.0, 11 / 3, 17 / 3, 8.0])


def test_one_value_that_is_very_large_leaves_later_means_alone() -> None:
    values = np.full(200, 0.1)
    values[50] = 1e17
    assert running_mean(values, 7)[100:103].tolist() == pytest.approx([0.1] * 3)


def test_many_lines_are_told_apart_and_leave_place_for_their_figure() -> None:
    marks = [series_mark(place) for place in range(32)]
    assert len(set(marks)) == 32
    lines = [Line(f"arm number {n}, with many words", mark, [0, 1], [0.0, n]) for n, mark in enumerate(marks)]
    heights = [
        float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', str(chart_svg("a", "b", lines[:n])))[0]) for n in (2, 32)
    ]
    assert heights[1] > 1.5 * heights[0]


def test_a_legend_has_as_many_columns_as_fit() -> None:
    assert legend_columns(["disruptive", "consolidating", "neutral", "invalid"]) == 4
    assert legend_columns(["control/shuffled_labels@1"] * 3) == 2
    uneven = ["RL", "RL, entropy bonus", "bonus, groups filtered", "bonus, stopped early", "RL, shuffled labels"]
    assert legend_columns(uneven) == 3
    assert legend_columns(["one"]) == 1


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
    with pytest.raises(ConfigError, match="field: path = "):
        named.save(tmp_path / "nowhere" / "macro_f1.svg")
    assert "--series-0: #" in file.read_text(encoding="utf-8")
    assert history.plot().svg == usual.svg == history._repr_html_()


def test_a_plot_of_nothing_is_refused_and_shown_as_text() -> None:
    with pytest.raises(DataError, match="metric\n  field: metrics = 'eval/macro_f2'\n  allowed: eval/macro_f1, "):
        History(LINES).plot("eval/macro_f2")
    with pytest.raises(DataError, match="there is no metric to draw"):
        History().plot()
    assert History()._repr_html_() == "[]"
