"""`tinsmith.connect`: the official client, and a server that lives and dies with it."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker

from running import HANG_S, KEY, NANO, Running, wait_for_end
from tinsmith.lab.experiment.materials import require_server
from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings, connect
from tinsmith.types.errors import BackendError, ConfigError, LostError
from warm import SCRIPT

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

PARENT = """
import signal, sys, warnings
warnings.simplefilter("ignore")
import tinsmith
from pathlib import Path
client = tinsmith.connect(state=Path(sys.argv[1]))
import os
print(*[pid for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == os.getpid()])
sys.stdout.flush()
signal.pause()
"""
PARENT = PARENT.replace(
    "client =",
    "def parent(pid):\n"
    "    try: return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
    "    except OSError: return None\n"
    "client =",
)


def _datum(tokens: list[int]) -> tinker.Datum:
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tinker.TensorData(data=tokens[1:], dtype="int64", shape=[len(tokens) - 1])},
    )


@pytest.fixture
def embedded(tmp_path: Path) -> Generator[EmbeddedServer, None, None]:
    server = EmbeddedServer(EmbeddedSettings(models={NANO: NANO}, state=tmp_path / "state"))
    yield server
    server.close()


def _client(server: EmbeddedServer) -> tinker.ServiceClient:
    return tinker.ServiceClient(base_url=server.base_url, api_key=server.key)


def test_an_embedded_server_trains_and_samples(tmp_path: Path) -> None:
    with connect(state=tmp_path / "state") as service:
        assert type(service) is tinker.ServiceClient
        trainer = service.create_lora_training_client(NANO, rank=4).result()
        losses: list[float] = []
        datum = _datum(list(range(20, 40)))
        for _ in range(3):
            result = trainer.forward_backward([datum], "cross_entropy").result()
            losses.append(result.metrics["loss:sum"])
            trainer.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
        assert losses[0] > losses[1] > losses[2]
        sampler = trainer.save_weights_and_get_sampling_client().result()
        sampled = sampler.sample(
            tinker.ModelInput.from_ints([20, 21, 22]), 2, tinker.SamplingParams(max_tokens=5)
        ).result()
        assert [len(sequence.tokens) for sequence in sampled.sequences] == [5, 5]


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        (EmbeddedSettings(models={NANO: NANO}), []),
        (EmbeddedSettings(models={NANO: NANO}, workers=2), ["--workers", "2"]),
        (EmbeddedSettings(models={NANO: NANO}, workers=3, shards=2), ["--workers", "3", "--shards", "2"]),
    ],
)
def test_workers_are_asked_for_only_where_there_are_any(
    settings: EmbeddedSettings, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def noted(command: list[str], **_: object) -> None:
        commands.append(command)
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(FileNotFoundError):
        EmbeddedServer(settings)
    (command,) = commands
    assert command[command.index(f"{NANO}={NANO}") + 1 :] == flags


def test_a_given_server_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    with Running(tmp_path / "state") as server, connect(server.url) as service:
        sampler = service.create_sampling_client(base_model=NANO).result()
        prompt = tinker.ModelInput.from_ints([1, 2])
        assert len(sampler.compute_logprobs(prompt).result()) == 2
        assert len(server.http.get("/api/v1/sessions").json()["sessions"]) == 1


def test_closing_leaves_no_process_and_a_state_in_order(embedded: EmbeddedServer, tmp_path: Path) -> None:
    pid = embedded.pid
    embedded.close()
    assert not Path(f"/proc/{pid}").exists()
    assert (tmp_path / "state" / "tinsmith.sqlite3").exists()
    assert not (tmp_path / "state" / "tinsmith.sqlite3-wal").exists()  # it was not ended by force
    embedded.close()


def test_the_server_dies_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    command = [*SCRIPT, str(tmp_path / "parent.py"), str(tmp_path / "state")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with parent.stdout:
        children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 1
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for_end(children[0])


def _told(call: Callable[[], Any]) -> str:
    with pytest.raises(tinker.TinkerError) as caught:
        call()
    return str(caught.value)


def test_clients_of_a_killed_server_are_told(embedded: EmbeddedServer) -> None:
    service = _client(embedded)
    trainer = service.create_lora_training_client(NANO, rank=4).result()
    sampler = trainer.save_weights_and_get_sampling_client().result()
    params = tinker.SamplingParams(max_tokens=900, stop=[])
    prompt = tinker.ModelInput.from_ints([1, 2, 3])
    long = sampler.sample(prompt, 8, params)
    # Once this is answered, the one before it is being computed.
    sampler.sample(prompt, 1, tinker.SamplingParams(max_tokens=1)).result(HANG_S)
    os.kill(embedded.pid, signal.SIGKILL)
    calls: list[Callable[[], Any]] = [
        lambda: long.result(HANG_S),
        lambda: trainer.forward_backward([_datum([1, 2, 3])], "cross_entropy").result(HANG_S),
        lambda: sampler.sample(prompt, 1, params).result(HANG_S),
        # To close it is told as well, and stops its heartbeat before the port is free for another server.
        lambda: service.close("errored").result(HANG_S),
    ]
    for call in calls:
        message = _told(call)
        assert "embedded server" in message
        assert "-9" in message


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(BackendError) as caught:
        connect(models={"mine": str(tmp_path / "nothing")}, state=tmp_path / "state")
    message = str(caught.value)
    assert str(tmp_path / "nothing") in message


def test_a_server_that_cannot_be_asked_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_CREDENTIAL_CMD", raising=False)
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ConfigError) as caught:
        require_server("http://127.0.0.1:9")
    assert caught.value.field == "TINKER_API_KEY"
    monkeypatch.setenv("TINKER_API_KEY", "tml-x")
    with pytest.raises(ConfigError) as caught:
        require_server("foo")
    assert (caught.value.field, caught.value.value) == ("base_url", "foo")
    with pytest.raises(LostError) as lost:
        require_server("http://127.0.0.1:9")
    assert lost.value.value == "http://127.0.0.1:9"


def test_at_its_end_a_process_does_not_look_for_garbage() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}; import tinsmith.lab.service.connect"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == ["True"]
