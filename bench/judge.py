"""256 calls of a judge at 0.5 s latency, 64 at once, against an endpoint on loopback in a process of its own.

Four waves of 0.5 s are 2.0 s; the rest is what the client, the connections and the judging code add.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time

from tinsmith.lab.judge.chat_judge import ChatJudge
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, ChatSettings

CALLS, LATENCY_S, CONCURRENCY, ROUNDS = 256, 0.5, 64, 3
GOAL_S = 2.6
CRITERIA = tuple(f"The response fulfils demand number {i} of the task." for i in range(20))


async def serve() -> None:
    rating = {"rating": "Yes", "rationale": "It does."}
    content = json.dumps({"ratings": [rating] * len(CRITERIA)})
    usage = {"prompt_tokens": 900, "completion_tokens": 300}
    body = json.dumps({"choices": [{"message": {"content": content}}], "usage": usage}).encode()
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            [size] = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
            await reader.readexactly(int(size))
            await asyncio.sleep(LATENCY_S)
            writer.write(answer)

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=CALLS)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def judged(port: int) -> tuple[float, float]:
    """Wall seconds and CPU-seconds of all calls, from a fresh client."""
    settings = ChatSettings(
        judge_model="bench", judge_base_url=f"http://127.0.0.1:{port}/v1", judge_concurrency=CONCURRENCY
    )
    requests = [JudgeRequest("Write a page.", f"Page {i}. " + "Some words. " * 200, CRITERIA) for i in range(CALLS)]
    wall, cpu = time.perf_counter(), time.process_time()
    async with ChatJudge(settings, api_key="none") as judge:
        results = await judge.judge_all(requests)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if not all(isinstance(result, Answered) and result.spent.calls == 1 for result in results):
        raise SystemExit("not every call was answered at once")
    return wall, cpu


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        rounds = [asyncio.run(judged(port)) for _ in range(ROUNDS)]
    finally:
        server.terminate()
        server.wait()
    walls = ", ".join(f"{wall:.2f}" for wall, _ in rounds)
    seconds = statistics.median(wall for wall, _ in rounds)
    used = statistics.median(cpu for _, cpu in rounds)
    print(f"  {CALLS} calls, {CONCURRENCY} at once: {walls} s; {used:.2f} CPU-s")
    reached = "reached" if seconds <= GOAL_S else "NOT reached"
    print(f"{CALLS} judge calls at {LATENCY_S} s: {seconds:.2f} s (goal <= {GOAL_S} s: {reached})")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        main()
