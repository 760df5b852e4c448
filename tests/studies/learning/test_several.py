"""One page over several studies: their first sentences, every arm in the picture, and the checks below."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import TASK, Maker

from tinsmith.cli.registered import source_of
from tinsmith.lab.study.driver import Outcome
from tinsmith.lab.study.results import Draws
from tinsmith.pages.document import Section, note
from tinsmith.pages.page import document_html
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.learning.headline import headline
from tinsmith.studies.learning.results import LearningFound
from tinsmith.studies.learning.several import several_document
from tinsmith.studies.learning.study import learn

DRAWS = Draws(claims=Bootstrap(draws=200), tables=Bootstrap(draws=100))


def outcome(out: str, share: float, **keys: str) -> Outcome:
    given = {"task": "made.py", "out": out, "score": "right", "arms": "zero_shot,rl", **keys}
    run = Maker({"rl-": share}, [], general=True)
    done = learn({}, given, lambda _: None, open_source=source_of, run=run, draws=DRAWS)
    assert done.outcome is not None
    return done.outcome


def test_each_task_has_its_sentences_its_arms_and_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)
    found = {"Easy": outcome("easy", 1.0), "Hard": outcome("hard", 0.25)}
    page = several_document("Both", "What?", (), found, (Section("again", "The same again", (note("equal"),)),))
    assert [one.title for one in page.sections] == ["Summary", "Easy", "Hard", "The same again"]
    html = document_html(page)
    for name, each in found.items():
        assert f"{name}, right: " in html
        assert all(sentence in html for sentence in headline(each.found))  # type: ignore[arg-type]
    assert html.count('id="again"') == 1


def test_a_forecast_has_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)
    given = {"task": "made.py", "out": "none", "dry_run": "true", "model_name": "tinsmith/nano"}
    rates = {"sft_rates": "1e-3", "rl_rates": "1e-3"}
    done = learn({}, {**given, **rates}, lambda _: None, open_source=source_of)
    assert done.outcome is None
    assert not Path("none").exists()


def test_the_headline_has_the_figures_and_calls_chance_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)
    for share, risen in ((1.0, True), (0.25, False)):
        found = outcome(f"share-{share}", share).found
        assert isinstance(found, LearningFound)
        (arm,) = found.arms
        moved = arm.of("metric/right")
        assert moved is not None
        before, after, *_ = headline(found)
        assert f"{found.untrained.value:.2f}" in before
        assert f"{moved.after.value:.2f}" in after
        assert ("raises" in after) == risen
        assert ("chance" in after) != risen
