"""What ends the processes of a Ray: those that bear the mark, those that these start, and no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinsmith.engine.cluster import ray_guardian

MARK = "TINSMITH_RAY_TEST"
WAITING = "import sys; print('there', flush=True); sys.stdin.read()"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def _waiting(*marks: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **dict.fromkeys(marks, "1")}
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_only_what_bears_the_mark_is_ended_when_its_first_process_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    (folder / "session").mkdir(parents=True)
    of_ray, nested = _waiting(MARK), _waiting(MARK, f"{MARK}_OTHER")
    others = [_waiting(), _waiting(f"{MARK}_OTHER")]
    try:
        assert set(ray_guardian.marked(MARK)) == {of_ray.pid, nested.pid}
        guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", ray_guardian.__file__, MARK, str(folder)], stdin=subprocess.PIPE
        )
        assert guardian.stdin is not None
        guardian.stdin.close()
        assert [of_ray.wait(), nested.wait()] == [-9, -9]
        assert guardian.wait() == 0
        assert [other.poll() for other in others] == [None, None]
        assert not folder.exists()
    finally:
        for process in (of_ray, nested, *others):
            process.communicate()


def test_a_process_that_is_marked_itself_does_not_end_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    process = _waiting(MARK)
    monkeypatch.setattr(os, "getpid", lambda: process.pid)
    assert ray_guardian.marked(MARK) == []
    process.communicate()
