"""Killed with SIGKILL in the middle of a write, again and again, and resumed: the hashes of a run left alone.

`bench/kills.py` does the same at 30 random moments.
"""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from label_runs import EXPERIMENT, keys, manifest, run
from small_slice import Made

from running import wait_for_end
from tinsmith.cli.registered import find
from tinsmith.lab import course as course_module
from tinsmith.lab.experiment import conduct as conduct_module
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.task import Item
from tinsmith.lab.rollouts import Failure, Rollout, Sampling
from tinsmith.lab.runs.files import CHECKPOINTS, MANIFEST, METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.types.errors import LostError
from tinsmith.types.waits import Say, unsaid
from warm import SCRIPT

pytestmark = pytest.mark.whole


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
        os.kill(server.pid, signal.SIGKILL)
        lost = Failure(item=items[-1], sample=0, where="sample", what="it was being computed")
        return [*groups[:-1], [lost]]

    monkeypatch.setattr(conduct_module, "open_connection", opening)
    monkeypatch.setattr(course_module, "sample_groups", dying)
    last = {**on(made, tmp_path / "late"), "select_by": "last"}  # it is looked at once then
    with pytest.raises(LostError):
        conduct(make_plan(find(EXPERIMENT), last), say=unsaid)
    assert manifest(tmp_path / "late")["status"] == "lost"
