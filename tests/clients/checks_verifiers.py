"""`verifiers`: evaluation through /v1, and its training client through /inference/v1/generate; both the same twice."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tinker
from workbench import PROGRAMS, TALKER, VERIFIERS, Workbench, recipe

from running import KEY, Running

Trace = Mapping[str, Any]
HARNESS = "inplace"
"""The page's harness has `uv` fetch what it needs; this one does not (see programs/inplace.py)."""


class Evaluations:
    """The page's command with another harness, on the servers that it is given."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.number = 0

    def traces(self, server: Running, *more: str) -> Sequence[Trace]:
        """Evaluate; return every trace, by its task and its words."""
        self.number += 1
        name = f"run{self.number}"
        [(file, text), (_, shell)] = recipe("verifiers", server.url, TALKER)
        (self.bench.folder / file).write_text(text, encoding="utf-8")
        [_, arguments] = shell.replace("\\\n", "").strip().splitlines()
        command, *words, _ = arguments.split()
        words[words.index("null")] = HARNESS
        path = f"{PROGRAMS}:{self.bench.folder}"
        lines = {"PYTHONPATH": path, "TINKER_API_KEY": KEY}
        self.bench.command(server, command, *words, name, *more, environment=VERIFIERS, **lines)
        written = self.bench.folder / "outputs" / name / "traces.jsonl"
        episodes = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
        traces = [trace for episode in episodes for trace in episode["traces"]]
        for trace in traces:
            assert trace["ok"], trace["errors"]
        return sorted(traces, key=lambda trace: str(_words(trace)))


@pytest.fixture(scope="module")
def evaluations(bench: Workbench) -> Evaluations:
    VERIFIERS.require()
    return Evaluations(bench)


def test_an_evaluation_repeats_on_a_fresh_server(evaluations: Evaluations, tmp_path: Path) -> None:
    done: list[Sequence[Trace]] = []
    for i in range(2):
        with evaluations.bench.serve(tmp_path / f"state{i}", seed=7) as server:
            done.append(evaluations.traces(server))
    first, again = done
    assert len(first) == 8
    assert {_reward(trace) for trace in first} == {0.0, 1.0}
    assert [(_words(trace), _reward(trace)) for trace in first] == [(_words(trace), _reward(trace)) for trace in again]


def test_a_rollout_for_training_has_the_servers_own_logprobs(evaluations: Evaluations, server: Running) -> None:
    train = ("--client.type", "train", "--client.renderer-model-name", TALKER)
    traces = evaluations.traces(server, *train)
    client = tinker.ServiceClient(base_url=server.url, api_key=KEY)
    scorer = client.create_sampling_client(base_model=TALKER).result()
    assert len(traces) == 8
    for trace in traces:
        tokens = [token for node in trace["nodes"] for token in node["token_ids"]]
        sampled = [flag for node in trace["nodes"] for flag in node["mask"]]
        given = [logprob for node in trace["nodes"] for logprob in node["logprobs"]]
        scored = scorer.compute_logprobs(tinker.ModelInput.from_ints(tokens)).result()
        own = [logprob for logprob, flag in zip(scored, sampled, strict=True) if flag]
        # The ratio of what was sampled and what would be trained on is 1.0, bit for bit.
        assert given == own != []


def _words(trace: Trace) -> list[tuple[str, Any]]:
    return [(node["message"]["role"], node["message"]["content"]) for node in trace["nodes"]]


def _reward(trace: Trace) -> float:
    return trace["rewards"]["right"]["score"]
