"""Ctrl-C, SIGTERM and SIGKILL, again and again: what is left, and the same hashes after going on.

`bench/kills.py` kills runs at 30 random moments.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from label_runs import EXPERIMENT, keys, manifest, planned, run
from own_task import silent
from small_slice import Made

from command_line import command
from running import wait_for_end
from tinsmith.cli.registered import SUBJECTS, find, plan_of
from tinsmith.lab import course as course_module
from tinsmith.lab.experiment import conduct as conduct_module
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.experiment.replay import replay
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.task import Item
from tinsmith.lab.live.interrupts import InterruptedTwice, Interrupts
from tinsmith.lab.rollouts import Failure, Rollout, Sampling
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import CHECKPOINTS, MANIFEST, METRICS, REPORT, ROLLOUTS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.types.errors import LostError
from tinsmith.types.waits import Say
from warm import SCRIPT

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
    folder, told = tmp_path / "run", list[str]()
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
    assert summary is not None
    assert summary[1].startswith("Interrupted")
    done = replay(folder, SUBJECTS, plan_of, steps=None, out=None, say=told.append)
    assert done.comparison.equal
    assert any("stopped after step 1" in line for line in told)
    assert not any("goes on" in line for line in told)
    conduct(planned(made, folder), say=told.append)
    assert manifest(folder)["hashes"] == manifest(whole)["hashes"]


def test_a_second_interrupt_ends_at_once_and_leaves_what_was_saved(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    struck(monkeypatch, 0, signal.SIGINT, signal.SIGINT)
    ran = command(capsys, "run", EXPERIMENT, *given(made, folder))
    assert ran.code == 130
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


def on(made: Made, folder: Path) -> dict[str, str]:
    return {**keys(made, folder), "behavior_if_log_dir_exists": "resume"}


def die(made: Made, folder: Path, victim: str, file: str, number: int) -> int:
    """Run, or go on, until the kill; return the exit code. No server is left over."""
    changes = [f"{key}={value}" for key, value in on(made, folder).items()]
    dying = [str(Path(__file__).parents[2] / "shared" / "dying_run.py"), victim, file, str(number)]
    done = subprocess.run(
        [*SCRIPT, *dying, "run", EXPERIMENT, *changes], capture_output=True, text=True, check=False, process_group=0
    )
    assert done.stdout, done.stderr
    wait_for_end(int(done.stdout.split()[0]))
    return done.returncode


def marked(folder: Path) -> list[int]:
    lines = (folder / CHECKPOINTS).read_bytes().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_a_run_killed_twice_ends_with_the_same_hashes(made: Made, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    assert die(made, folder, "client", METRICS, 4) == -signal.SIGKILL
    assert marked(folder) == [2]
    assert die(made, folder, "both", MANIFEST, 2) == -signal.SIGKILL
    assert manifest(folder)["status"] == "running"
    run(made, folder, behavior_if_log_dir_exists="resume")
    assert manifest(folder)["hashes"] == manifest(whole)["hashes"]
    for name in (METRICS, ROLLOUTS):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_a_server_lost_while_the_test_split_is_looked_at_is_no_finished_run(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []
    sample = course_module.sample_groups

    def opening(base_url: str | None, settings: EmbeddedSettings, *_say: Say) -> Connection:
        opened.append(open_connection(base_url, settings))
        return opened[-1]

    def dying(
        client: Any, study: Any, items: Sequence[Item], sampling: Sampling
    ) -> list[list[Rollout[Item, Answer] | Failure[Item]]]:
        groups = sample(client, study, items, sampling)
        if items[0] not in study.papers.test or sampling.temperature > 0.0:
            return groups
        server = opened[0].server
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        lost = Failure(item=items[-1], sample=0, where="sample", what="it was being computed")
        return [*groups[:-1], [lost]]

    monkeypatch.setattr(conduct_module, "open_connection", opening)
    monkeypatch.setattr(course_module, "sample_groups", dying)
    last = {**on(made, tmp_path / "late"), "select_by": "last"}  # it is looked at once then
    with pytest.raises(LostError):
        conduct(make_plan(find(EXPERIMENT), last), say=silent)
    assert manifest(tmp_path / "late")["status"] == "lost"
