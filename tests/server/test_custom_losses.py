"""Custom losses through the official SDK: one request, the built-in losses' gradients, refusals by node."""

import asyncio
import gc
import json
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from training_requests import forward_backward, train

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types
    from tinker.proto import tinker_public_pb2 as wire

from hostile_graphs import AT_CREATION, AT_EVALUATION, NOT_FINITE, Nodes, graph
from written_losses import WRITTEN

from running import HANG_S, KEY, NANO, Running
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.server.custom_losses import MAX_LOSSES, CustomLosses
from tinsmith.server.database.store import Store
from tinsmith.server.futures import Futures
from tinsmith.server.presence import Presence
from tinsmith.types.errors import InputError

pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
    gc.collect()


@pytest.fixture(scope="module")
def service(server: Running) -> tinker.ServiceClient:
    return tinker.ServiceClient(base_url=server.url, api_key=KEY)


def _client(service: tinker.ServiceClient) -> tinker.TrainingClient:
    made = service.create_lora_training_client(base_model=NANO, rank=4, seed=3)
    return made.result(HANG_S)


def _datums(**names: str) -> list[types.Datum]:
    """Some datums with a prompt; `names`: what an input is called, by what it is."""
    rng, datums = np.random.default_rng(0), list[types.Datum]()
    for length in (9, 24, 17):
        tokens = rng.integers(20, 120, length + 1)
        action = np.arange(length) >= 5
        columns = {
            "old": np.where(action, rng.normal(-5.0, 0.4, length), 0.0),
            "advantages": np.where(action, rng.normal(size=length), 0.0),
        }
        inputs = {
            names.get(name, name): types.TensorData.from_numpy(values.astype(np.float32))
            for name, values in columns.items()
        }
        target = types.TensorData.from_numpy(tokens[1:])
        datums.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(tokens[:-1].tolist()),
                loss_fn_inputs={"target_tokens": target, **inputs},
            )
        )
    return datums


def _handle(service: tinker.ServiceClient, name: str) -> tinker.LossHandle:
    function, ranks = WRITTEN[name]
    return service.create_custom_loss(function, ranks).result(HANG_S)  # pyright: ignore[reportArgumentType]


def _trace(server: Running, client: tinker.TrainingClient) -> Any:
    return server.http.get(f"/api/v1/training_runs/{client.model_id}/trace").json()["steps"]


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo"])
def test_a_built_in_loss_written_by_the_user_trains_to_the_same_bits_in_one_request(
    server: Running, service: tinker.ServiceClient, name: str
) -> None:
    handle = _handle(service, name)
    assert handle.loss_id is not None
    built_in, custom = _client(service), _client(service)
    theirs = built_in.forward_backward(_datums(old="logprobs"), name).result(HANG_S)  # pyright: ignore[reportArgumentType]
    ours = custom.forward_backward_custom(_datums(), handle).result(HANG_S)
    assert ours.metrics["loss:sum"] == pytest.approx(theirs.metrics["loss:sum"], rel=1e-14)
    assert {key for key in ours.metrics if key != "loss:sum"} == set(
        WRITTEN[name][0](torch.ones(2), torch.ones(2), torch.ones(2))[1]
    )
    for one, two in zip(ours.loss_fn_outputs, theirs.loss_fn_outputs, strict=True):
        assert one["logprobs"].data == two["logprobs"].data
    for client in (built_in, custom):
        client.optim_step(types.AdamParams(learning_rate=1e-3)).result(HANG_S)
    (step,) = _trace(server, built_in)
    assert [step] == _trace(server, custom)


def test_a_step_is_one_request(server: Running, service: tinker.ServiceClient) -> None:
    client = _client(service)
    handle = _handle(service, "dro")
    client.forward_backward_custom(_datums(), handle).result(HANG_S)
    client.optim_step(types.AdamParams()).result(HANG_S)
    (step,) = _trace(server, client)
    assert step["step"] == 1
    database = sqlite3.connect(f"file:{server.log.parent / 'state' / 'tinsmith.sqlite3'}?mode=ro", uri=True)
    with closing(database):
        kinds = database.execute(
            "SELECT kind FROM requests WHERE owner = ? ORDER BY request_order", (client.model_id,)
        ).fetchall()
    assert kinds == [("create_model",), ("forward_backward",), ("optim_step",)]


def test_a_loss_of_two_dimensions_is_cross_entropy_over_candidates(
    service: tinker.ServiceClient, server: Running
) -> None:
    def weighted(logprobs: Any, weights: Any) -> Any:
        return -(logprobs * weights).sum(), {"custom/weight:mean": weights.sum()}

    handle = service.create_custom_loss(weighted, {"logprobs": 2, "weights": 2}).result(HANG_S)
    rng, datums = np.random.default_rng(1), list[types.Datum]()
    for count in (3, 3, 12):  # the last is sparse on the wire
        targets = torch.tensor(rng.integers(20, 120, (9, count)))
        weights = torch.tensor(rng.normal(size=(9, count)).astype(np.float32))
        if count == 12:
            weights[:, 2:], targets[:, 2:] = 0.0, 0
        datums.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(rng.integers(20, 120, 9).tolist()),
                loss_fn_inputs={"target_tokens": targets, "weights": weights},
            )
        )
    assert datums[2].loss_fn_inputs["weights"].sparse_crow_indices is not None
    built_in, custom = _client(service), _client(service)
    theirs = built_in.forward_backward(datums, "cross_entropy").result(HANG_S)
    ours = custom.forward_backward_custom(datums, handle).result(HANG_S)
    shapes = [output["logprobs"].shape for output in ours.loss_fn_outputs]
    assert shapes == [[9, 3], [9, 3], [9, 12]]
    for one, two in zip(ours.loss_fn_outputs, theirs.loss_fn_outputs, strict=True):
        assert one["logprobs"].data == two["logprobs"].data
    assert ours.metrics["loss:sum"] == pytest.approx(theirs.metrics["loss:sum"], rel=1e-14)
    assert ours.metrics["custom/weight:mean"] == pytest.approx(theirs.metrics["weights:sum"] / 3)
    for client in (built_in, custom):
        client.optim_step(types.AdamParams(learning_rate=1e-3)).result(HANG_S)
    assert _trace(server, built_in) == _trace(server, custom)


def test_what_users_write_is_taken(service: tinker.ServiceClient) -> None:
    taken = [name for name in WRITTEN if name not in ("importance_sampling", "ppo", "cispo", "dro", "focal")]
    assert all(_handle(service, name).loss_id for name in taken)


def test_a_number_is_an_input_of_rank_0(service: tinker.ServiceClient) -> None:
    handle, client = _handle(service, "focal"), _client(service)
    totals: list[float] = []
    for gamma in (0.0, 2.0):
        inputs = {
            "target_tokens": types.TensorData.from_numpy(np.array([30, 31])),
            "weights": types.TensorData.from_numpy(np.ones(2, np.float32)),
            "gamma": types.TensorData.from_numpy(np.array(gamma, np.float32)),
        }
        datum = types.Datum(model_input=types.ModelInput.from_ints([1, 2]), loss_fn_inputs=inputs)
        found = client.forward_backward_custom([datum], handle).result(HANG_S)
        logprobs = np.array(found.loss_fn_outputs[0]["logprobs"].data)
        totals.append(found.metrics["loss:sum"])
        expected = -((1 - np.exp(logprobs)) ** gamma * logprobs).sum()
        assert totals[-1] == pytest.approx(expected, rel=1e-6)
    assert totals[0] > totals[1]


# Refusals


def _upload(server: Running, session: str, seq: int, nodes: Nodes, **changed: Any) -> httpx.Response:
    body = {
        "session_id": session,
        "custom_loss_seq_id": seq,
        "name": "hostile",
        "inputs": [{"name": "logprobs", "rank": 1}],
        "graph": {"format": 1, "nodes": nodes},
        **changed,
    }
    return server.post("create_custom_loss", body)


def _resident(server: Running) -> int:
    """Bytes of the server's memory."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def _computed(server: Running, model: str, seq: int, loss_id: str | None) -> dict[str, Any]:
    """The answer of a training request that names a loss by its id."""
    request = wire.ForwardBackwardRequest.FromString(forward_backward(model, seq))
    request.loss_fn = "custom"
    if loss_id is not None:
        request.loss_fn_config_v2["loss_id"].text = loss_id
    answer = server.http.post("/api/v1/forward_backward", content=request.SerializeToString())
    assert answer.status_code == 200
    settled = server.future(answer.json()["request_id"])
    return settled.json() if "json" in settled.headers["content-type"] else {}


def test_hostile_graphs_are_refused_by_node_and_the_server_lives(server: Running) -> None:
    model = server.model()
    session = model.partition(":")[0]
    before, seq = _resident(server), 0
    for nodes, node in AT_CREATION.values():
        answer = _upload(server, session, seq, nodes)
        assert answer.status_code == 400
        assert "graph.nodes" in answer.json()["error"]
        assert node in answer.json()["error"]
    for name, (nodes, node) in AT_EVALUATION.items():
        made = _upload(server, session, seq, nodes)
        assert made.status_code == 200, (name, made.text)
        seq += 1
        loss = server.future(made.json()["request_id"]).json()["loss_id"]
        failed = _computed(server, model, seq, loss)
        assert failed["category"] == "user"
        assert "data[0]" in failed["error"]
        assert node in failed["error"]
    for nodes in NOT_FINITE.values():
        made = _upload(server, session, seq, nodes)
        seq += 1
        loss = server.future(made.json()["request_id"]).json()["loss_id"]
        failed = _computed(server, model, seq, loss)
        assert failed["category"] == "user"
        assert "data[0]" in failed["error"]
    assert _resident(server) - before < 256 << 20
    assert not server.complaints
    train(server, model, seq + 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"session_id": "s999999"},
        {"name": ""},
        {"inputs": []},
        {"inputs": [{"name": "logprobs", "rank": 4}]},
        {"inputs": [{"name": "logprobs", "rank": 1, "more": 1}]},
        {"graph": {"format": 2, "nodes": []}},
        {"graph": {"nodes": [], "code": "import os"}},
        {"graph": {"nodes": [{"op": "output"}]}},
        {"custom_loss_seq_id": -1},
        {"name": "x" * (1 << 20)},
    ],
)
def test_requests_that_are_none_are_refused(server: Running, changed: dict[str, Any]) -> None:
    session = server.ok("create_session", {})["session_id"]
    assert _upload(server, session, 0, graph(), **changed).status_code == 400


def test_deeply_nested_json_is_refused(server: Running) -> None:
    session = server.ok("create_session", {})["session_id"]
    args = "[" * 100_000 + "]" * 100_000
    body = json.dumps({"session_id": session, "custom_loss_seq_id": 0, "name": "a"})
    sent = body[:-1] + f', "inputs": [], "graph": {{"nodes": [{{"args": {args}}}]}}}}'
    assert server.http.post("/api/v1/create_custom_loss", content=sent).status_code == 400


def test_a_loss_belongs_to_its_session(server: Running) -> None:
    model, other = server.model(), server.model()
    session = model.partition(":")[0]
    made = [_upload(server, session, seq, graph()).json()["request_id"] for seq in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    ids = {server.future(each).json()["loss_id"] for each in made}
    assert len(ids) == 1, "the same graph has the same id"
    (loss,) = ids
    assert loss.startswith(session)
    assert _computed(server, model, 1, loss) == {}
    digest = loss.rpartition(":")[2]
    forged = f"{other.partition(':')[0]}:loss:{digest}"
    named = (loss, forged, "", "../../x", f"{session}:loss:../{digest}", None)
    for seq, each in enumerate(named, 1):
        failed = _computed(server, other, seq, each)
        assert failed["category"] == "user"
        assert "loss_fn_config" in failed["error"]


def test_a_loss_outlives_its_server(store: Store, tmp_path: Path) -> None:
    session, loop = store.create_session().session_id, asyncio.new_event_loop()
    first = CustomLosses(store, Futures(store, loop, Presence()), tmp_path)
    first.keep(_body(session))
    (loss_id,) = first.held
    second = CustomLosses(store, Futures(store, loop, Presence()), tmp_path)
    loss, settings = second.named(f"{session}:train:0", "custom", {"loss_id": loss_id})
    assert isinstance(loss, CustomLoss)
    assert [call.place for call in loss.graph.calls] == ["graph.nodes[1] loss (sum)"]
    assert settings == {}
    loop.close()


def test_a_session_has_a_bounded_number_of_losses(store: Store, tmp_path: Path) -> None:
    session = store.create_session().session_id
    loop = asyncio.new_event_loop()
    losses = CustomLosses(store, Futures(store, loop, Presence()), tmp_path / "losses")
    full = tmp_path / "losses" / session
    full.mkdir(parents=True)
    for i in range(MAX_LOSSES):
        (full / f"{i}.json").touch()
    with pytest.raises(InputError, match="session_id"):
        losses.keep(_body(session))
    loop.close()


def _body(session: str) -> bytes:
    body = {
        "session_id": session,
        "custom_loss_seq_id": 0,
        "name": "summed",
        "inputs": [{"name": "logprobs", "rank": 1}],
        "graph": {"nodes": graph()},
    }
    return json.dumps(body).encode()
