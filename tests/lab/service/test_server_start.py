"""An embedded server comes up, is interrupted, killed or forsaken: with real processes, waiting for what they do.

`Stuck` is a server that stops on its way up, at an import, and never goes on; it tells its process id first.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from running import NANO, wait_for_end
from tinsmith.lab.service import connect as server_start
from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings, wait_until_ready
from tinsmith.types.errors import BackendError, LostError
from warm import SCRIPT

pytestmark = pytest.mark.whole

NEVER_UP = """
import os, signal
with open(os.environ["TELL_PID"], "w") as file:
    file.write(str(os.getpid()))
while True:
    signal.pause()
"""
"""Takes the place of a library of the server's."""

CONNECTING = """
import os, sys, warnings
os.environ["PYTHONPATH"] = sys.argv[2]
warnings.simplefilter("ignore")
from pathlib import Path
import tinsmith
print("on its way", flush=True)
try:
    tinsmith.connect(state=Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.read()
"""

SAMPLING = """
import signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import tinker
from tinsmith.lab.service.connect import EmbeddedSettings, open_connection
name = "tinsmith/nano"
connection = open_connection(None, EmbeddedSettings(models={name: name}, state=Path(sys.argv[1])))
sampler = connection.client.create_sampling_client(base_model=name)
try:
    print(connection.server.pid, flush=True)
    while True:
        signal.pause()
except KeyboardInterrupt:
    pass
prompt, params = tinker.ModelInput.from_ints([1, 2, 3]), tinker.SamplingParams(max_tokens=4, stop=[])
print(len(sampler.sample(prompt, 1, params).result().sequences[0].tokens), flush=True)
connection.close()
print("closed", flush=True)
"""


class Script:
    """A Python program in a process group of its own, as a shell or a notebook would start it."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [*command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def interrupt(self) -> None:
        """As Ctrl-C does: the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipe from which the id of a server that never comes up can be read."""
    pipe, fakes = tmp_path / "pid", tmp_path / "fakes"
    os.mkfifo(pipe)
    fakes.mkdir()
    (fakes / "torch.py").write_text(NEVER_UP)
    monkeypatch.setenv("PYTHONPATH", str(fakes))
    monkeypatch.setenv("TELL_PID", str(pipe))
    return pipe


@pytest.fixture
def connecting(stuck: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Script]:
    assert stuck.is_fifo()
    fakes = os.environ["PYTHONPATH"]
    monkeypatch.delenv("PYTHONPATH")  # for the server alone
    (tmp_path / "connecting.py").write_text(CONNECTING)
    script = Script(*SCRIPT, str(tmp_path / "connecting.py"), str(tmp_path / "state"), fakes)
    assert script.line() == "on its way"
    yield script
    script.end()


def test_an_interrupted_process_group_keeps_its_server(tmp_path: Path) -> None:
    (tmp_path / "sampling.py").write_text(SAMPLING)
    script = Script(*SCRIPT, str(tmp_path / "sampling.py"), str(tmp_path / "state"))
    server = int(script.line())
    assert os.getsid(server) == server
    script.interrupt()
    assert script.line() == "4"
    assert script.line() == "closed"
    wait_for_end(server)
    script.end()


def test_interrupted_on_its_way_up_it_leaves_no_process(connecting: Script, stuck: Path) -> None:
    server = int(stuck.read_text())
    connecting.interrupt()
    assert connecting.line() == "interrupted"
    wait_for_end(server)


def test_it_does_not_come_up_for_a_parent_that_is_gone(connecting: Script, stuck: Path) -> None:
    server = int(stuck.read_text())
    connecting.process.kill()
    wait_for_end(server)


@pytest.mark.usefixtures("cold_servers")
def test_killed_on_its_way_up_it_says_by_what_and_what_it_did(tmp_path: Path, stuck: Path) -> None:
    killer = subprocess.Popen(["sh", "-c", 'kill -9 "$(cat "$0")"', str(stuck)])
    with pytest.raises(LostError) as caught:
        EmbeddedServer(EmbeddedSettings(models={NANO: NANO}, state=tmp_path / "state"))
    assert killer.wait() == 0
    message = str(caught.value)
    assert "SIGKILL" in message
    assert "loading the libraries" in message
    assert "behavior_if_log_dir_exists" not in message


@pytest.mark.usefixtures("stuck", "cold_servers")
def test_one_that_does_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_start, "STILL_SECONDS", 0.0)
    with pytest.raises(BackendError) as caught:
        EmbeddedServer(EmbeddedSettings(models={NANO: NANO}, state=tmp_path / "state"))
    message = str(caught.value)
    assert "last line" in message


class Starting(threading.Event):
    """A server's process, its lines and their event: one observation for each wait, then it answers.

    An observation is a time in seconds, the number of lines and the processor time used so far.
    """

    pid, doing = 1, "the server"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *observations: tuple[float, int, int]) -> None:
        super().__init__()
        self.left = list(observations)
        self.now, self.count, self.ticks = 0.0, 0, 0
        self.base_url, self.killed, self.settled = "", False, self
        monkeypatch.setattr(server_start.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(server_start, "_cpu_ticks", lambda _: self.ticks)

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        if self.left:
            self.now, self.count, self.ticks = self.left.pop(0)
            return False
        self.base_url = "http://127.0.0.1:1"
        return True

    def kill(self) -> None:
        self.killed = True
        self.left.clear()

    def join(self) -> None:
        pass


@pytest.mark.parametrize("last", [(420.0, 1, 11), (500.0, 1, 12), (500.0, 2, 11)])
def test_a_start_that_computes_or_prints_is_waited_for(
    last: tuple[float, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It computes by 100 s and prints by 300 s; then it may do nothing for 120 s.
    start = Starting(monkeypatch, (5.0, 0, 10), (100.0, 0, 11), (215.0, 0, 11), (300.0, 1, 11), (310.0, 1, 11), last)
    assert wait_until_ready(start, start) == "http://127.0.0.1:1"
    assert not start.killed


def test_a_start_is_given_up_120_seconds_after_it_last_did_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Starting(monkeypatch, (5.0, 0, 10), (100.0, 0, 11), (200.0, 1, 11), (320.0, 1, 11), (320.5, 1, 11))
    with pytest.raises(BackendError, match="last line"):
        wait_until_ready(start, start)
    assert start.killed


def test_what_it_does_is_told_before_it_answers(tmp_path: Path) -> None:
    serve = [sys.executable, "-m", "tinsmith", "serve", "--port", "0", "--exit-with-stdin"]
    process = subprocess.Popen(
        [*serve, "--model", NANO, "--state", str(tmp_path / "state")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().startswith("tinsmith serve: ")
    _, words = process.communicate("")
    lines = words.splitlines()
    assert all(line.startswith("starting: ") for line in lines)
    assert len(lines) >= 4
    assert sum(NANO in line for line in lines) >= 2
