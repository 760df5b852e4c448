import os
import sqlite3
from pathlib import Path

import pytest
import torch
from stored import NOW, OWNER, PROTO, finished

from tinsmith.engine.checkpoint_files import ADAPTER, write
from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.models.base import BaseModel
from tinsmith.server.database.private import FILE
from tinsmith.server.database.records import ErrorCategory, Failed, Finished, NoResult
from tinsmith.server.database.store import Store
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, InputError


def checkpoint(state: Path, name: str, *, kind: AdapterKind = AdapterKind.LORA) -> TinkerPath:
    """Write a small but whole checkpoint."""
    path = TinkerPath(session=OWNER, kind=CheckpointKind.WEIGHTS, name=name)
    folder = path.folder(state)
    folder.mkdir(parents=True)
    write(
        folder,
        {ADAPTER: {"weight": torch.zeros(3)}},
        spec=AdapterSpec(kind=kind, rank=4),
        base=BaseModel(name="base", fingerprint="f", config_sha256="c"),
        step_count=1,
        user_metadata={"note": name},
    )
    return path


# Sessions


def test_session_ids_count_on_over_restarts(state: Path) -> None:
    with Store(state) as first:
        ids = [first.create_session().session_id for _ in range(2)]
    with Store(state) as second:
        ids.append(second.create_session().session_id)
    assert ids == ["s000001", "s000002", "s000003"]


def test_a_session_keeps_what_the_client_said(store: Store) -> None:
    session = store.create_session(
        tags=["a", "b"],
        user_metadata={"nested": {"x": [1, None]}},
        sdk_version="0.38.0",
        project_id="p",
        display_name="lone \ud800 surrogate",
    )
    assert session.tags == ("a", "b")
    assert session.user_metadata == {"nested": {"x": [1, None]}}
    assert (session.sdk_version, session.project_id) == ("0.38.0", "p")
    assert session.display_name == "lone \ud800 surrogate"
    assert session.finished is None
    assert store.session(session.session_id) == session
    assert store.sessions() == (session,)


def test_the_first_reason_for_finishing_a_session_stays(store: Store) -> None:
    session_id = store.create_session().session_id
    store.finish_session(session_id, reason="errored", detail="ValueError")
    store.finish_session(session_id, reason="success")
    session = store.session(session_id)
    assert (session.finished, session.finished_detail) == ("errored", "ValueError")


def test_nothing_is_made_in_an_unknown_session(store: Store) -> None:
    with pytest.raises(InputError, match="field: session_id = 's000001'"):
        store.finish_session("s000001", reason="success")
    with pytest.raises(InputError, match="field: session_id = 's000001'"):
        store.create_training_run(session_id="s000001", model_seq_id=0, base_model="m", spec=AdapterSpec())
    with pytest.raises(InputError, match="field: session_id = 's000001'"):
        store.create_sampling_session(session_id="s000001", sampling_session_seq_id=0, base_model="m")
    assert store.session("s000001") is None


# Training runs


def test_a_training_run_is_the_same_after_a_restart(state: Path) -> None:
    spec = AdapterSpec(kind=AdapterKind.DORA, rank=8, seed=2**63 + 1, train_unembed=False)
    with Store(state, clock=lambda: NOW) as store:
        store.create_session()
        run = store.create_training_run(
            session_id="s000001", model_seq_id=3, base_model="nano:dora", spec=spec, user_metadata={"renderer": "plain"}
        )
    assert run.model_id == "s000001:train:3"
    assert (run.spec, run.base_model, run.unloaded) == (spec, "nano:dora", False)
    assert (run.created_at, run.last_request_at, run.last_applied_seq_id) == (NOW, NOW, 0)
    with Store(state) as store:
        assert store.training_run("s000001:train:3") == run


def test_creating_a_training_run_again_returns_it(store: Store) -> None:
    store.create_session()

    def create(rank: int) -> object:
        return store.create_training_run(
            session_id="s000001", model_seq_id=0, base_model="m", spec=AdapterSpec(rank=rank)
        )

    assert create(4) == create(4)
    with pytest.raises(InputError, match="used before"):
        create(8)
    assert len(store.training_runs()) == 1


def test_training_runs_are_listed_as_created(store: Store) -> None:
    for session_id in ("s000001", "s000002"):
        assert store.create_session().session_id == session_id
    created = [
        store.create_training_run(session_id=session_id, model_seq_id=seq_id, base_model="m", spec=AdapterSpec())
        for session_id, seq_id in (("s000002", 1), ("s000001", 0), ("s000002", 0))
    ]
    assert list(store.training_runs()) == created
    assert list(store.training_runs(session_id="s000002")) == [created[0], created[2]]
    assert store.training_run("s000001:train:9") is None


def test_the_last_applied_request_never_goes_back(store: Store) -> None:
    store.create_session()
    run = store.create_training_run(session_id="s000001", model_seq_id=0, base_model="m", spec=AdapterSpec())
    store.mark_applied(run.model_id, 5)
    store.mark_applied(run.model_id, 4)
    store.mark_unloaded(run.model_id)
    after = store.training_run(run.model_id)
    assert (after.last_applied_seq_id, after.unloaded) == (5, True)


# Sampling sessions


def test_a_sampling_session_is_made_once(store: Store) -> None:
    store.create_session()

    def create(model_path: str | None) -> object:
        return store.create_sampling_session(
            session_id="s000001", sampling_session_seq_id=7, base_model="m", model_path=model_path
        )

    sampler = create("tinker://s000001:train:0/sampler_weights/a")
    assert create("tinker://s000001:train:0/sampler_weights/a") == sampler
    assert store.sampling_session("s000001:sample:7") == sampler
    with pytest.raises(InputError, match="used before"):
        create(None)
    assert store.sampling_sessions(session_id="s000001") == (sampler,)
    assert store.sampling_sessions(session_id="s000002") == ()


def test_a_snapshot_is_known_as_one_after_a_restart(state: Path) -> None:
    with Store(state) as store:
        store.create_session()
        store.create_sampling_session(session_id="s000001", sampling_session_seq_id=0, base_model="m", snapshot=True)
    with Store(state) as store:
        (sampler,) = store.sampling_sessions()
    assert sampler.snapshot
    assert sampler.model_path is None


def test_a_snapshot_does_not_take_the_place_of_another(store: Store) -> None:
    store.create_session()

    def hold() -> None:
        store.create_sampling_session(session_id="s000001", sampling_session_seq_id=0, base_model="m", snapshot=True)

    hold()
    with pytest.raises(InputError, match="field: sampling_session_seq_id = 0"):
        hold()


# Requests


def test_a_retried_request_is_not_new(store: Store) -> None:
    first = store.open_request(owner=OWNER, seq_id=1, kind="optim_step")
    assert first == (f"{OWNER}:1:optim_step", True)
    assert store.open_request(owner=OWNER, seq_id=1, kind="optim_step") == (first[0], False)
    store.finish(first[0], body=b"{}", media_type="application/json")
    assert store.open_request(owner=OWNER, seq_id=1, kind="optim_step") == (first[0], False)


def test_a_number_is_not_used_for_two_kinds(store: Store) -> None:
    store.open_request(owner=OWNER, seq_id=1, kind="optim_step")
    with pytest.raises(InputError, match="optim_step"):
        store.open_request(owner=OWNER, seq_id=1, kind="forward_backward")


def test_a_number_is_not_used_for_two_contents(store: Store) -> None:
    first, _ = store.open_request(owner=OWNER, seq_id=1, kind="optim_step", content=b"one")
    for content in (b"one", None):
        assert store.open_request(owner=OWNER, seq_id=1, kind="optim_step", content=content) == (first, False)
        assert store.find_request(owner=OWNER, seq_id=1, kind="optim_step", content=content) == first
    for again in (store.open_request, store.find_request):
        with pytest.raises(InputError, match="field: seq_id = 1"):
            again(owner=OWNER, seq_id=1, kind="optim_step", content=b"two")


def test_a_request_goes_from_unknown_to_pending_to_finished(store: Store) -> None:
    assert store.result(f"{OWNER}:1:asample") is NoResult.UNKNOWN
    request_id, _ = store.open_request(owner=OWNER, seq_id=1, kind="asample")
    assert store.result(request_id) is NoResult.PENDING
    assert store.finish(request_id, body=b"\0\xff", media_type=PROTO)
    assert store.result(request_id) == Finished(body=b"\0\xff", media_type=PROTO)


def test_an_empty_body_is_a_result(store: Store) -> None:
    assert store.result(finished(store, OWNER, 1, b"")) == Finished(body=b"", media_type=PROTO)


def test_a_failure_keeps_its_reason(store: Store) -> None:
    request_id, _ = store.open_request(owner=OWNER, seq_id=1, kind="asample")
    assert store.fail(request_id, message="too long \ud800", category=ErrorCategory.USER)
    outcome = store.result(request_id)
    assert outcome == Failed(message="too long \ufffd", category=ErrorCategory.USER)


def test_a_request_is_settled_once(store: Store) -> None:
    done = finished(store, OWNER, 1)
    assert not store.fail(done, message="late", category=ErrorCategory.SERVER)
    assert not store.finish(done, body=b"other", media_type=PROTO)
    assert store.result(done) == Finished(body=b"body", media_type=PROTO)
    failed, _ = store.open_request(owner=OWNER, seq_id=2, kind="asample")
    assert store.fail(failed, message="no", category=ErrorCategory.SERVER)
    assert not store.finish(failed, body=b"late", media_type=PROTO)
    assert isinstance(store.result(failed), Failed)


def test_an_unknown_request_is_not_settled(store: Store) -> None:
    with pytest.raises(InputError, match="field: request_id = 'nothing'"):
        store.finish("nothing", body=b"", media_type=PROTO)
    with pytest.raises(InputError, match="field: request_id = 'nothing'"):
        store.fail("nothing", message="", category=ErrorCategory.UNKNOWN)


def test_futures_survive_a_restart_and_pending_ones_are_listed(state: Path) -> None:
    with Store(state) as store:
        for seq_id in (2, 1, 3):
            store.open_request(owner=OWNER, seq_id=seq_id, kind="optim_step")
        store.finish(f"{OWNER}:1:optim_step", body=b"one", media_type=PROTO)
    with Store(state) as store:
        assert [request.seq_id for request in store.pending()] == [2, 3]
        assert store.pending()[0].request_id == f"{OWNER}:2:optim_step"
        assert store.pending()[0].kind == "optim_step"
        assert isinstance(store.result(f"{OWNER}:1:optim_step"), Finished)
        assert store.seq_ids(OWNER) == (1, 2, 3)
        assert store.seq_ids("s000001:train:1") == ()


def test_the_newest_bodies_of_each_owner_are_kept(store: Store) -> None:
    ids = {owner: [finished(store, owner, i) for i in range(5)] for owner in ("a", "b")}
    assert store.forget_older_than(2) == 6
    for owned in ids.values():
        assert [store.result(i) is NoResult.FORGOTTEN for i in owned] == [True] * 3 + [False] * 2
    assert store.open_request(owner="a", seq_id=0, kind="asample")[1] is False
    assert store.forget_older_than(2) == 0


def test_newest_means_finished_last(store: Store) -> None:
    ids = [finished(store, "a", seq_id) for seq_id in (3, 1, 2)]
    store.forget_older_than(1)
    assert [store.result(i) is NoResult.FORGOTTEN for i in ids] == [True, True, False]


def test_all_owners_of_a_key_together_can_be_bounded(store: Store) -> None:
    ids = [finished(store, f"owner-{i}", 0) for i in range(5)]
    assert store.forget_older_than(10, total=2) == 3
    assert [store.result(i) is NoResult.FORGOTTEN for i in ids] == [True] * 3 + [False] * 2
    assert store.forget_older_than(10, total=0) == 2


def test_no_number_of_results_of_one_key_drops_those_of_another(store: Store) -> None:
    own = finished(store, "bob.s000001:sample:0", 0)
    others = [finished(store, f"alice.s000001:sample:{i % 3}", i) for i in range(20)]
    assert store.forget_older_than(100, total=2) == 18
    assert isinstance(store.result(own), Finished)
    assert [store.result(i) is NoResult.FORGOTTEN for i in others] == [True] * 18 + [False] * 2


def test_the_bytes_of_a_keys_results_are_bounded_and_its_last_one_stays(store: Store) -> None:
    ids = [finished(store, "a", seq_id, bytes(size)) for seq_id, size in enumerate((10, 10, 10, 100))]
    assert store.forget_older_than(100, num_bytes=125) == 1
    assert store.forget_older_than(100, num_bytes=5) == 2
    assert isinstance(store.result(ids[3]), Finished)


def test_forgetting_bounds_the_file(store: Store, state: Path) -> None:
    sizes: list[int] = []
    for seq_id in range(60):
        finished(store, "a", seq_id, bytes(200_000))
        store.forget_older_than(3)
        sizes.append(sum(file.stat().st_size for file in state.iterdir()))
    assert sizes[-1] == sizes[40] < 10_000_000


# Occurrences


def test_occurrences_count_from_zero_by_key_and_over_restarts(state: Path) -> None:
    with Store(state) as store:
        assert [store.occurrence(key) for key in ("a", "b", "a", "a")] == [0, 0, 1, 2]
    with Store(state) as store:
        assert [store.occurrence(key) for key in ("a", "b", "\ud800", "c" * 100_000)] == [3, 1, 0, 0]


# Checkpoints


def test_a_checkpoint_keeps_what_is_known_of_it(state: Path, store: Store) -> None:
    path = checkpoint(state, "step-1")
    record = store.record_checkpoint(path, base_model="base:dora", rank=4, ttl_s=3600, user_metadata={"k": "v"})
    assert (record.path, record.model_id, record.kind) == (path, OWNER, CheckpointKind.WEIGHTS)
    assert (record.created_at, record.expires_at) == (NOW, NOW + 3600)
    assert record.size_bytes == sum(file.stat().st_size for file in path.folder(state).iterdir())
    assert store.checkpoint(path) == record
    assert store.checkpoints() == (record,)
    assert store.checkpoints(model_id=OWNER) == (record,)
    assert store.checkpoints(model_id="s000001:train:1") == ()


def test_what_is_not_there_is_not_recorded(state: Path, store: Store) -> None:
    path = TinkerPath(session=OWNER, kind=CheckpointKind.WEIGHTS, name="half")
    path.folder(state).mkdir(parents=True)
    (path.folder(state) / ADAPTER).write_bytes(b"half of it")
    with pytest.raises(CheckpointError, match="field: path = 'tinker://s000001:train:0/weights/half'"):
        store.record_checkpoint(path, base_model="base", rank=4)
    assert store.checkpoints() == ()


def test_a_record_without_files_is_not_listed_and_dropped_at_the_next_start(state: Path) -> None:
    with Store(state, clock=lambda: NOW) as store:
        paths = [checkpoint(state, name) for name in ("kept", "lost")]
        for path in paths:
            store.record_checkpoint(path, base_model="base", rank=4, ttl_s=1)
        (paths[1].folder(state) / "checkpoint.json").unlink()
        assert [record.path for record in store.checkpoints()] == paths[:1]
        assert [record.path for record in store.expired(NOW + 2)] == paths[:1]
        assert store.checkpoint(paths[1]) is None
        assert not store.set_ttl(paths[1], None)
    with Store(state) as store:
        assert [record.path for record in store.checkpoints()] == paths[:1]
    connection = sqlite3.connect(state / FILE)
    assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
    connection.close()


def test_a_checkpoint_whose_record_was_lost_gets_one_at_the_next_start(state: Path) -> None:
    with Store(state) as store:
        store.create_session()
        low_rank, whole = checkpoint(state, "a"), checkpoint(state, "b", kind=AdapterKind.FULL)
        damaged = checkpoint(state, "damaged")
        (damaged.folder(state) / ADAPTER).write_bytes(b"")
        assert store.checkpoints() == ()
    for path, created_at in ((whole, 10), (low_rank, 20)):
        os.utime(path.folder(state) / "checkpoint.json", (created_at, created_at))
    with Store(state) as store:
        records = store.checkpoints()
    assert [record.path for record in records] == [whole, low_rank]
    assert [record.base_model for record in records] == ["base:full", "base"]
    assert [record.rank for record in records] == [None, 4]
    assert [record.created_at for record in records] == [10, 20]
    assert [record.user_metadata for record in records] == [{"note": "b"}, {"note": "a"}]
    assert records[0].expires_at is None


def test_a_found_checkpoint_has_the_base_model_of_its_run(state: Path) -> None:
    with Store(state) as store:
        store.create_session()
        store.create_training_run(session_id="s000001", model_seq_id=0, base_model="alias", spec=AdapterSpec(rank=4))
        checkpoint(state, "a")
    with Store(state) as store:
        assert [record.base_model for record in store.checkpoints()] == ["alias"]


def test_an_overwritten_checkpoint_becomes_the_newest(state: Path, store: Store) -> None:
    first, second = checkpoint(state, "first"), checkpoint(state, "second")
    for path in (first, second, first):
        store.record_checkpoint(path, base_model="base", rank=4)
    assert [record.path for record in store.checkpoints()] == [second, first]


def test_publication_and_expiry_end_before_a_checkpoint_is_overwritten(state: Path) -> None:
    def marks(store: Store) -> tuple[bool, float | None]:
        record = store.checkpoint(path)
        assert record is not None
        return record.public, record.expires_at

    with Store(state, clock=lambda: NOW) as store:
        path = checkpoint(state, "a")
        store.record_checkpoint(path, base_model="base", rank=4, ttl_s=10)
        store.set_public(path, True)
        with pytest.raises(CheckpointError), store.overwriting(path):
            raise CheckpointError("the session has diverged, so it is not saved")
        assert marks(store) == (True, NOW + 10)
        overwriting = store.overwriting(path)
        overwriting.__enter__()  # and the process is killed before it records what it wrote
    with Store(state, clock=lambda: NOW) as store:
        assert marks(store) == (False, None)
        assert store.expired(NOW + 1e9) == ()


def test_checkpoints_expire_when_they_were_told_to(state: Path, store: Store) -> None:
    paths = [checkpoint(state, name) for name in ("soon", "late", "never")]
    for path, ttl_s in zip(paths, (10, 20, None), strict=True):
        store.record_checkpoint(path, base_model="base", rank=4, ttl_s=ttl_s)
    assert store.expired(NOW + 9.9) == ()
    assert [record.path for record in store.expired(NOW + 10)] == paths[:1]
    assert [record.path for record in store.expired(NOW + 1e9)] == paths[:2]
    assert store.set_ttl(paths[0], None)
    assert store.set_ttl(paths[2], 5)
    assert [record.path for record in store.expired(NOW + 10)] == paths[2:]


def test_a_deleted_checkpoint_is_forgotten(state: Path, store: Store) -> None:
    path = checkpoint(state, "a")
    store.record_checkpoint(path, base_model="base", rank=4)
    assert store.delete_checkpoint(path)
    assert not store.delete_checkpoint(path)
    assert not path.folder(state).exists()
    assert store.checkpoints() == ()


def test_what_is_kept_by_now_is_not_deleted_as_expired(state: Path, store: Store) -> None:
    paths = [checkpoint(state, name) for name in ("expired", "kept", "overwritten", "late")]
    for path, ttl_s in zip(paths, (10, 10, 10, 30), strict=True):
        store.record_checkpoint(path, base_model="base", rank=4, ttl_s=ttl_s)
    assert [record.path for record in store.expired(NOW + 20)] == paths[:3]
    assert store.set_ttl(paths[1], None)
    store.record_checkpoint(paths[2], base_model="base", rank=4)
    assert [store.delete_checkpoint(path, expired_at=NOW + 20) for path in paths] == [True, False, False, False]
    assert [record.path for record in store.checkpoints()] == [paths[1], paths[3], paths[2]]
    assert [path.folder(state).exists() for path in paths] == [False, True, True, True]
