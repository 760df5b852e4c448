"""Two workers of one thread against one process of two threads: CPU-seconds of a GRPO step on SmolLM2, interleaved.

    python bench/two_workers.py [ROUNDS] [MODEL]

The model is `tinsmith/smollm2` (`tinsmith base fetch smollm2`), or another. Counted is all that runs below a server,
Ray's own processes included. Both must answer the same bits. Exit 1 where they do not.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from tinker import types

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kill_workers import below
from peers import report
from running import KEY, Running

GROUPS, SIZE, PROMPT, ANSWER, LIMIT = 4, 8, 96, 32, 1.25


def cpu_seconds(server: Running) -> float:
    """CPU time so far of a server and all below it."""
    ticks = 0
    for pid in below(server.process.pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def trained(server: Running, model: str) -> tinker.TrainingClient:
    """A fresh LoRA on a server."""
    service = tinker.ServiceClient(base_url=server.url, api_key=KEY)
    return service.create_lora_training_client(base_model=model, rank=32, seed=1).result()


def step(client: tinker.TrainingClient, number: int) -> list[Any]:
    """Sample, train on what was sampled, step; return what was answered."""
    rng = np.random.default_rng(number)
    sampler = client.save_weights_and_get_sampling_client().result()
    prompts = [rng.integers(5, 400, PROMPT).tolist() for _ in range(GROUPS)]
    params = types.SamplingParams(max_tokens=ANSWER, seed=number, stop=[])
    asked = [
        sampler.sample(types.ModelInput.from_ints(each), num_samples=SIZE, sampling_params=params) for each in prompts
    ]
    shown: list[Any] = []
    datums: list[types.Datum] = []
    for prompt, future in zip(prompts, asked, strict=True):
        for sequence in future.result().sequences:
            tokens = [*prompt, *sequence.tokens]
            shown.append((sequence.tokens, sequence.logprobs))
            weights = np.zeros(len(tokens) - 1, np.float32)
            weights[PROMPT - 1 :] = rng.normal()
            inputs = {
                "target_tokens": types.TensorData.from_numpy(np.array(tokens[1:])),
                "weights": types.TensorData.from_numpy(weights),
            }
            datums.append(types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs))
    result = client.forward_backward(datums, "cross_entropy").result()
    shown += [output["logprobs"].data for output in result.loss_fn_outputs]
    shown.append(client.optim_step(types.AdamParams(learning_rate=1e-4)).result().metrics)
    return shown


def compared(servers: tuple[Running, Running], model: str, rounds: int) -> tuple[tuple[list[float], list[float]], bool]:
    """(CPU-seconds of each step on either server, whether both answered the same)."""
    clients = [trained(server, model) for server in servers]
    seconds: tuple[list[float], list[float]] = ([], [])
    equal = True
    for number in range(rounds + 1):
        shown: list[list[Any]] = []
        for server, client, took in zip(servers, clients, seconds, strict=True):
            began = cpu_seconds(server)
            shown.append(step(client, number))
            if number:  # the first builds what is kept
                took.append(cpu_seconds(server) - began)
        equal = equal and shown[0] == shown[1]
    return seconds, equal


def main() -> int:
    """Measure; return 1 where the answers differ."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    model = sys.argv[2] if len(sys.argv) > 2 else "tinsmith/smollm2"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TINSMITH_THREADS"] = "2"
        with (
            Running(Path(scratch) / "workers", "--workers", "2", model=model) as spread,
            Running(Path(scratch) / "alone", model=model) as alone,
        ):
            seconds, equal = compared((spread, alone), model, rounds)
    medians = [statistics.median(each) for each in seconds]
    report(f"{model}: two workers of one thread, CPU of a step", *medians, LIMIT, "s")
    print("answers:", "equal" if equal else "different")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
