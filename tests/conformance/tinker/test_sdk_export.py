"""The adapter as peft files, and a step of AdamW on it against peft and torch (checks 4 and 13)."""

import copy
import os
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tinker
import torch
from hf_reference import HfReference, next_logprobs
from sdk_cases import TIMEOUT_S, forward, lora, refusal, text_datum, tokens_of, train
from sdk_server import Server
from tinker import types

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
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
