"""A run that goes on where it was saved, in this server and in one started after a kill (check 11)."""

import ast
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tinker
from sdk_cases import TIMEOUT_S, Step, lora, prompt_of, same, same_step, sampler_logprobs, text_datum, train
from sdk_server import FreshServer, Server
from tinker import types

from warm import SCRIPT as WARM

TEXTS = ("one sheet", "two seams", "three rivets", "four handles", "five cans", "six pails")
DATA = [text_datum(text) for text in TEXTS]
ADAM = types.AdamParams(learning_rate=0.01)


def steps(client: tinker.TrainingClient, which: range) -> list[Step]:
    """Train on texts `which`."""
    return [train(client, [DATA[i]], ADAM) for i in which]


def saved(client: tinker.TrainingClient) -> str:
    """Three steps, and the path of what was then saved."""
    steps(client, range(3))
    return client.save_state("three").result(TIMEOUT_S).path


def all_same(server: Server, left: list[Step], right: list[Step]) -> bool:
    return all(same_step(server, a, b) for a, b in zip(left, right, strict=True))


def test_with_its_optimizer_a_run_goes_on_as_if_never_stopped(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    path = saved(client)
    uninterrupted = steps(client, range(3, 6))
    resumed = service.create_training_client_from_state_with_optimizer(path).result(TIMEOUT_S)
    assert resumed.model_id != client.model_id
    assert resumed.get_info().lora_rank == client.get_info().lora_rank
    assert all_same(server, uninterrupted, steps(resumed, range(3, 6)))


def test_with_weights_only_the_optimizer_begins_anew(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    path = saved(client)
    uninterrupted = steps(client, range(3, 6))
    resumed = service.create_training_client_from_state(path).result(TIMEOUT_S)
    anew = steps(resumed, range(3, 6))
    assert same_step(server, uninterrupted[0], anew[0])
    assert not same_step(server, uninterrupted[2], anew[2])


def test_the_deprecated_load_on_a_fresh_client(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    path = saved(client)
    uninterrupted = steps(client, range(3, 6))
    fresh = lora(service, server.model, seed=9)
    with pytest.warns(FutureWarning, match="load_state"):
        loading = fresh.load_state_with_optimizer(path)
    assert loading.result(TIMEOUT_S).path == path
    assert all_same(server, uninterrupted, steps(fresh, range(3, 6)))


def test_loading_back_undoes_what_followed(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    path = saved(client)
    first = steps(client, range(3, 6))
    with pytest.warns(FutureWarning, match="load_state"):
        client.load_state_with_optimizer(path).result(TIMEOUT_S)
    assert all_same(server, first, steps(client, range(3, 6)))


def test_a_save_is_of_its_place_in_the_order(server: Server, service: tinker.ServiceClient) -> None:
    """Submitted between steps that nobody waits for, it holds what the steps before it left."""
    client, pipelined = lora(service, server.model), lora(service, server.model)
    path = saved(client)
    pending: list[Any] = []
    for i in range(6):
        pending += [pipelined.forward_backward([DATA[i]], "cross_entropy"), pipelined.optim_step(ADAM)]
        if i == 2:
            save = pipelined.save_state("three")
    for future in pending:
        future.result(TIMEOUT_S)
    both = [
        service.create_training_client_from_state_with_optimizer(one).result(TIMEOUT_S)
        for one in (path, save.result(TIMEOUT_S).path)
    ]
    traces = [steps(client, range(3, 6)) for client in both]
    assert all_same(server, traces[0], traces[1])


def test_a_killed_server_comes_back_with_everything_saved(fresh_server: FreshServer, tmp_path: Path) -> None:
    wanted = types.SamplingParams(max_tokens=12, seed=4, stop=[])
    first = fresh_server(tmp_path / "state", 3)
    service = first.service()
    client = service.create_lora_training_client(first.model, rank=4, seed=0, user_metadata={"run": "killed"}).result(
        TIMEOUT_S
    )
    path = saved(client)
    sampler_path = client.save_weights_for_sampler("y", ttl_seconds=7200).result(TIMEOUT_S).path
    sampler = service.create_sampling_client(model_path=sampler_path).result(TIMEOUT_S)
    drawn = sampler.sample(prompt_of("tin"), 2, wanted).result(TIMEOUT_S).sequences
    scored = sampler_logprobs(sampler, "tin and lead")
    uninterrupted = steps(client, range(3, 6))
    before = first.rest().get_training_run(client.model_id).result(TIMEOUT_S)
    first.kill()

    second = fresh_server(tmp_path / "state", 3)
    with second.service() as again:
        resumed = again.create_training_client_from_state_with_optimizer(path).result(TIMEOUT_S)
        assert resumed.model_id != client.model_id
        assert all_same(second, uninterrupted, steps(resumed, range(3, 6)))
        sampler = again.create_sampling_client(model_path=sampler_path).result(TIMEOUT_S)
        assert same(second, [scored], [sampler_logprobs(sampler, "tin and lead")])
        redrawn = sampler.sample(prompt_of("tin"), 2, wanted).result(TIMEOUT_S).sequences
        assert [s.tokens for s in redrawn] == [s.tokens for s in drawn]
        assert [s.logprobs for s in redrawn] == [s.logprobs for s in drawn]
        run = second.rest().get_training_run(client.model_id).result(TIMEOUT_S)
        assert run.user_metadata == {"run": "killed"}
        assert run.last_checkpoint == before.last_checkpoint
        assert run.last_sampler_checkpoint == before.last_sampler_checkpoint
        listed = second.rest().list_checkpoints(client.model_id).result(TIMEOUT_S).checkpoints
        assert {one.tinker_path for one in listed} == {path, sampler_path}


SCRIPT = Path(__file__).with_name("hosted_script.py")


@pytest.fixture(scope="module")
def printed(server: Server) -> list[dict[str, object]]:
    """Output of a process of the script's own, with nothing but the server's address and key changed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [*WARM, str(SCRIPT), server.model],
        env={**environment, "TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.key},
        cwd=SCRIPT.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_script_imports_tinker_only() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported == {"json", "sys", "tinker"}


def test_the_script_runs_and_is_on_policy(server: Server, printed: list[dict[str, object]]) -> None:
    assert [row.get("step") for row in printed] == [0, 1, 2, None]
    if server.exact:
        assert [row["unequal_logprob_bits"] for row in printed[:3]] == [0, 0, 0]


def test_an_unseeded_script_repeats_on_a_fresh_server_of_the_same_seed(
    fresh_server: FreshServer,
    printed: list[dict[str, object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    traces: list[list[dict[str, object]]] = []
    for name in ("first", "again"):
        fresh = fresh_server(tmp_path / name, 7)
        monkeypatch.setenv("TINKER_BASE_URL", fresh.url)
        monkeypatch.setenv("TINKER_API_KEY", fresh.key)
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), fresh.model])
        capsys.readouterr()
        runpy.run_path(str(SCRIPT), run_name="__main__")
        traces.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
        fresh.stop()
    first, again = traces
    assert first == again
    assert first[0]["tokens"] != printed[0]["tokens"]
    assert first[1]["trained"] != printed[1]["trained"]
