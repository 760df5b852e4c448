"""The service: requests through HTTP, and through the official SDK, against the engine called directly, preset `tiny`.

64 requests of 64 tokens, and 1,000 short ones at once. The same prompts and seeds on both sides, and the same tokens,
or it stops. The server is a process of its own, as is a direct engine; the client's work (the SDK, in this process)
takes cores from the server, so both are told apart by CPU; a client that only writes to sockets takes hardly any.
Then: what reading a training request costs, beside a step.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from peers import idle_threads_sleep, report
from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings

MODEL = "tinsmith/tiny"
PROMPT, LIMIT = 16, 1.15


@dataclass(frozen=True, slots=True)
class Load:
    """So many requests at once, each for so many tokens."""

    requests: int
    tokens: int
    rounds: int


LOADS = (Load(64, 64, 7), Load(1000, 4, 5))
DATUMS, POSITIONS, PARSE_LIMIT = 128, 128, 0.05

Tokens = list[list[int]]
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def prompts(count: int) -> list[list[int]]:
    drawn = np.random.default_rng(0).integers(0, 4096, (count, PROMPT))
    return [[int(token) for token in row] for row in drawn]


def direct(connection: Connection) -> None:
    """Serve rounds of the same requests from an engine of its own: wall, CPU and tokens of each."""
    from tinsmith.engine.engine import Engine
    from tinsmith.types.sampling import SampleRequest, SamplingParams

    engine = Engine({MODEL: MODEL})
    policy = engine.base_policy(MODEL)
    asked = {
        load: [
            SampleRequest(
                prompt=np.array(prompt, np.int32), params=SamplingParams(seed=seed, stop=(), max_tokens=load.tokens)
            )
            for seed, prompt in enumerate(prompts(load.requests))
        ]
        for load in LOADS
    }
    while (load := connection.recv()) is not None:
        start, cpu = time.perf_counter(), time.process_time()
        results = engine.sample(MODEL, asked[load], [policy] * load.requests)
        taken = (time.perf_counter() - start, time.process_time() - cpu)
        connection.send((*taken, [result.sequences[0].tokens.tolist() for result in results]))


def through_the_sdk(server: EmbeddedServer) -> Callable[[Load], Tokens]:
    """A round through the SDK."""
    import tinker

    client = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
    sampler = client.create_sampling_client(base_model=MODEL).result()
    inputs = {load: [tinker.ModelInput.from_ints(prompt) for prompt in prompts(load.requests)] for load in LOADS}

    def run(load: Load) -> Tokens:
        futures = [
            sampler.sample(prompt, 1, tinker.SamplingParams(max_tokens=load.tokens, seed=seed, stop=[]))
            for seed, prompt in enumerate(inputs[load])
        ]
        return [list(future.result().sequences[0].tokens) for future in futures]

    return run


def through_sockets(server: EmbeddedServer) -> Callable[[Load], Tokens]:
    """A round of the same requests, each on a connection of its own, by a client that does nothing else."""
    from tinker.proto import tinker_public_pb2 as wire

    host, port = server.base_url.removeprefix("http://").split(":")
    numbers = iter(range(1 << 30))

    async def post(pipe: Pipe, path: str, body: dict[str, object]) -> tuple[int, bytes]:
        reader, writer = pipe
        sent = json.dumps(body).encode()
        lines = (
            f"POST /api/v1/{path} HTTP/1.1",
            f"Host: {host}",
            f"X-API-Key: {server.key}",
            f"Content-Length: {len(sent)}",
        )
        head = "".join(f"{line}\r\n" for line in (*lines, ""))
        writer.write(head.encode() + sent)
        told = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in told.split(b"\r\n") if line[:15] == b"content-length:")
        return int(told.split(b" ", 2)[1]), await reader.readexactly(length)

    async def one(pipe: Pipe, session: str, seed: int, prompt: list[int], tokens: int) -> list[int]:
        chunks = [{"type": "encoded_text", "tokens": prompt}]
        params = {"max_tokens": tokens, "seed": seed, "stop": []}
        asked = {"sampling_session_id": session, "seq_id": seed, "prompt": {"chunks": chunks}}
        _, accepted = await post(pipe, "asample", {**asked, "sampling_params": params})
        future = {"request_id": json.loads(accepted)["request_id"]}
        status, answer = await post(pipe, "retrieve_future", future)
        assert status == 200, answer
        drawn = wire.SampleResponse.FromString(answer).sequences[0].tokens
        return [int(token) for token in np.frombuffer(drawn, "<i4")]

    async def rounds(load: Load) -> Tokens:
        pipes = [await asyncio.open_connection(host, int(port)) for _ in range(load.requests)]
        _, made = await post(pipes[0], "create_session", {})
        owner = {"session_id": json.loads(made)["session_id"], "base_model": MODEL}
        opened = {**owner, "sampling_session_seq_id": next(numbers)}
        _, made = await post(pipes[0], "create_sampling_session", opened)
        session = str(json.loads(made)["sampling_session_id"])
        asked = enumerate(prompts(load.requests))
        found = await asyncio.gather(*(one(pipes[seed], session, seed, prompt, load.tokens) for seed, prompt in asked))
        for _, writer in pipes:
            writer.close()
        return list(found)

    return lambda load: asyncio.run(rounds(load))


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
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(EmbeddedSettings(models={MODEL: MODEL}, state=Path(folder)))
        clients = {"HTTP": through_sockets(server), "SDK": through_the_sdk(server)}
        for load in LOADS:
            for name, run in clients.items():
                _compare(name, load, run, server.pid, ours)
    ours.send(None)
    _parsing()


def _compare(client: str, load: Load, run: Callable[[Load], Tokens], server: int, ours: Connection) -> None:
    """Rounds of one load, in turn on both sides."""
    rows: list[tuple[float, float, float, float, float]] = []
    for round_idx in range(load.rounds + 1):
        ours.send(load)
        wall_direct, cpu_direct, expected = ours.recv()
        start, cpu = time.perf_counter(), time.process_time()
        cpu_server = process_cpu(server)
        tokens = run(load)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        assert tokens == expected, "the service and the engine do not sample the same tokens"
        if round_idx > 0:  # the first one warms both sides up
            rows.append((wall, wall_direct, process_cpu(server) - cpu_server, cpu, cpu_direct))
    walls, walls_direct, cpus, cpus_client, cpus_direct = (list(column) for column in zip(*rows, strict=True))
    what, median = f"{client}, {load.requests} x {load.tokens} tokens", statistics.median
    report(f"{what}, wall, best", min(walls), min(walls_direct), LIMIT, "s")
    report(f"{what}, wall, median", median(walls), median(walls_direct), LIMIT, "s")
    report(f"{what}, CPU of the server, median", median(cpus), median(cpus_direct), LIMIT, "s")
    print(
        f"{what}, CPU of the client, median: {median(cpus_client):.2f} s, "
        f"{median(cpus_client) / median(cpus_direct):.2f} of the engine's"
    )


def _parsing() -> None:
    """Reading a request of 128 datums, beside a step of `nano` on it."""
    from tinker.proto import tinker_public_pb2 as wire

    from tinsmith.engine.engine import Engine
    from tinsmith.server.wire.training_request import parse_forward_backward
    from tinsmith.types.adapters import AdapterSpec
    from tinsmith.types.datum import AdamParams, LossName

    request = wire.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn="importance_sampling")
    drawn = np.random.default_rng(0).integers(0, 512, (DATUMS, POSITIONS + 1)).astype("<i4")
    for tokens in drawn:
        datum = request.data.add()
        datum.model_input.add().encoded_text.tokens = tokens[:-1].tobytes()
        for name, values, dtype in (
            ("target_tokens", tokens[1:].astype("<i8"), 2),
            ("logprobs", np.full(POSITIONS, -7.0, "<f4"), 1),
            ("advantages", np.ones(POSITIONS, "<f4"), 1),
        ):
            tensor = datum.loss_fn_inputs[name]
            tensor.dense, tensor.dtype = values.tobytes(), dtype
            tensor.shape.append(POSITIONS)
    body = request.SerializeToString()
    session = Engine({"tinsmith/nano": "tinsmith/nano"}).create_session("tinsmith/nano", AdapterSpec())
    parsing: list[float] = []
    stepping: list[float] = []
    for _ in range(LOADS[0].rounds):
        cpu = time.process_time()
        call = parse_forward_backward(body)
        parsing.append(time.process_time() - cpu)
        cpu = time.process_time()
        session.forward_backward(call.datums, LossName(call.loss_fn))
        session.optim_step(AdamParams())
        stepping.append(time.process_time() - cpu)
    read, step = statistics.median(parsing), statistics.median(stepping)
    title = f"reading a request of {DATUMS} datums, beside a step of nano"
    report(title, 1e3 * read, 1e3 * step, PARSE_LIMIT, "ms")


if __name__ == "__main__":
    main()
