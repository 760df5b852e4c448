"""The service: 64 requests of 64 tokens through the official SDK against the engine called directly, preset `tiny`.

The same prompts and seeds on both sides, and the same tokens, or it stops. The server is a process of its own, as is a
direct engine; the client's work (the SDK, in this process) takes cores from the server, so both are told apart by CPU.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from peers import idle_threads_sleep, report

MODEL = "tinsmith/tiny"
REQUESTS, PROMPT, TOKENS, ROUNDS = 64, 16, 64, 7
LIMIT = 1.2

Tokens = list[list[int]]


def prompts() -> list[list[int]]:
    drawn = np.random.default_rng(0).integers(0, 4096, (REQUESTS, PROMPT))
    return [[int(token) for token in row] for row in drawn]


def direct(connection: Connection) -> None:
    """Serve rounds of the same requests from an engine of its own: wall, CPU and tokens of each."""
    from tinsmith.engine.engine import Engine
    from tinsmith.types.sampling import SampleRequest, SamplingParams

    engine = Engine({MODEL: MODEL})
    policy = engine.base_policy(MODEL)
    requests = [
        SampleRequest(
            prompt=np.array(prompt, np.int32),
            params=SamplingParams(seed=seed, stop=(), max_tokens=TOKENS),
        )
        for seed, prompt in enumerate(prompts())
    ]
    while connection.recv():
        start, cpu = time.perf_counter(), time.process_time()
        results = engine.sample(MODEL, requests, [policy] * REQUESTS)
        taken = (time.perf_counter() - start, time.process_time() - cpu)
        connection.send((*taken, [result.sequences[0].tokens.tolist() for result in results]))


def through_the_sdk(state: Path) -> tuple[Callable[[], Tokens], int]:
    """A round through the SDK, and the server's process id."""
    import tinker

    from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings

    server = EmbeddedServer(EmbeddedSettings(models={MODEL: MODEL}, state=state))
    client = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
    sampler = client.create_sampling_client(base_model=MODEL).result()
    inputs = [tinker.ModelInput.from_ints(prompt) for prompt in prompts()]

    def run() -> Tokens:
        futures = [
            sampler.sample(prompt, 1, tinker.SamplingParams(max_tokens=TOKENS, seed=seed, stop=[]))
            for seed, prompt in enumerate(inputs)
        ]
        return [list(future.result().sequences[0].tokens) for future in futures]

    return run, server.pid


def process_cpu(pid: int) -> float:
    """CPU-seconds of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    idle_threads_sleep()
    warnings.simplefilter("ignore")
    ours, theirs = get_context("spawn").Pipe()
    engine = get_context("spawn").Process(target=direct, args=(theirs,), daemon=True)
    engine.start()
    rows: list[tuple[float, float, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run, server = through_the_sdk(Path(folder))
        for round_idx in range(ROUNDS + 1):
            ours.send(True)
            wall_direct, cpu_direct, expected = ours.recv()
            start, cpu = time.perf_counter(), time.process_time()
            cpu_server = process_cpu(server)
            tokens = run()
            wall, cpu = time.perf_counter() - start, time.process_time() - cpu
            assert tokens == expected, "the service and the engine do not sample the same tokens"
            if round_idx > 0:  # the first one warms both sides up
                rows.append((wall, wall_direct, process_cpu(server) - cpu_server, cpu, cpu_direct))
    ours.send(False)
    walls, walls_direct, cpus, cpus_client, cpus_direct = (
        list(column) for column in zip(*rows, strict=True)
    )
    report("service, 64 x 64 tokens, wall, best", min(walls), min(walls_direct), LIMIT, "s")
    median = statistics.median
    report("service, 64 x 64 tokens, wall, median", median(walls), median(walls_direct), LIMIT, "s")
    report(
        "service, 64 x 64 tokens, CPU of the server, median",
        median(cpus),
        median(cpus_direct),
        LIMIT,
        "s",
    )
    print(
        f"service, CPU of the client (the SDK's own work), median: {median(cpus_client):.2f} s, "
        f"{median(cpus_client) / median(cpus_direct):.2f} of the engine's"
    )


if __name__ == "__main__":
    main()
