"""A server under mixed load for hours: training, sampling, saving, cancelling, wrong requests. Is its memory flat?

    python bench/mixed_load.py [MINUTES] [WORKERS] [IDLE]

Clients of the official SDK and bare sockets take turns; each session ends after a few steps, as those of scripts do.
A share IDLE of the time nothing is asked, so that the machine can be used meanwhile. Every minute the clients pause,
and what is in memory then is read: while they go on it is what they hold at the moment. What they leave behind is the
same mix all the time, as a cache of 32 weights whose sizes were drawn moves the server's memory by a tenth; a client
that was killed is taken for gone after six minutes, so that there are as many of those at the end as early on. What is
compared is the median of the second tenth of the readings with that of the last, so that caches are full at both.
Ray's store is told apart from the processes that look into it. It is a file of a size that is fixed at its start; pages
of it that were once written stay in memory, so what is read is the most that it has held, and that is compared from the
middle of the time on. numpy's pages of 2 MB are turned off: the system makes caches that are hardly filled into such
pages when it finds the time. Exit 1 where an answer was a 5xx, something hung, or memory has grown by more than 2 %.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import tinker
from tinker import types

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from running import HANG_S, KEY, NANO, Running

T = TypeVar("T")

GROWTH = 0.02
IDLE = 0.7
"""Of a round's time that is waited after it, unless another share is asked for."""
KINDS = ("", ":dora", ":qlora", ":full")
"""In turn, and not drawn: weights that are kept for a while differ in size, and their mix is to stay."""
LEFT_EVERY = 5
"""Of how many sessions one is left without its end, unless its weights are full: no multiple of the kinds, so that each
other one is left in turn. Of 32 weights that a server keeps, six or nine full ones differ by a tenth of its memory."""
SETTLED = 2.0
"""Seconds of a pause before memory is read: what was cancelled is drawn to its next step."""
TIMEOUT = ("--session-timeout", "0.1")
"""Hours after which the server frees what killed clients had."""
STORE, STORE_FILE = "Ray's store", "/dev/shm/plasma"
HEADERS = {"x-api-key": KEY}
CLIENT = httpx.Client()
"""One for all: each makes a TLS context of its own, which costs more than what it asks for."""


@dataclass(slots=True)
class Load:
    """Requests made, and faults met."""

    server: Running
    rng: random.Random
    asked: Counter[str] = field(default_factory=Counter[str])
    hung: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    def wait(self, name: str, result: Callable[[float], T]) -> T:
        """Return a future's `result`; note a hang."""
        self.asked[name] += 1
        try:
            return result(HANG_S)
        except TimeoutError:
            self.hung.append(name)
            raise


def datums(rng: random.Random, count: int) -> list[types.Datum]:
    """Ragged datums, half of which share a stem."""
    stem = [rng.randrange(5, 90) for _ in range(24)]
    made: list[types.Datum] = []
    for i in range(count):
        begin = stem if i % 2 else [rng.randrange(5, 90) for _ in range(8)]
        tokens = [*begin, *(rng.randrange(5, 90) for _ in range(rng.randrange(4, 40)))]
        inputs = {
            "target_tokens": types.TensorData(data=[*tokens[1:], 0], dtype="int64", shape=[len(tokens)]),
            "weights": types.TensorData(data=[1.0] * len(tokens), dtype="float32", shape=[len(tokens)]),
        }
        made.append(types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs=inputs))
    return made


def session(load: Load) -> None:
    """A client's life: train, save, sample from what was trained, go on from a checkpoint, end."""
    rng = load.rng
    client = tinker.ServiceClient(base_url=load.server.url, api_key=KEY)
    rest = tinker.RestClient(base_url=load.server.url, api_key=KEY)
    kind = KINDS[load.asked["session"] % len(KINDS)]
    rank = 32 if kind == ":full" else 8
    made = client.create_lora_training_client(base_model=NANO + kind, rank=rank, seed=rng.randrange(1000))
    training = made.result()
    for _ in range(2):
        backward = training.forward_backward(datums(rng, rng.randrange(2, 9)), "cross_entropy")
        stepped = training.optim_step(types.AdamParams(learning_rate=1e-4))
        load.wait("forward_backward", backward.result)
        load.wait("optim_step", stepped.result)
        sampler = training.save_weights_and_get_sampling_client().result()
        prompt = types.ModelInput.from_ints([rng.randrange(5, 90) for _ in range(rng.randrange(2, 60))])
        params = types.SamplingParams(max_tokens=rng.randrange(1, 40), stop=[])
        drawn = [sampler.sample(prompt, num_samples=4, sampling_params=params) for _ in range(3)]
        for each in drawn:
            load.wait("sample", each.result)
    state = load.wait("save_state", training.save_state(name="kept").result)
    weights = load.wait("save_weights", training.save_weights_for_sampler(name="sampled").result)
    other = client.create_training_client_from_state(state.path).result()
    load.wait("forward", other.forward(datums(rng, 2), "cross_entropy").result)
    for path in (state.path, weights.path):
        load.wait("delete", rest.delete_checkpoint_from_tinker_path(path).result)
    if load.asked["session"] % LEFT_EVERY or kind == ":full":
        load.wait("finish", client.close("success").result)
    else:  # its snapshots stay, as those of a client that was killed, which says nothing more
        for model in (training.model_id, other.model_id):
            post(load, "unload_model", {"model_id": model})
            load.asked["unload"] += 1
        training.holder.close()
    load.asked["session"] += 1


def post(load: Load, path: str, body: Mapping[str, object]) -> dict[str, Any]:
    """A request of the protocol, which must be accepted."""
    url = f"{load.server.url}/api/v1/{path}"
    answer = CLIENT.post(url, json=body, headers=HEADERS, timeout=HANG_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def cancelled(load: Load) -> None:
    """Long samples, given up while they are drawn."""
    made = post(load, "create_session", {})["session_id"]
    opened = {"session_id": made, "sampling_session_seq_id": 0, "base_model": NANO}
    sampler = post(load, "create_sampling_session", opened)["sampling_session_id"]
    asked = {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": {"max_tokens": 400},
        "num_samples": 4,
    }
    request = post(load, "asample", asked)["request_id"]
    time.sleep(load.rng.random() / 4)
    post(load, "cancel_future", {"request_id": request})
    url = f"{load.server.url}/api/v1/retrieve_future"  # of samples that were drawn by then: not JSON
    told = CLIENT.post(url, json={"request_id": request}, headers=HEADERS, timeout=HANG_S)
    assert told.status_code == 200, told.text
    post(load, f"sessions/{made}/finish", {"reason": {"type": "success"}})
    load.asked["cancel"] += 1


def mistakes(load: Load) -> None:
    """Requests that are wrong, each in another way; all are refused with a 4xx, or cut."""
    url, rng = load.server.url, load.rng
    posted: tuple[tuple[str, bytes, dict[str, str]], ...] = (
        ("/api/v1/asample", b"{", HEADERS),
        ("/api/v1/asample", b'{"sampling_session_id": "none", "seq_id": 0}', HEADERS),
        ("/api/v1/create_model", b'{"session_id": "x", "model_seq_id": -1}', HEADERS),
        ("/api/v1/forward_backward", os.urandom(rng.randrange(1, 3000)), HEADERS),
        ("/api/v1/optim_step", b'{"model_id": "none", "seq_id": 3}', HEADERS),
        ("/api/v1/load_weights", b'{"path": "tinker://../../etc", "model_id": "m"}', HEADERS),
        ("/api/v1/create_session", b"{}", {"x-api-key": "tml-wrong"}),
        ("/v1/chat/completions", b'{"model": "none", "messages": []}', HEADERS),
        ("/v1/completions", b'{"model": "tinsmith/nano", "prompt": 3, "n": -1}', HEADERS),
        ("/nowhere", b"", HEADERS),
    )
    for path, body, headers in posted:
        answer = CLIENT.post(url + path, content=body, headers=headers, timeout=HANG_S)
        load.asked["mistake"] += 1
        if not 400 <= answer.status_code < 500:
            load.wrong.append(f"{path}: {answer.status_code}")
    half(load, 200)


def half(load: Load, length: int) -> None:
    """A request of which only the beginning comes."""
    host, _, port = load.server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=HANG_S) as connection:
        head = f"POST /api/v1/asample HTTP/1.1\r\nhost: {host}\r\nx-api-key: {KEY}\r\n"
        connection.sendall(f"{head}content-length: {length}\r\n\r\n{{".encode())
    load.asked["half"] += 1


def chats(load: Load) -> None:
    """Completions, some of them streams that are left before their end."""
    body = {"model": NANO, "prompt": "tin", "max_tokens": 200, "n": 2}
    headers = {"authorization": f"Bearer {KEY}"}
    url = f"{load.server.url}/v1/completions"
    whole = CLIENT.post(url, json=body, headers=headers, timeout=HANG_S)
    assert whole.status_code == 200, whole.text
    with CLIENT.stream("POST", url, json={**body, "stream": True}, headers=headers, timeout=HANG_S) as streamed:
        next(streamed.iter_raw())
    load.asked["completion"] += 2
    cancelled(load)


def resident(pid: int) -> int:
    """Bytes in memory that a process has for itself.

    Without the files that are mapped: of libraries each process counts its share, and so seems to grow by 15 MB where
    another process that uses them, of the same machine, ends. And without its share of Ray's store, which grows with
    every page that it happens to read first, whoever wrote it.
    """
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    return next(int(row[1]) << 10 for row in rows if row[0] == "Pss_Anon:")


def read_of_store(pid: int) -> int:
    """Bytes of Ray's store whose pages a process has touched; 0: there is none."""
    touched, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            inside = any(part.startswith(STORE_FILE) for part in rest)
        elif inside and first == "Rss:":
            touched += int(rest[0]) << 10
    return touched


def processes(load: Load) -> dict[str, int]:
    """The server and its workers, by name."""
    told = CLIENT.get(f"{load.server.url}/api/v1/tinsmith/workers", headers=HEADERS, timeout=HANG_S).json()
    found = {each["name"]: int(each["pid"]) for each in told["workers"] if each["alive"]}
    return {"server": load.server.process.pid, **found}


def server_errors(load: Load) -> int:
    """Answers of 5xx so far, by the server's own count."""
    text = CLIENT.get(f"{load.server.url}/metrics", headers=HEADERS, timeout=HANG_S).text
    lines = [line for line in text.splitlines() if line.startswith("tinsmith_http_requests_total")]
    return sum(int(float(line.split()[-1])) for line in lines if 'status="5' in line)


def growth(name: str, seen: list[int]) -> tuple[float, float, float]:
    """(median of the second tenth, or of the store's sixth, of the last, how much more that is)."""
    tenth = max(1, len(seen) // 10)
    begin = (5 if name == STORE else 1) * tenth
    early = statistics.median(seen[begin : begin + tenth] or seen)
    late = statistics.median(seen[-tenth:])
    return early, late, late / early - 1


@dataclass(slots=True)
class Pause:
    """Pause of the clients, and the number of busy ones."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    wanted: bool = False
    busy: int = 0

    def begin(self) -> None:
        """Wait for the end of a pause."""
        with self.changed:
            self.changed.wait_for(lambda: not self.wanted)
            self.busy += 1

    def end(self) -> None:
        """Nothing is asked any more."""
        with self.changed:
            self.busy -= 1
            self.changed.notify_all()

    @contextmanager
    def held(self) -> Generator[None]:
        """Nobody asks anything meanwhile."""
        with self.changed:
            self.wanted = True
            assert self.changed.wait_for(lambda: self.busy == 0, HANG_S), "a client hangs"
        time.sleep(SETTLED)
        try:
            yield
        finally:
            with self.changed:
                self.wanted = False
                self.changed.notify_all()


def repeat(load: Load, what: Callable[[Load], None], pause: Pause, over: threading.Event, idle: float = IDLE) -> None:
    """Do it again and again, with rests."""
    while not over.is_set():
        pause.begin()
        began = time.monotonic()
        try:
            what(load)
        except Exception as error:
            load.wrong.append(f"{what.__name__}: {type(error).__name__}: {error}"[:300])
        finally:
            pause.end()
        over.wait((time.monotonic() - began) * idle / (1 - idle) + 0.05)


def main() -> int:
    """Load the server, and tell what it cost."""
    warnings.simplefilter("ignore")
    os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # of the server and its workers
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    idle = float(sys.argv[3]) if len(sys.argv) > 3 else IDLE
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--workers", str(workers)) if workers else ()
        server = Running(Path(folder) / "state", *TIMEOUT, *flags)
        over, pause = threading.Event(), Pause()
        loads = [Load(server, random.Random(i)) for i in range(4)]
        kinds = (session, session, mistakes, chats)
        threads = [
            threading.Thread(target=repeat, args=(load, kind, pause, over, idle), daemon=True)
            for load, kind in zip(loads, kinds, strict=True)
        ]
        for thread in threads:
            thread.start()
        seen: dict[str, list[int]] = {}
        every = min(60.0, minutes * 60 / 20)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            time.sleep(every)
            with pause.held():
                pids = processes(loads[0])
                for name, pid in pids.items():
                    seen.setdefault(name, []).append(resident(pid))
                if workers:
                    seen.setdefault(STORE, []).append(max(map(read_of_store, pids.values())))
            told = ", ".join(f"{name} {sizes[-1] >> 20} MB" for name, sizes in seen.items())
            print(f"{sum(each.asked['session'] for each in loads)} sessions: {told}", flush=True)
        over.set()
        for thread in threads:
            thread.join(HANG_S)
        errors, alive = server_errors(loads[0]), [each.is_alive() for each in threads]
        said = server.complaints
        server.stop()
    asked = sum((each.asked for each in loads), Counter[str]())
    hung = [one for each in loads for one in each.hung] + ["a client" for each in alive if each]
    wrong = [one for each in loads for one in each.wrong]
    print("asked:", ", ".join(f"{name} {count:,}" for name, count in sorted(asked.items())))
    print(f"5xx: {errors}; hung: {len(hung)}; wrong: {len(wrong)}; complaints: {len(said)}")
    for line in (*wrong[:5], *said[:5]):
        print("  ", line)
    grown = 0.0
    for name, sizes in seen.items():
        early, late, more = growth(name, sizes)
        grown = max(grown, more)
        print(f"{name}: {early / 2**20:.1f} MB to {late / 2**20:.1f} MB, {more:+.2%}")
    return 1 if errors or hung or wrong or grown > GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
