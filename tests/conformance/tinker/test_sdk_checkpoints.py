"""Checkpoints by name: saved, listed, described, expired, deleted (check 13)."""

import copy
import os
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import tinker
import torch
from hf_reference import HfReference, next_logprobs
from sdk_cases import TIMEOUT_S, forward, lora, refusal, same, text_datum, tokens_of, train
from sdk_server import Server
from tinker import types

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

TEXT = text_datum("solder and flux")
ADAM = types.AdamParams(learning_rate=0.01)
HOUR = 3600


@pytest.fixture
def client(server: Server, service: tinker.ServiceClient) -> tinker.TrainingClient:
    """A run of its own per test, after one step."""
    client = lora(service, server.model, rank=5)
    train(client, [TEXT], ADAM)
    return client


def listed(rest: tinker.RestClient, run: str) -> dict[str, types.Checkpoint]:
    """A run's checkpoints by id."""
    checkpoints = rest.list_checkpoints(run).result(TIMEOUT_S).checkpoints
    return {checkpoint.checkpoint_id: checkpoint for checkpoint in checkpoints}


def save(client: tinker.TrainingClient, name: str, **options: object) -> str:
    """Save training state, and return its path."""
    return client.save_state(name, **options).result(TIMEOUT_S).path  # type: ignore[arg-type]


def test_paths_and_the_list_name_both_kinds(client: tinker.TrainingClient, rest: tinker.RestClient) -> None:
    run = client.model_id
    assert save(client, "x") == f"tinker://{run}/weights/x"
    sampler = client.save_weights_for_sampler("y").result(TIMEOUT_S).path
    assert sampler == f"tinker://{run}/sampler_weights/y"
    found = listed(rest, run)
    assert sorted(found) == ["sampler_weights/y", "weights/x"]
    assert found["weights/x"].checkpoint_type == "training"
    assert found["sampler_weights/y"].checkpoint_type == "sampler"
    for checkpoint_id, checkpoint in found.items():
        assert checkpoint.tinker_path == f"tinker://{run}/{checkpoint_id}"
        assert abs(checkpoint.time - datetime.now(UTC)) < timedelta(minutes=5)
        assert checkpoint.size_bytes > 0
        assert checkpoint.expires_at is None


def test_a_snapshot_without_a_name_is_not_listed(client: tinker.TrainingClient, rest: tinker.RestClient) -> None:
    client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    assert listed(rest, client.model_id) == {}


def test_all_runs_are_listed_newest_first(client: tinker.TrainingClient, rest: tinker.RestClient) -> None:
    paths = [save(client, name) for name in ("one", "two", "three")]
    page = rest.list_user_checkpoints(limit=2).result(TIMEOUT_S)
    assert [checkpoint.tinker_path for checkpoint in page.checkpoints] == paths[:0:-1]
    assert (page.cursor.limit, page.cursor.offset) == (2, 0)
    assert page.cursor.total_count >= 3
    following = rest.list_user_checkpoints(limit=1, offset=2).result(TIMEOUT_S)
    assert [checkpoint.tinker_path for checkpoint in following.checkpoints] == paths[:1]


def test_a_name_is_taken_until_it_is_overwritten(
    server: Server, service: tinker.ServiceClient, client: tinker.TrainingClient
) -> None:
    path = save(client, "again")
    old = forward(client, [TEXT])
    train(client, [TEXT], ADAM)
    assert "again" in refusal(lambda: client.save_state("again"))
    loaded = service.create_training_client_from_state(path).result(TIMEOUT_S)
    assert same(server, old, forward(loaded, [TEXT]))
    assert save(client, "again", overwrite=True) == path
    loaded = service.create_training_client_from_state(path).result(TIMEOUT_S)
    assert same(server, forward(client, [TEXT]), forward(loaded, [TEXT]))
    assert not same(server, old, forward(loaded, [TEXT]))


def test_a_sampler_name_is_taken_too(client: tinker.TrainingClient) -> None:
    client.save_weights_for_sampler("taken").result(TIMEOUT_S)
    assert "taken" in refusal(lambda: client.save_weights_for_sampler("taken"))
    assert save(client, "taken").endswith("/weights/taken")


@pytest.mark.parametrize("name", ["../up", "a/b", "..", "/abs", "n\0l", "x" * 300])
def test_a_name_cannot_leave_its_folder(client: tinker.TrainingClient, name: str) -> None:
    refusal(lambda: client.save_state(name))
    refusal(lambda: client.save_weights_for_sampler(name))
    assert save(client, "good").endswith("/weights/good")


def test_a_checkpoint_describes_its_weights(
    server: Server, client: tinker.TrainingClient, rest: tinker.RestClient
) -> None:
    sampler = client.save_weights_for_sampler("y").result(TIMEOUT_S).path
    for path in (save(client, "x"), sampler):
        info = rest.get_weights_info_by_tinker_path(path).result(TIMEOUT_S)
        assert info.base_model == server.model
        assert info.is_lora
        assert info.lora_rank == 5
        assert (info.train_mlp, info.train_attn, info.train_unembed) == (True, True, True)


def test_a_run_describes_itself(server: Server, service: tinker.ServiceClient, rest: tinker.RestClient) -> None:
    metadata = {"recipe": "sl", "renderer": "plain"}
    client = service.create_lora_training_client(server.model, rank=3, seed=0, user_metadata=metadata).result(TIMEOUT_S)
    path = save(client, "x")
    sampler = client.save_weights_for_sampler("y").result(TIMEOUT_S).path
    run = rest.get_training_run(client.model_id).result(TIMEOUT_S)
    assert run.training_run_id == client.model_id
    assert (run.base_model, run.is_lora, run.lora_rank) == (server.model, True, 3)
    assert run.user_metadata == metadata
    assert run.last_checkpoint.tinker_path == path
    assert run.last_sampler_checkpoint.tinker_path == sampler
    by_path = rest.get_training_run_by_tinker_path(path).result(TIMEOUT_S)
    assert by_path.training_run_id == run.training_run_id
    runs = rest.list_training_runs(limit=1000).result(TIMEOUT_S)
    assert run.training_run_id in [one.training_run_id for one in runs.training_runs]
    assert runs.cursor.total_count >= 1


def test_metadata_comes_back(
    service: tinker.ServiceClient, client: tinker.TrainingClient, rest: tinker.RestClient
) -> None:
    path = save(client, "x", user_metadata={"step": "1"})
    client.save_weights_for_sampler("y", user_metadata={"step": "2"}).result(TIMEOUT_S)
    found = listed(rest, client.model_id)
    assert found["weights/x"].user_metadata == {"step": "1"}
    assert found["sampler_weights/y"].user_metadata == {"step": "2"}
    resumed = service.create_training_client_from_state(path, user_metadata={"run": "2"})
    run = rest.get_training_run(resumed.result(TIMEOUT_S).model_id).result(TIMEOUT_S)
    assert run.user_metadata == {"run": "2"}
    save(client, "x", overwrite=True)
    assert not listed(rest, client.model_id)["weights/x"].user_metadata


def test_empty_metadata_is_metadata(server: Server, service: tinker.ServiceClient, rest: tinker.RestClient) -> None:
    client = service.create_lora_training_client(server.model, rank=4, user_metadata={}).result(TIMEOUT_S)
    save(client, "x", user_metadata={})
    assert not listed(rest, client.model_id)["weights/x"].user_metadata
    assert not rest.get_training_run(client.model_id).result(TIMEOUT_S).user_metadata


def test_a_time_to_live_is_kept_changed_and_removed(client: tinker.TrainingClient, rest: tinker.RestClient) -> None:
    path = save(client, "x", ttl_seconds=HOUR)

    def remaining() -> float | None:
        expires = listed(rest, client.model_id)["weights/x"].expires_at
        return None if expires is None else (expires - datetime.now(UTC)).total_seconds()

    assert remaining() == pytest.approx(HOUR, abs=60)
    rest.set_checkpoint_ttl_from_tinker_path(path, 5 * HOUR).result(TIMEOUT_S)
    assert remaining() == pytest.approx(5 * HOUR, abs=60)
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result(TIMEOUT_S)
    assert remaining() is None


@pytest.mark.parametrize("ttl", [0, 10, 11 * 365 * 24 * HOUR])
def test_a_time_to_live_out_of_range(client: tinker.TrainingClient, rest: tinker.RestClient, ttl: int) -> None:
    path = save(client, "x")
    assert "ttl_seconds" in refusal(lambda: client.save_state("y", ttl_seconds=ttl))
    assert "ttl_seconds" in refusal(lambda: rest.set_checkpoint_ttl_from_tinker_path(path, ttl))
    assert list(listed(rest, client.model_id)) == ["weights/x"]


def test_a_deleted_checkpoint_is_gone(
    service: tinker.ServiceClient, client: tinker.TrainingClient, rest: tinker.RestClient
) -> None:
    path = save(client, "x")
    sampler = client.save_weights_for_sampler("y").result(TIMEOUT_S).path
    rest.delete_checkpoint_from_tinker_path(path).result(TIMEOUT_S)
    assert list(listed(rest, client.model_id)) == ["sampler_weights/y"]
    refusal(lambda: service.create_training_client_from_state(path))
    refusal(lambda: rest.get_weights_info_by_tinker_path(path))
    refusal(lambda: rest.delete_checkpoint_from_tinker_path(path))
    rest.delete_checkpoint(client.model_id, "sampler_weights/y").result(TIMEOUT_S)
    refusal(lambda: service.create_sampling_client(model_path=sampler))
    assert save(client, "x") == path


def test_a_checkpoint_is_published_and_taken_back(client: tinker.TrainingClient, rest: tinker.RestClient) -> None:
    path = save(client, "x")

    def public() -> bool:
        return listed(rest, client.model_id)["weights/x"].public

    assert not public()
    for _ in range(2):
        rest.publish_checkpoint_from_tinker_path(path).result(TIMEOUT_S)
        assert public()
    rest.unpublish_checkpoint_from_tinker_path(path).result(TIMEOUT_S)
    assert not public()
    refusal(lambda: rest.publish_checkpoint_from_tinker_path(path + "-not-there"))


def test_unknown_things_are_answered_at_once(rest: tinker.RestClient) -> None:
    path = "tinker://nope:train:0/weights/none"
    refusal(lambda: rest.get_training_run("nope:train:0"))
    refusal(lambda: rest.get_weights_info_by_tinker_path(path))
    refusal(lambda: rest.delete_checkpoint_from_tinker_path(path))
    refusal(lambda: rest.set_checkpoint_ttl_from_tinker_path(path, HOUR))
    refusal(lambda: rest.get_session("nope"))


"""peft asks transformers for it."""

TEXTS = ("a lantern of pierced tin", "and a lid for it")
DATA = [text_datum(text) for text in TEXTS]


def exported(client: tinker.TrainingClient, rest: tinker.RestClient, name: str, folder: Path) -> Path:
    """Download the adapter as the SDK's own command does: one address per file."""
    path = client.save_weights_external(name).result(TIMEOUT_S).path
    assert path == f"tinker://{client.model_id}/external_weights/{name}"
    urls = rest.get_external_weights_urls(path).result(TIMEOUT_S).urls
    for file, url in urls.items():
        target = folder / file
        assert os.path.commonpath([folder, target.resolve()]) == str(folder.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            target.write_bytes(response.read())
    return folder


def peft_model(hf: HfReference, folder: Path) -> torch.nn.Module:
    """The exported adapter over the same base."""
    from peft import PeftModel

    return PeftModel.from_pretrained(copy.deepcopy(hf.model), str(folder), is_trainable=True)


def test_an_exported_adapter_is_the_trained_one(
    server: Server, service: tinker.ServiceClient, rest: tinker.RestClient, hf: HfReference, tmp_path: Path
) -> None:
    client = lora(service, server.model)
    for _ in range(3):
        train(client, DATA, types.AdamParams(learning_rate=0.01))
    model = peft_model(hf, exported(client, rest, "trained", tmp_path))
    for text, values in zip(TEXTS, forward(client, DATA), strict=True):
        with torch.no_grad():
            expected = next_logprobs(model, tokens_of(text)).numpy()
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4)
        assert np.abs(values - hf.logprobs(tokens_of(text))).max() > 0.01


def test_steps_are_those_of_torchs_adamw(
    server: Server, service: tinker.ServiceClient, rest: tinker.RestClient, hf: HfReference, tmp_path: Path
) -> None:
    client = lora(service, server.model)
    train(client, DATA, types.AdamParams(learning_rate=0.01))
    path = client.save_state("one").result(TIMEOUT_S).path
    model = peft_model(hf, exported(client, rest, "one", tmp_path))
    anew = service.create_training_client_from_state(path).result(TIMEOUT_S)
    params = types.AdamParams(learning_rate=0.02, beta1=0.8, beta2=0.9, eps=1e-4, weight_decay=0.1, grad_clip_norm=0.5)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    adamw = torch.optim.AdamW(weights, lr=0.02, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.1, foreach=False)
    for text in TEXTS:
        step = train(anew, [text_datum(text)], params)
        adamw.zero_grad()
        loss = -next_logprobs(model, tokens_of(text)).sum()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, 0.5).item()
        adamw.step()
        assert step.loss == pytest.approx(loss.item(), rel=1e-4)
        assert norm > 0.5
        if step.grad_norm:
            assert step.grad_norm == pytest.approx(norm, rel=1e-3)
    for text, values in zip(TEXTS, forward(anew, DATA), strict=True):
        with torch.no_grad():
            expected = next_logprobs(model, tokens_of(text)).numpy()
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-3)


def test_an_export_is_listed_and_deleted_like_any_checkpoint(
    server: Server, service: tinker.ServiceClient, rest: tinker.RestClient
) -> None:
    client = lora(service, server.model)
    path = client.save_weights_external("out").result(TIMEOUT_S).path
    listed = rest.list_checkpoints(client.model_id).result(TIMEOUT_S).checkpoints
    assert [(one.checkpoint_id, one.checkpoint_type) for one in listed] == [("external_weights/out", "external")]
    rest.delete_checkpoint_from_tinker_path(path).result(TIMEOUT_S)
    refusal(lambda: rest.get_external_weights_urls(path))
