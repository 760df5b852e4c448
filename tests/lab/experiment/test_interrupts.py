"""Ctrl-C and SIGTERM: a checkpoint at the end of the step, a page that says so, and the same hashes after going on."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from label_runs import EXPERIMENT, keys, manifest, planned
from small_slice import Made

from command_line import command
from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.replay import replay
from tinsmith.lab.live.interrupts import InterruptedTwice, Interrupts
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import REPORT
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole


def given(made: Made, folder: Path) -> list[str]:
    return [f"{key}={value}" for key, value in keys(made, folder).items()]


def struck(monkeypatch: pytest.MonkeyPatch, at: int, *numbers: signal.Signals) -> None:
    """Send signals to this process when a step is recorded."""
    record = Run.record

    def recorded(self: Run[Any, Any], step: int, metrics: dict[str, float]) -> None:
        record(self, step, metrics)
        if step == at:
            for number in numbers:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(Run, "record", recorded)


def test_an_interrupted_run_saves_its_step_says_so_and_goes_on_to_the_same_hashes(
    made: Made, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, lines = tmp_path / "run", list[str]()
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        struck(patch, 0, signal.SIGTERM)
        ran = command(capsys, "run", EXPERIMENT, *given(made, folder))
    assert ran.code == 143
    assert "the checkpoint of step 1" in ran.err
    assert signal.getsignal(signal.SIGTERM) is before
    assert manifest(folder)["status"] == "interrupted"
    assert [mark.step for mark in RunFolder(folder).marks()] == [1]
    summary = re.search(r'id="summary".*?<p[^>]*>(.*?)</p>', (folder / REPORT).read_text(), re.DOTALL)
    assert summary[1].startswith("Interrupted")
    done = replay(folder, plan_of, steps=None, out=None, say=lines.append)
    assert done.comparison.equal
    assert any("stopped after step 1" in line for line in lines)
    assert not any("goes on" in line for line in lines)
    conduct(planned(made, folder), say=unsaid)
    assert manifest(folder)["hashes"] == manifest(whole)["hashes"]


def test_a_second_interrupt_ends_at_once_and_leaves_what_was_saved(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    struck(monkeypatch, 0, signal.SIGINT, signal.SIGINT)
    ran = command(capsys, "run", EXPERIMENT, *given(made, folder), code=130)
    assert "no checkpoint" in ran.err
    assert manifest(folder)["status"] == "interrupted"
    assert RunFolder(folder).marks() == []
    assert not (folder / REPORT).exists()


def test_signals_are_put_off_only_where_that_is_wanted() -> None:
    interrupts = Interrupts()
    with interrupts.noticed():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        interrupts.end()
        with interrupts.put_off():
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupts.number == signal.SIGINT
            with pytest.raises(InterruptedTwice):
                os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            interrupts.end()


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts().noticed():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
