"""A file of keys: what is taken, what is refused and how that is told; and what limits do."""

import asyncio
import signal
import ssl
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import tinker
from certificates import certificate
from tenants import MAX_BODY, NANO, Tenants, let, ring, sample, secret, with_tenants
from training_requests import forward_backward

from running import HANG_S, KEY, Running, wait_until
from tinsmith.cli import main
from tinsmith.engine.engine import Engine
from tinsmith.server import presence, samplers
from tinsmith.server.access.guard import Answered
from tinsmith.server.access.keys import Keys, read_keys, readable_by_others
from tinsmith.server.access.limits import Limits
from tinsmith.server.access.log import AccessLog, line_of
from tinsmith.server.access.tls import tls_files
from tinsmith.server.lanes import SAMPLING_BLOCK
from tinsmith.server.serve import reread
from tinsmith.types.errors import ConfigError

SECRET = "tml-this-is-a-secret-of-somebody"
GOOD = f"""
[[key]]
name = "alice"
key = "{SECRET}"
max_samples = 4

[[key]]
name = "bob"
key = "{SECRET}-too"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "keys.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_gives_names_and_limits(tmp_path: Path) -> None:
    keys = read_keys(written(tmp_path, GOOD))
    assert keys.names == ("alice", "bob")
    alice, bob = keys.find(SECRET.encode()), keys.find(f"{SECRET}-too".encode())
    assert (alice.name, alice.limits) == ("alice", Limits(max_samples=4))
    assert (bob.name, bob.limits) == ("bob", Limits())
    for wrong in (b"", SECRET[:-1].encode(), SECRET.encode() + b"x", b"\xff\x00"):
        assert keys.find(wrong) is None
    assert SECRET not in repr(vars(keys))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "key"),
        ("key = 3", "key"),
        ("key = [3]", "key[0]"),
        (f'[key]\nname = "a"\nkey = "{SECRET}"', "key"),
        (GOOD + 'colour = "red"', "key[1].colour"),
        (GOOD + "max_sampels = 3", "key[1].max_sampels"),
        (GOOD + "max_samples = 0", "key[1].max_samples"),
        (GOOD + "max_tokens = true", "key[1].max_tokens"),
        (GOOD + "max_body = 1.5", "key[1].max_body"),
        ("port = 3\n" + GOOD, "port"),
        (GOOD.replace('"bob"', '"alice"'), "key[1].name"),
        (GOOD.replace("-too", ""), "key[1].key"),
        (GOOD.replace('name = "bob"', ""), "key[1].name"),
        (GOOD.replace('"bob"', '"Bob"'), "key[1].name"),
        (GOOD.replace('"bob"', '"a.b"'), "key[1].name"),
        (GOOD.replace('"bob"', '"../b"'), "key[1].name"),
        (GOOD.replace(SECRET, SECRET.removeprefix("tml-"), 1), "key[0].key"),
        (GOOD.replace(SECRET, "tml-short", 1), "key[0].key"),
        (GOOD.replace(f'"{SECRET}"', "7"), "key[0].key"),
        (GOOD.replace(f'"{SECRET}"', f"{SECRET}"), "line 4"),
        (GOOD + f'"{SECRET}', "end of document"),
        (GOOD + f'{SECRET} = "alice"', "key[1].tml-..."),
        (f'{SECRET} = "alice"', "tml-..."),
    ],
)
def test_a_mistake_is_told_by_its_place_and_without_the_key(tmp_path: Path, text: str, where: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_keys(file)
    messages = str(refused.value)
    assert str(file) in messages
    assert where in messages
    assert SECRET not in messages
    assert SECRET.removeprefix("tml-") not in messages


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "nowhere", tmp_path, tmp_path / "bytes"):
        with pytest.raises(ConfigError, match=file.name):
            read_keys(file)


def test_a_file_that_others_read_is_noticed(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    for mode, expected in ((0o600, False), (0o400, False), (0o640, True), (0o604, True)):
        file.chmod(mode)
        assert readable_by_others(file) is expected


def test_a_file_with_a_mistake_changes_nothing_when_it_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    file.chmod(0o600)
    keys = read_keys(file)
    written(tmp_path, GOOD + "max_sampels = 3")
    printed = reread(keys, file)
    assert "key[1].max_sampels" in printed
    assert SECRET not in printed
    assert keys.names == ("alice", "bob")
    file.unlink()
    assert str(file) in reread(keys, file)
    assert keys.names == ("alice", "bob")
    written(tmp_path, GOOD.replace('"bob"', '"carol"')).chmod(0o600)
    printed = reread(keys, file)
    assert "alice, carol" in printed
    assert SECRET not in printed
    found = keys.find(f"{SECRET}-too".encode())
    assert found.name == "carol"


@pytest.mark.whole
@with_tenants("alice", "bob")
async def test_a_key_that_is_taken_away_is_refused_from_then_on(tenants: Tenants) -> None:
    alice, bob = tenants["alice"], tenants["bob"]
    await alice.session()
    tenants.keys.replace(ring("bob", "carol"))
    assert (await alice.http.get("/api/v1/sessions")).status_code == 401
    assert (await bob.http.get("/api/v1/sessions")).json() == {"sessions": []}
    tenants.keys.replace(Keys.single(secret("alice")))
    assert (await alice.http.get("/api/v1/sessions")).json() == {"sessions": []}
    tenants.keys.replace(ring("alice"))
    answer = (await alice.http.get("/api/v1/sessions")).json()
    assert answer == {"sessions": ["alice.s000001"]}


def limited(**limits: int) -> Mapping[str, Limits]:
    return {"alice": Limits(**limits)}


@pytest.mark.whole
@with_tenants("alice", "bob", limits=limited(max_samples=4))
async def test_samples_under_way_are_limited_and_their_number_can_be_sent_again(tenants: Tenants) -> None:
    alice, bob = tenants["alice"], tenants["bob"]
    tenants.service.samplers.gap_seconds = 2 * HANG_S  # what waits for a number still waits on a slow machine
    sampler = await alice.sampler(await alice.session())
    # The first number is missing, so that what follows waits for it.
    first = await alice.ok("asample", sample(sampler, 1, num_samples=3))
    assert (await alice.ok("asample", sample(sampler, 1, num_samples=3))) == first
    answer = await alice.post("/api/v1/asample", sample(sampler, 2, num_samples=2))
    assert answer.status_code == 429
    assert "max_samples" in answer.json()["error"]
    too_many = await alice.post("/api/v1/asample", sample(sampler, 3, num_samples=5))
    assert too_many.status_code == 400
    requests = {"model": NANO, "prompt": [1], "max_tokens": 2, "n": 2}
    busy = await alice.post("/v1/completions", requests)
    assert busy.status_code == 429
    assert busy.json()["error"]["code"] == "rate_limit_exceeded"
    assert "x-should-retry" not in busy.headers
    assert (await alice.post("/v1/completions", requests | {"n": 5})).status_code == 400
    assert (await alice.post("/v1/completions", requests | {"n": 1})).status_code == 200
    assert (await bob.post("/v1/completions", requests | {"n": 5})).status_code == 200
    await alice.done("asample", sample(sampler, 0))
    await alice.result(first["request_id"])
    await alice.done("asample", sample(sampler, 2, num_samples=2))
    assert tenants.service.futures.usage.num_requests == 0


@pytest.mark.whole
@with_tenants("alice", limits=limited(max_tokens=16))
async def test_tokens_of_one_request_are_limited(tenants: Tenants) -> None:
    alice = tenants["alice"]
    sampler = await alice.sampler(await alice.session())
    await alice.done("asample", sample(sampler, 0, num_samples=2, max_tokens=8))
    for params in ({"max_tokens": 9}, {"max_tokens": None}):
        request = sample(sampler, 1, num_samples=2, **params)
        answer = await alice.post("/api/v1/asample", request)
        assert answer.status_code == 400
        assert "max_tokens" in answer.json()["error"]
    await alice.done("asample", sample(sampler, 2))  # the refused number was counted
    words = [{"role": "user", "content": "Hi"}]
    answer = await alice.post("/v1/chat/completions", {"model": NANO, "messages": words})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"


@pytest.mark.whole
@with_tenants("alice", limits=limited(max_requests=2))
async def test_requests_under_way_are_limited(tenants: Tenants) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    model, sampler = await alice.model(session), await alice.sampler(session)
    step = {"model_id": model, "adam_params": {}}
    waiting = [(await alice.ok("optim_step", step | {"seq_id": s}))["request_id"] for s in (2, 3)]
    assert (await alice.post("/api/v1/asample", sample(sampler, 0))).status_code == 429
    refused = await alice.post("/api/v1/optim_step", step | {"seq_id": 4})
    assert refused.status_code == 400
    assert "max_requests" in refused.json()["error"]
    again = await alice.ok("optim_step", step | {"seq_id": 2})
    assert again["request_id"] == waiting[0]
    tenants.service.runs.gap_seconds = 0.0
    tenants.service.unload(model)
    for request_id in waiting:
        await alice.result(request_id)
    await alice.done("asample", sample(sampler, 0))


@pytest.mark.whole
@with_tenants("alice", "bob", limits=limited(max_models=1))
async def test_models_in_memory_are_limited(tenants: Tenants) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    model = await alice.model(session)
    assert await alice.model(session) == model  # a repeated request makes nothing
    await alice.done("save_weights", {"model_id": model, "seq_id": 1, "path": "w"})
    question = {"session_id": session, "model_seq_id": 1, "base_model": NANO}
    load = {"session_id": session, "model_seq_id": 2, "path": f"tinker://{model}/weights/w"}
    for path, body in (
        ("create_model", question | {"lora_config": {"rank": 4}}),
        ("load_weights", load | {"optimizer": False}),
    ):
        answer = await alice.post(f"/api/v1/{path}", body)
        assert answer.status_code == 400
        assert "max_models" in answer.json()["error"]
    await alice.done("unload_model", {"model_id": model})
    await alice.model(session, 1)
    await tenants["bob"].model(await tenants["bob"].session())


@pytest.mark.whole
def test_a_body_is_limited_by_the_key_and_by_the_server(engine: Engine, tmp_path: Path) -> None:
    async def script(tenants: Tenants) -> None:
        for name, most in (("alice", 1000), ("bob", MAX_BODY)):
            path = "/api/v1/telemetry"
            within = b'{"tags": ["' + b"x" * (most - 14) + b'"]}'
            assert (await tenants[name].post(path, within)).status_code == 200
            assert (await tenants[name].post(path, within + b" ")).status_code == 413

    limits = {"alice": Limits(max_body=1000), "bob": Limits(max_body=2 * MAX_BODY)}
    let(engine, tmp_path / "state", ("alice", "bob"), script, limits=limits)


@pytest.mark.whole
def test_a_line_is_written_for_every_request_and_no_secret(engine: Engine, tmp_path: Path) -> None:
    log = AccessLog(str(tmp_path / "access.log"))

    async def script(tenants: Tenants) -> None:
        alice = tenants["alice"]
        await alice.http.get("/api/v1/sessions?limit=5&key=tml-in-a-query")
        await alice.http.get("/api/v1/sessions", headers={"x-api-key": "tml-wrong-key"})
        await alice.http.get("/api/v1/healthz")
        await alice.post("/v1/completions", {"model": "tml-body", "prompt": "x"})
        await alice.http.get(f"/api/v1/{secret('alice')}/x%0Ay%20z%C3%A4")
        await alice.post("/api/v1/forward_backward", forward_backward("x", 1))
        await asyncio.to_thread((tmp_path / "access.log").rename, tmp_path / "access.log.1")
        log.reopen()
        await alice.http.get("/api/v1/healthz")

    let(engine, tmp_path / "state", ("alice",), script, observers=(log,))
    log.close()
    lines = (tmp_path / "access.log.1").read_text(encoding="ascii").splitlines()
    assert [line.split(" ")[1:5] for line in lines] == [
        ["alice", "GET", "/api/v1/sessions", "200"],
        ["-", "GET", "/api/v1/sessions", "401"],
        ["-", "GET", "/api/v1/healthz", "200"],
        ["alice", "POST", "/v1/completions", "404"],
        ["alice", "GET", "/api/v1/tml-.../x%0Ay%20z%C3%A4", "404"],
        ["alice", "POST", "/api/v1/forward_backward", "400"],
    ]
    assert all(len(line.split(" ")) == 7 for line in lines)
    assert "in-a-query" not in "".join(lines)
    assert len((tmp_path / "access.log").read_text(encoding="ascii").splitlines()) == 1
    assert (tmp_path / "access.log").stat().st_mode & 0o077 == 0


def test_a_path_that_is_no_text_is_one_field() -> None:
    answered = Answered(name="", method="G T\n", path="/\ud800 \x00", route="r", status=1, num_bytes=0, seconds=0)
    line = line_of(answered, datetime(2026, 1, 1, tzinfo=UTC))
    assert line.isascii()
    assert len(line.split(" ")) == 7
    assert line.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file without room")
def test_an_access_log_without_room_is_opened_anew_and_closed(tmp_path: Path) -> None:
    answered = Answered(name="alice", method="GET", path="/", route="/", status=200, num_bytes=0, seconds=0)
    target = tmp_path / "access.log"
    target.symlink_to("/dev/full")
    log = AccessLog(str(target))
    log(answered)
    target.unlink()
    log.reopen()
    log(answered)
    log.close()
    assert len(target.read_text(encoding="ascii").splitlines()) == 1
    log = AccessLog("/dev/full")
    log(answered)
    log.close()


def test_an_access_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "nowhere" / "file"):
        with pytest.raises(ConfigError, match="--access-log"):
            AccessLog(str(target))


def test_tls_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "two")
    (tmp_path / "text").write_text("no PEM", encoding="utf-8")
    locked = tmp_path / "locked.key"
    lock = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True)
    assert tls_files(None, None) is None
    assert tls_files(cert, key) is not None
    for given, flag in (
        ((cert, None), "--tls-key"),
        ((None, key), "--tls-cert"),
        ((tmp_path / "nowhere", key), "--tls-cert"),
        ((cert, tmp_path / "nowhere"), "--tls-key"),
        ((cert, other), "--tls-cert, --tls-key"),
        ((tmp_path / "text", key), "--tls-cert, --tls-key"),
        ((cert, locked), "--tls-cert, --tls-key"),
    ):
        with pytest.raises(ConfigError) as refused:
            tls_files(*given)
        assert f"field: {flag}" in str(refused.value)


def trusting(cert: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cert))


@pytest.mark.whole
def test_a_server_as_a_user_starts_it(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "own")
    file = written(tmp_path, GOOD)
    file.chmod(0o644)
    flags = ["--keys", str(file), "--tls-cert", str(cert), "--tls-key", str(key)]
    with Running(tmp_path / "state", *flags, "--access-log", str(tmp_path / "log")) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert "chmod 600" in server.log.read_text(encoding="utf-8")
        with httpx.Client(base_url=server.url, verify=trusting(cert), timeout=HANG_S) as http:

            def status(key: str) -> int:
                return http.get("/api/v1/sessions", headers={"x-api-key": key}).status_code

            assert [status(k) for k in (SECRET, f"{SECRET}-too", KEY)] == [200, 200, 401]
            written(tmp_path, GOOD.replace("-too", "-new"))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: status(f"{SECRET}-new") == 200)
            assert status(f"{SECRET}-too") == 401
            written(tmp_path, GOOD + "colour = 1")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "key[1].colour" in server.log.read_text(encoding="utf-8"))
            assert status(f"{SECRET}-new") == 200
        server.process.terminate()
        assert "curl" not in server.process.stdout.read()
        assert server.stop(signal.SIGTERM) == 0
        for made in (server.log, tmp_path / "log", *(tmp_path / "state").rglob("*")):
            assert not made.is_file() or SECRET.encode() not in made.read_bytes(), made


@pytest.mark.whole
def test_the_sdk_works_with_the_ids_of_a_named_key(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    with Running(tmp_path / "state", "--keys", str(file)) as server:
        sentence = tinker.ModelInput.from_ints([1, 2, 3])
        params = tinker.SamplingParams(max_tokens=4)
        with tinker.ServiceClient(base_url=server.url, api_key=SECRET) as alice:
            trainer = alice.create_lora_training_client(NANO, rank=4).result()
            saved = trainer.save_state("w").result().path
            assert saved.startswith("tinker://alice.s000001:train:0/")
            sampler = trainer.save_weights_and_get_sampling_client().result()
            first = sampler.sample(sentence, 1, params).result().sequences[0].tokens
            assert len(first) > 0
            again = alice.create_training_client_from_state(saved).result()
            assert again.get_info().model_id == "alice.s000001:train:1"
            rest = tinker.RestClient(base_url=server.url, api_key=SECRET)
            listed = rest.list_user_checkpoints().result().checkpoints
            assert [each.tinker_path for each in listed] == [saved]
            with tinker.ServiceClient(base_url=server.url, api_key=f"{SECRET}-too") as bob:
                with pytest.raises(tinker.BadRequestError):
                    bob.create_training_client_from_state(saved).result()
                rest.publish_checkpoint_from_tinker_path(saved).result()
                bob.create_training_client_from_state(saved).result()
                other = tinker.RestClient(base_url=server.url, api_key=f"{SECRET}-too")
                theirs = other.list_user_checkpoints().result()
                assert theirs.checkpoints == []


@pytest.mark.whole
def test_flags_that_are_wrong_are_told_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, GOOD + "colour = 1")
    monkeypatch.setenv("TINKER_API_KEY", "sk-1")
    with pytest.raises(SystemExit):
        main(["serve", "--model", NANO, "--port", "0"])
    monkeypatch.delenv("TINKER_API_KEY")
    said = capsys.readouterr().err
    assert "field: TINKER_API_KEY" in said
    assert "loading the libraries" not in said
    for flags, output in (
        (["--keys", str(file)], "key[1].colour"),
        (["--tls-cert", str(file)], "--tls-key"),
        (["--access-log", str(tmp_path)], "--access-log"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["serve", "--model", NANO, "--port", "0", *flags])
        assert stop.value.code == 2
        said = capsys.readouterr().err
        assert output in said
        assert "putting" not in said


@with_tenants("alice", "bob")
async def test_a_key_has_so_many_sessions_until_they_end(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "MOST_SESSIONS", 2)
    alice, bob = tenants["alice"], tenants["bob"]
    first, _ = await alice.session(), await alice.session()
    refused = await alice.post("/api/v1/create_session", {})
    assert refused.status_code == 400
    assert "too many sessions" in refused.json()["error"]
    at_once = await asyncio.gather(*(bob.post("/api/v1/create_session", {}) for _ in range(4)))
    assert sorted(answer.status_code for answer in at_once) == [200, 200, 400, 400]
    ended = await alice.post(f"/api/v1/sessions/{first}/finish", {})
    assert ended.status_code == 200
    await alice.session()
    assert (await alice.post("/api/v1/create_session", {})).status_code == 400


@with_tenants("alice", "bob")
async def test_a_key_has_so_many_copies_of_sampling_clients_until_their_sessions_end(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "MOST_OPEN", 2)
    alice, bob = tenants["alice"], tenants["bob"]
    first, other = await alice.session(), await alice.session()
    sampler = await alice.sampler(first)
    for copy in range(3):  # the client itself, and two copies
        await alice.done("asample", sample(sampler, copy * SAMPLING_BLOCK))
        await alice.done("asample", sample(sampler, copy * SAMPLING_BLOCK + 1))
    refused = await alice.post("/api/v1/asample", sample(sampler, 3 * SAMPLING_BLOCK))
    assert refused.status_code == 400
    assert "too many copies" in refused.json()["error"]
    theirs = await bob.sampler(await bob.session())
    await bob.done("asample", sample(theirs, SAMPLING_BLOCK))
    await alice.done("asample", sample(sampler, 2))  # those that are there go on
    assert (await alice.post(f"/api/v1/sessions/{first}/finish", {})).status_code == 200
    again = await alice.sampler(other)
    await alice.done("asample", sample(again, 5 * SAMPLING_BLOCK))
