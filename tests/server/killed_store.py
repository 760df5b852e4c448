"""Kills a process that writes to a store, again and again, and checks what the next one finds.

Run as a script: `killed_store.py STATE ROUNDS SEED`. It imports once and forks the writers.
"""

import hashlib
import os
import random
import signal
import sqlite3
import sys
import traceback
from itertools import count
from pathlib import Path

from tinsmith.server.database.private import FILE
from tinsmith.server.database.records import Finished, NoResult
from tinsmith.server.database.store import Store


def write_for_ever(state: Path, seed: int, told: int) -> None:
    """Finish requests of all sizes, and tell of each one after it was finished."""
    rng = random.Random(seed)
    store = Store(state)
    session = store.create_session()
    for seq_id in count():
        owner = f"{session.session_id}:train:0"
        request_id, _ = store.open_request(owner=owner, seq_id=seq_id, kind="forward_backward")
        occurrence = store.occurrence("the only key")
        body = rng.randbytes(rng.choice((10, 3_000, 100_000)))
        with store.batch():
            store.create_sampling_session(session_id=session.session_id, sampling_session_seq_id=seq_id, base_model="m")
            store.finish(request_id, body=body, media_type="application/x-protobuf")
        line = f"{request_id} {hashlib.sha256(body).hexdigest()} {occurrence}\n"
        os.write(told, line.encode())


def killed_after(state: Path, seed: int, num_lines: int, num_spins: int) -> list[list[str]]:
    """Let a writer tell of some requests, kill it a little later; return all it told of."""
    reads, messages = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(state, seed, messages)
        except BaseException:
            traceback.print_exc()
        os._exit(3)
    os.close(messages)
    with os.fdopen(reads) as lines:
        seen = [lines.readline() for _ in range(num_lines)]
        for _ in range(num_spins):
            pass
        os.kill(child, signal.SIGKILL)
        seen += lines.readlines()
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the writer died of something else"
    return [line.split() for line in seen if line.endswith("\n")]


def check(state: Path, all_told: dict[str, str], occurrence: int, num_sessions: int) -> None:
    """Open the file that was left behind, and find everything that was told of."""
    with sqlite3.connect(state / FILE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    with Store(state) as store:
        for request_id, sha256 in all_told.items():
            outcome = store.result(request_id)
            assert isinstance(outcome, Finished), (request_id, outcome)
            assert hashlib.sha256(outcome.body).hexdigest() == sha256
        assert len(store.sessions()) == num_sessions
        for request in store.pending():
            assert store.result(request.request_id) is NoResult.PENDING
            assert request.request_id not in all_told
        # A batch is whole or absent: as many samplers as finished requests.
        for session in store.sessions():
            owner = f"{session.session_id}:train:0"
            num_pending = sum(request.owner == owner for request in store.pending())
            num_samplers = len(store.sampling_sessions(session_id=session.session_id))
            assert num_samplers == len(store.seq_ids(owner)) - num_pending
            assert num_pending <= 1
        assert store.occurrence("the only key") > occurrence


def main(state: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    all_told: dict[str, str] = {}
    for round_idx in range(rounds):
        printed = killed_after(state, seed + round_idx, rng.randint(1, 40), rng.randint(0, 200_000))
        all_told |= {request_id: sha256 for request_id, sha256, _ in printed}
        check(state, all_told, int(printed[-1][2]), num_sessions=round_idx + 1)
    print(len(all_told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
