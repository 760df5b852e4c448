"""Limits of one key: sessions and copies of sampling clients, counted for each key, and given back."""

from pathlib import Path

import pytest
from tenants import Tenants, let, sample

from tinsmith.engine.engine import Engine
from tinsmith.server import presence, samplers
from tinsmith.server.lanes import SAMPLING_BLOCK


def test_a_key_has_so_many_sessions_until_they_end(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "MOST_SESSIONS", 2)

    async def script(tenants: Tenants) -> None:
        alice, bob = tenants["alice"], tenants["bob"]
        first, _ = await alice.session(), await alice.session()
        refused = await alice.post("/api/v1/create_session", {})
        assert refused.status_code == 400
        assert "too many sessions" in refused.json()["error"]
        await bob.session()
        ended = await alice.post(f"/api/v1/sessions/{first}/finish", {})
        assert ended.status_code == 200
        await alice.session()
        assert (await alice.post("/api/v1/create_session", {})).status_code == 400

    let(engine, tmp_path / "state", ("alice", "bob"), script)


def test_a_key_has_so_many_copies_of_sampling_clients_until_their_sessions_end(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "MOST_OPEN", 2)

    async def script(tenants: Tenants) -> None:
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

    let(engine, tmp_path / "state", ("alice", "bob"), script)
