"""Several keys on one server: what is another's is answered exactly like what does not exist, on every route."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from bad_requests import routes_of
from hostile_graphs import graph
from tenants import NANO, Tenant, Tenants, let, sample, with_tenants
from training_requests import forward_backward

from running import HANG_S
from tinsmith.engine.engine import Engine
from tinsmith.server.openai.answers import OPENAI_PATHS
from tinsmith.server.rest.refused import REFUSED

pytestmark = pytest.mark.whole

CHECKPOINT = "/api/v1/training_runs/{model_id}/checkpoints/{kind}/{name}"
EXPORT = "/api/v1/training_runs/{model_id}/checkpoints/external_weights/{name}"
FAR = 10**6
SAID = [{"role": "user", "content": "Hi"}]


@dataclass(frozen=True)
class Things:
    """A key's things: ids that are in requests, and all of which are in a table of what does not exist too."""

    session: str
    model: str
    sampler: str
    request: str
    weights: str
    """`tinker://` path of a checkpoint to train on from."""
    policy: str
    """Of one to sample from."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(getattr(self, each.name) for each in fields(self))


def elsewhere(things: Things, session: str) -> Things:
    """The same below another session, which is not there."""
    return Things(**{f.name: getattr(things, f.name).replace(things.session, session) for f in fields(things)})


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    body: Mapping[str, Any] | bytes | None = None


Ask = Callable[[Things, Things], Iterable[Asked]]
"""(whose things are asked for, what the caller has) -> requests, each of which names something of the former."""


def numbered(seq: int, **rest: object) -> Ask:
    def ask(of: Things, own: Things) -> Iterable[Asked]:
        del own
        yield Asked("", {"model_id": of.model, "seq_id": FAR + seq, **rest})

    return ask


def named(of: Things, name: str, route: str) -> str:
    kind, _, last = name.removeprefix("tinker://").partition("/")[2].partition("/")
    return route.format(model_id=of.model, kind=kind, name=last)


def delete(of: Things, own: Things) -> Iterable[Asked]:
    yield from at(CHECKPOINT)(of, own)
    yield Asked(EXPORT.format(model_id=of.model, name="export"))


def create_model(of: Things, own: Things) -> Iterable[Asked]:
    del own
    yield Asked("", {"session_id": of.session, "model_seq_id": 7, "base_model": NANO, "lora_config": {"rank": 4}})


def create_sampler(of: Things, own: Things) -> Iterable[Asked]:
    yield Asked("", {"session_id": of.session, "sampling_session_seq_id": 7, "base_model": NANO})
    for seq, path in enumerate((of.policy, of.weights), 8):
        requests = {"session_id": own.session, "sampling_session_seq_id": seq, "model_path": path}
        yield Asked("", requests)


def load(of: Things, own: Things) -> Iterable[Asked]:
    path = {"path": of.weights, "optimizer": True}
    yield Asked("", {**path, "path": own.weights, "model_id": of.model, "seq_id": FAR + 1})
    yield Asked("", {**path, "session_id": own.session, "model_seq_id": 8})
    yield Asked("", {**path, "path": own.weights, "session_id": of.session, "model_seq_id": 9})


def completion(of: Things, own: Things) -> Iterable[Asked]:
    del own
    for path in (of.policy, of.weights):
        for stream in (False, True):
            yield Asked("", {"model": path, "prompt": [1, 2], "max_tokens": 2, "stream": stream})


def speaking(name: str, value: object, **rest: object) -> Ask:
    """A route of OpenAI's and its neighbours', over a model's name."""

    def ask(of: Things, own: Things) -> Iterable[Asked]:
        del own
        for path in (of.policy, of.weights):
            yield Asked("", {"model": path, name: value, **rest})

    return ask


def custom_loss(of: Things, own: Things) -> Iterable[Asked]:
    del own
    inputs = [{"name": "logprobs", "rank": 1}]
    sent = {"name": "summed", "inputs": inputs, "graph": {"nodes": graph()}}
    yield Asked("", {"session_id": of.session, "custom_loss_seq_id": 0, **sent})


def chat(of: Things, own: Things) -> Iterable[Asked]:
    del own
    yield Asked("", {"model": of.policy, "messages": SAID, "max_tokens": 2})


def at(route: str, body: Mapping[str, Any] | None = None) -> Ask:
    """A route whose path names something."""

    def ask(of: Things, own: Things) -> Iterable[Asked]:
        del own
        if "{kind}" in route:
            yield Asked(named(of, of.weights, route), body)
            yield Asked(named(of, of.policy, route), body)
        elif "{model_id}" in route:
            yield Asked(route.format(model_id=of.model, name="export"), body)
        else:
            yield Asked(route.format(session_id=of.session, sampler_id=of.sampler), body)

    return ask


def field(name: str, which: str, **rest: object) -> Ask:
    """A route whose body names something in one field."""

    def ask(of: Things, own: Things) -> Iterable[Asked]:
        del own
        yield Asked("", {name: getattr(of, which), **rest})

    return ask


NAMING: Mapping[tuple[str, str], Ask] = {
    ("POST", "/api/v1/retrieve_future"): field("request_id", "request"),
    ("GET", "/api/v1/training_runs/{model_id}/trace"): at("/api/v1/training_runs/{model_id}/trace"),
    ("POST", "/api/v1/create_model"): create_model,
    ("POST", "/api/v1/get_info"): field("model_id", "model"),
    ("POST", "/api/v1/forward_backward"): lambda of, _: [Asked("", forward_backward(of.model, FAR))],
    ("POST", "/api/v1/optim_step"): numbered(2, adam_params={}),
    ("POST", "/api/v1/save_weights"): numbered(3, path="x"),
    ("POST", "/api/v1/save_weights_for_sampler"): numbered(4, path="y"),
    ("POST", "/api/v1/save_weights_external"): numbered(5, path="z"),
    ("POST", "/api/v1/load_weights"): load,
    ("GET", EXPORT + "/external_weights_urls"): at(EXPORT + "/external_weights_urls"),
    ("POST", "/api/v1/create_sampling_session"): create_sampler,
    ("POST", "/api/v1/asample"): lambda of, _: [Asked("", sample(of.sampler, FAR, seed=1))],
    ("GET", "/api/v1/samplers/{sampler_id}"): at("/api/v1/samplers/{sampler_id}"),
    ("POST", "/v1/chat/completions"): chat,
    ("POST", "/v1/completions"): completion,
    ("POST", "/inference/v1/generate"): speaking(
        "token_ids", [1, 2], sampling_params={"max_tokens": 2}
    ),
    ("POST", "/api/v1/tinsmith/spread"): speaking("sequences", [[1, 2, 3]]),
    ("POST", "/tokenize"): speaking("prompt", "Hi"),
    ("POST", "/detokenize"): speaking("tokens", [70, 71]),
    ("POST", "/v1/messages"): speaking("messages", SAID, max_tokens=2),
    ("POST", "/v1/messages/count_tokens"): speaking("messages", SAID),
    ("POST", "/v1/responses"): speaking("input", "Hi", max_output_tokens=16),
    ("POST", "/api/v1/create_custom_loss"): custom_loss,
    ("POST", "/api/v1/cancel_future"): field("request_id", "request"),
    ("POST", "/api/v1/join_sampling_session"): field("sampling_session_id", "sampler"),
    ("GET", "/v1/models/{model:path}"): lambda of, _: [Asked(f"/v1/models/{of.policy}")],
    ("GET", "/api/v1/training_runs/{model_id}"): at("/api/v1/training_runs/{model_id}"),
    ("GET", "/api/v1/training_runs/{model_id}/checkpoints"): at("/api/v1/training_runs/{model_id}/checkpoints"),
    ("PUT", CHECKPOINT + "/ttl"): at(CHECKPOINT + "/ttl", {"ttl_seconds": 3600}),
    ("DELETE", CHECKPOINT + "/publish"): at(CHECKPOINT + "/publish"),
    ("POST", CHECKPOINT + "/publish"): at(CHECKPOINT + "/publish"),
    ("POST", "/api/v1/weights_info"): lambda of, _: [Asked("", {"tinker_path": p}) for p in (of.weights, of.policy)],
    ("GET", "/api/v1/sessions/{session_id}"): at("/api/v1/sessions/{session_id}"),
    ("DELETE", CHECKPOINT): delete,
    ("POST", "/api/v1/session_heartbeat"): field("session_id", "session"),
    ("POST", "/api/v1/unload_model"): field("model_id", "model"),
    ("POST", "/api/v1/sessions/{session_id}/finish"): at("/api/v1/sessions/{session_id}/finish", {}),
}  # fmt: skip
"""Routes that name something a key has; what destroys comes last."""

LISTING = {
    ("GET", "/api/v1/training_runs"),
    ("GET", "/api/v1/checkpoints"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/v1/models"),
    ("GET", "/api/v1/billing/usage/checkpoints/current"),
    ("POST", "/api/v1/sessions/search"),
}
"""Routes that list what the key has."""

OF_NOBODY = {
    ("GET", "/metrics"): "totals; test_metrics looks at what they say",
    ("GET", "/api/v1/healthz"): "needs no key",
    ("GET", "/"): "needs no key, and says how to connect",
    ("POST", "/api/v1/client/config"): "names nothing",
    ("POST", "/api/v1/client/dynamic_config"): "names nothing",
    ("POST", "/api/v1/telemetry"): "is dropped",
    ("POST", "/api/v1/create_session"): "makes the caller's own",
    ("GET", "/api/v1/external_files/{model_id}/{name}/{file}"): "the address is its own proof",
    ("GET", "/api/v1/tinsmith/workers"): "totals of the whole server",
    ("GET", "/api/v1/get_server_capabilities"): "base models are everybody's",
    **{(m, "/{path:path}"): "is not there" for m in ("GET", "POST", "PUT", "DELETE")},
    **{(method, path): f"is refused: {why}" for method, path, why in REFUSED},
}
"""Routes on which there is nothing of a key's, and why."""


async def furnish(tenant: Tenant) -> Things:
    """Make one of everything."""
    session = await tenant.session()
    model = await tenant.model(session)
    await tenant.done("forward_backward", forward_backward(model, 1))
    names = ("weights", "policy", "export")
    routes = ("save_weights", "save_weights_for_sampler", "save_weights_external")
    paths = [
        (await tenant.done(route, {"model_id": model, "seq_id": seq, "path": name})).json()["path"]
        for seq, (route, name) in enumerate(zip(routes, names, strict=True), 2)
    ]
    sampler = await tenant.sampler(session)
    request = (await tenant.ok("asample", sample(sampler, 0)))["request_id"]
    await tenant.result(request)
    return Things(session, model, sampler, request, paths[0], paths[1])


async def send(tenant: Tenant, method: str, route: str, asked: Asked) -> httpx.Response:
    body = asked.body
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    return await tenant.http.request(method, asked.path or route, content=content)


def without_ids(text: str, *things: Things) -> str:
    """Return a text but for the ids that it echoes."""
    for each in sorted({i for thing in things for i in thing.ids}, key=len, reverse=True):
        text = text.replace(each, "ID")
    return text


def told(answer: httpx.Response, *things: Things) -> tuple[object, ...]:
    headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
    return answer.status_code, headers, without_ids(answer.text, *things)


async def lists(tenant: Tenant) -> list[str]:
    return [(await tenant.http.request(method, path, content=b"{}")).text for method, path in sorted(LISTING)]


@with_tenants("alice")
async def test_every_route_is_in_the_table(tenants: Tenants) -> None:
    there = {
        (method, path)
        for method, path in routes_of(tenants.app) - {*NAMING}
        if path.removesuffix("{rest:path}") not in OPENAI_PATHS  # what /v1 does not have
    }
    assert there | {*NAMING} == {*NAMING, *LISTING, *OF_NOBODY}
    assert {*NAMING} <= routes_of(tenants.app)


@pytest.mark.parametrize("owner", ["alice", "default"])
@with_tenants("alice", "default", "bob")
async def test_what_is_anothers_is_answered_like_what_is_not_there(tenants: Tenants, owner: str) -> None:
    mine, other = tenants[owner], tenants["bob"]
    things, own = await furnish(mine), await furnish(other)
    before = await lists(mine)
    missing = [elsewhere(things, f"{prefix}s000099") for prefix in ("", "alice.", "bob.")]
    for (method, route), ask in NAMING.items():
        for i, question in enumerate(ask(things, own)):
            answer = await send(other, method, route, question)
            seen = told(answer, things)
            for nowhere in missing:
                there = [*ask(nowhere, own)][i]
                same = await send(other, method, route, there)
                assert told(same, nowhere) == seen, (method, route, answer.text, same.text)
            assert answer.status_code in (200, 400, 404, 410), (route, answer.text)
            later = answer.json() if answer.status_code == 200 and "error" not in answer.json() else {}
            assert set(later) <= {"request_id", "model_id"}, (route, answer.text)
    assert await lists(mine) == before
    for (method, route), ask in NAMING.items():
        for question in ask(things, things):
            answer = await send(mine, method, route, question)
            assert answer.status_code == 200, (method, route, answer.text)
            assert b"is not known" not in answer.content


@with_tenants("alice", "bob")
async def test_another_key_uses_no_number_up_and_wakes_nobody(tenants: Tenants) -> None:
    mine, other = tenants["alice"], tenants["bob"]
    session = await mine.session()
    model, sampler = await mine.model(session), await mine.sampler(session)
    for refused in (
        {"model_id": model, "seq_id": 1, "adam_params": {"learning_rate": "fast"}},
        {"model_id": model, "seq_id": 1, "adam_params": {}},
    ):
        assert (await other.post("/api/v1/optim_step", refused)).status_code == 400
    cut = forward_backward(model, 1)[:-1]
    assert (await other.post("/api/v1/forward_backward", cut)).status_code == 400
    for params in ({"top_p": "much"}, {}):
        calls = sample(sampler, 0, **params)
        assert (await other.post("/api/v1/asample", calls)).status_code == 400
    waiting = (await mine.ok("optim_step", {"model_id": model, "seq_id": 2, "adam_params": {}}))["request_id"]
    poll = asyncio.create_task(mine.result(waiting))
    await asyncio.sleep(0)
    for _ in range(3):
        assert "is not known" in (await other.result(waiting)).text
    assert not poll.done()
    await mine.done("optim_step", {"model_id": model, "seq_id": 1, "adam_params": {}})
    assert "metrics" in (await poll).json()
    await mine.done("asample", sample(sampler, 0))


@with_tenants("alice", "bob")
async def test_a_model_is_not_loaded_from_anothers_checkpoint(tenants: Tenants) -> None:
    things = await furnish(tenants["alice"])
    other = tenants["bob"]
    own = await furnish(other)
    failed: list[str] = []
    nowhere = elsewhere(things, "alice.s000099").weights
    for seq, path in enumerate((things.weights, nowhere), 5):
        asked = {"model_id": own.model, "seq_id": seq, "path": path, "optimizer": True}
        answer = await other.result((await other.ok("load_weights", asked))["request_id"])
        failed.append(answer.text.replace(path, "PATH"))
    assert failed[0] == failed[1]
    assert "PATH" in failed[0]
    asked = {"model_id": own.model, "seq_id": 7, "path": own.weights, "optimizer": True}
    await other.done("load_weights", asked)


async def unseeded(tenant: Tenant) -> list[bytes]:
    """Return what a script without a seed sees: weights, a trained checkpoint's and its base's samples; no ids."""
    session = await tenant.session()
    model = await tenant.model(session)
    seen = [(await tenant.done("forward_backward", forward_backward(model, 1))).content]
    step = {"model_id": model, "seq_id": 2, "adam_params": {"learning_rate": 0.1}}
    seen.append((await tenant.done("optim_step", step)).content)
    seen.append((await tenant.done("forward_backward", forward_backward(model, 3))).content)
    save = {"model_id": model, "seq_id": 4, "path": "p"}
    path = (await tenant.done("save_weights_for_sampler", save)).json()["path"]
    base = await tenant.sampler(session)
    trained = await tenant.sampler(session, 1, model_path=path)
    for sampler in (base, trained):
        for seq in range(3):
            seen.append((await tenant.done("asample", sample(sampler, seq))).content)
    for name in (NANO, path):
        for _ in range(2):
            asked = {"model": name, "prompt": [1, 2, 3], "max_tokens": 4, "logprobs": 1}
            answer = await tenant.post("/v1/completions", asked)
            seen.append(json.dumps(answer.json()["choices"]).encode())
    return seen


def test_nobodys_traffic_and_nobodys_name_changes_a_bit(engine: Engine, tmp_path: Path) -> None:
    async def alone(tenants: Tenants) -> None:
        found.append(await unseeded(tenants["default"]))

    async def beside(tenants: Tenants) -> None:
        await unseeded(tenants["bob"])
        noise = asyncio.create_task(unseeded(tenants["bob"]))
        found.append(await unseeded(tenants["alice"]))
        await noise
        found.append(await unseeded(tenants["default"]))

    found: list[list[bytes]] = []
    let(engine, tmp_path / "alone", ("default",), alone)
    let(engine, tmp_path / "beside", ("default", "alice", "bob"), beside)
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert len({*found[0][3:6]}) == 3, "an unseeded request that is repeated draws anew"


def test_what_is_published_is_read_by_others_and_only_read(engine: Engine, tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def script(tenants: Tenants) -> None:
        mine, other = tenants["alice"], tenants["bob"]
        things, own = await furnish(mine), await furnish(other)
        for path in (things.policy, things.weights):
            publish = named(things, path, CHECKPOINT + "/publish")
            assert (await mine.http.post(publish)).status_code == 200
        info = await other.ok("weights_info", {"tinker_path": things.policy})
        assert info == await mine.ok("weights_info", {"tinker_path": things.policy})
        sampler = await other.sampler(own.session, 5, model_path=things.policy)
        await other.done("asample", sample(sampler, 0))
        asked = {"model": things.policy, "prompt": [1], "max_tokens": 2}
        assert (await other.post("/v1/completions", asked)).status_code == 200
        load = {"path": things.weights, "optimizer": True}
        await other.done("load_weights", load | {"session_id": own.session, "model_seq_id": 5})
        await other.done("load_weights", load | {"model_id": own.model, "seq_id": 5})
        plain = named(things, things.policy, CHECKPOINT)
        for method, path in (
            ("DELETE", plain),
            ("DELETE", f"{plain}/publish"),
            ("POST", f"{plain}/publish"),
            ("PUT", f"{plain}/ttl"),
        ):
            content = b'{"ttl_seconds": 3600}'
            assert (await other.http.request(method, path, content=content)).status_code == 400
        assert "alice" not in "".join(await lists(other)).replace(things.policy, "")
        assert (await mine.http.delete(f"{plain}/publish")).status_code == 200
        assert (await other.post("/v1/completions", asked)).status_code == 404
        await other.done("asample", sample(sampler, 1))
        samplers.append(sampler)

    async def after(tenants: Tenants) -> None:
        other = tenants["bob"]
        failed = await other.result((await other.ok("asample", sample(samplers[0], 2)))["request_id"])
        assert "no such checkpoint" in failed.json()["error"]

    samplers: list[str] = []
    let(engine, state, ("alice", "bob"), script)
    let(engine, state, ("alice", "bob"), after)


@with_tenants("alice", "bob")
async def test_who_waits_while_a_published_checkpoint_is_overwritten_reads_neither(tenants: Tenants) -> None:
    mine, other = tenants["alice"], tenants["bob"]
    things, own = await furnish(mine), await furnish(other)
    publish = named(things, things.weights, CHECKPOINT + "/publish")
    assert (await mine.http.post(publish)).status_code == 200
    worker, begun, go_on = tenants.service.worker, threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(HANG_S)

    worker.post(hold)
    assert await asyncio.to_thread(begun.wait, HANG_S)
    save = {"model_id": things.model, "seq_id": 5, "path": "weights", "overwrite": True}
    saved = (await mine.ok("save_weights", save))["request_id"]
    load = {"path": things.weights, "optimizer": True}
    loaded = (await other.ok("load_weights", load | {"model_id": own.model, "seq_id": 5}))["request_id"]
    drawn = {"model": things.weights, "prompt": [1], "max_tokens": 2}
    waiting = [
        asyncio.create_task(other.post("/api/v1/load_weights", load | {"session_id": own.session, "model_seq_id": 5})),
        asyncio.create_task(other.post("/v1/completions", drawn)),
    ]
    async with asyncio.timeout(HANG_S):
        while worker.queued < 2 + len(waiting):
            await asyncio.sleep(0)
    go_on.set()
    assert [(await answer).status_code for answer in waiting] == [400, 404]
    assert b'"error"' in (await other.result(loaded)).content
    assert b'"error"' not in (await mine.result(saved)).content


def test_a_restarted_server_knows_whose_what_is(engine: Engine, tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def before(tenants: Tenants) -> None:
        for name in ("alice", "bob"):
            things[name] = await furnish(tenants[name])
            listed[name] = await lists(tenants[name])

    async def after(tenants: Tenants) -> None:
        for name, other in (("alice", "bob"), ("bob", "alice")):
            tenant = tenants[name]
            assert await lists(tenant) == listed[name]
            assert things[other].session not in "".join(listed[name])
            info = {"tinker_path": things[name].weights}
            assert (await tenant.post("/api/v1/weights_info", info)).status_code == 200
            assert (await tenants[other].post("/api/v1/weights_info", info)).status_code == 400
            assert await tenant.session() == f"{name}.s000002"
        assert await lists(tenants["default"]) != listed["alice"]
        assert (await tenants["default"].http.get("/api/v1/sessions")).json() == {"sessions": []}

    things: dict[str, Things] = {}
    listed: dict[str, list[str]] = {}
    let(engine, state, ("alice", "bob"), before)
    let(engine, state, ("alice", "bob", "default"), after)
