"""The page of a run that goes on: a bar and a reload on top of it, both gone at its end; no trouble ends a run."""

import errno
import fcntl
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinsmith.lab.live.progress import Standing
from tinsmith.lab.page import live_page
from tinsmith.lab.page.live_page import conduct_with_page, draw_page, settle_page, with_progress
from tinsmith.lab.results.run_details import side_of, verdict
from tinsmith.pages.measures import Measure
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

POLICY = '<meta content="script-src &#39;sha256-abc=&#39;; base-uri &#39;none&#39;">'
PAGE = f"<html><head>{POLICY}<title>x</title>\n</head>\n<body class='run'>\n<main>story</main>\n</body></html>\n"
FAR = Standing(step=12, steps=100, seconds_left=180.0, later=" & more")


def test_a_page_gets_a_bar_and_reloads_itself() -> None:
    html = with_progress(PAGE, FAR)
    assert html.count("<script>") == 1
    assert html.count("&#39;sha256-") == 2
    assert 'value="12" max="100"' in html
    assert "3.0 min left &amp; more" in html
    assert html.index("</head>") < html.index("<progress")
    assert html.index("<progress") < html.index("story")


def test_a_stopped_runs_page_is_what_it_was_without_them(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(with_progress(PAGE, FAR), encoding="utf-8")
    settle_page(tmp_path)
    assert file.read_text(encoding="utf-8") == PAGE
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(("is_written", "has_locks"), [(True, True), (False, True), (False, False)])
def test_the_page_of_a_run_that_another_process_is_at_is_left_alone(
    is_written: bool, has_locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:  # as on a network drive
        raise OSError(errno.ENOLCK, "No locks available")

    def refused(*_: object, **__: object) -> None:
        raise ConfigError("another process is running in this folder", field="log_path")

    file = tmp_path / "report.html"
    file.write_text(with_progress(PAGE, FAR), encoding="utf-8")
    monkeypatch.setattr(live_page, "conduct", refused)
    plan: Any = SimpleNamespace(circumstances=SimpleNamespace(log_path=tmp_path, quiet=True))
    place = os.open(tmp_path, os.O_RDONLY)
    if is_written:
        fcntl.flock(place, fcntl.LOCK_EX)
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(ConfigError):
        conduct_with_page(plan, unsaid)
    os.close(place)
    assert (file.read_text(encoding="utf-8") == PAGE) is not is_written


def test_where_there_is_no_page_there_is_nothing_to_settle(tmp_path: Path) -> None:
    settle_page(tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_page_that_cannot_be_drawn_is_told_in_a_line_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    drawn = draw_page(tmp_path, FAR)
    assert drawn.page is None
    assert "\n" not in drawn.trouble
    assert not (tmp_path / "report.html").exists()


SCORE = Measure(0.5, 0.4, 0.6)


def test_below_chance_is_worse_than_guessing_and_says_nothing_of_baselines() -> None:
    more = "one class, neutral, in 276 of 276 greedy answers"
    found = Measure(0.31, 0.30, 0.32)
    assert verdict("macro-F1", found, chance=1 / 3, baselines=[("Constant", 0.167, 1)], more=more) == (
        "Worse than guessing: macro-F1 0.310 (0.300 to 0.320), chance 0.333, best baseline Constant 0.167; "
        "one class, neutral, in 276 of 276 greedy answers."
    )


@pytest.mark.parametrize(
    ("chance", "head"),
    [(0.65, "Worse than guessing"), (0.45, "No better than guessing"), (0.35, "Better than guessing")],
)
def test_the_interval_decides_on_which_side_of_chance_a_score_is(chance: float, head: str) -> None:
    assert verdict("accuracy", SCORE, chance=chance).startswith(f"{head}: accuracy 0.500")


def test_the_best_of_the_baselines_is_the_one_that_is_named() -> None:
    low, high = ("always up", 0.2, 1), ("TF-IDF", 0.8, -1)
    found = verdict("accuracy", SCORE, chance=0.333, baselines=[low, high])
    assert found.startswith("Better than guessing, below the best baseline:")
    assert found.endswith("best baseline TF-IDF 0.800.")
    assert "above the best baseline" in verdict("accuracy", SCORE, chance=0.333, baselines=[low])


def test_without_chance_the_score_stands_beside_that_before_training() -> None:
    assert verdict("mean reward", SCORE, before=("before training", 0.2, 1)) == (
        "Better than before training: mean reward 0.500 (0.400 to 0.600), before training 0.200, no baseline is known."
    )


def test_a_score_without_an_interval_is_compared_by_its_value() -> None:
    assert [side_of(Measure(0.5), level) for level in (0.4, 0.5, 0.6)] == [1, 0, -1]
