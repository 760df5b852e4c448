"""`tinsmith conform` through older clients and of servers of others: what they do otherwise is said in the row."""

import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types

from conform_asked import answered_otherwise, verdicts

from running import HANG_S, KEY, Running
from tinsmith.lab.conform.subject import Word
from tinsmith.lab.conform.suite import ask, checks, open_subject

pytestmark = [
    pytest.mark.whole,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


TRAINER, SAMPLER, SERVICE = tinker.TrainingClient, tinker.SamplingClient, tinker.ServiceClient


def _without_metrics(output: types.ForwardBackwardOutput) -> types.ForwardBackwardOutput:
    return replace(output, metrics={})


def test_what_an_older_client_lacks_is_said_in_the_row(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SERVICE, "create_custom_loss")
    draw = SAMPLER.sample

    def drawn(
        self: tinker.SamplingClient, prompt: types.ModelInput, num_samples: int, sampling_params: types.SamplingParams
    ) -> object:
        return draw(self, prompt, num_samples, sampling_params)

    drawn.__name__ = "sample"
    monkeypatch.setattr(SAMPLER, "sample", drawn)
    rows = {
        "losses/custom, on the server": "create_custom_loss",
        "scoring/target_prompt_logprobs": "target_prompt_logprobs",
    }
    found = verdicts(server, *rows)
    for name, lacking in rows.items():
        assert found[name].word is Word.DIFFERS
        assert tinker.__version__ in found[name].how
        assert lacking in found[name].how


def test_a_client_that_hands_out_no_futures_is_asked_the_same(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in (
        (SERVICE, "create_lora_training_client"),
        (SERVICE, "create_sampling_client"),
        (TRAINER, "save_weights_and_get_sampling_client"),
    ):
        monkeypatch.setattr(owner, name, _waiting_itself(getattr(owner, name)))
    monkeypatch.delattr(tinker, "RestClient")
    monkeypatch.delattr(SERVICE, "close")
    rows = ("sampling/seed repeats", "scoring/compute_logprobs", "mistakes/unknown model, sampling")
    assert {one.word for one in verdicts(server, *rows).values()} == {Word.HONOURED}


def _waiting_itself(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let a call wait for its own result, as older releases do."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs).result(HANG_S)

    return call


def test_a_refusal_that_the_client_retries_is_told_in_the_servers_words(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise ValueError(
            "Error retrieving result: Error code: 400 - {'detail': 'no tinsmith here'}"
            " (status 400) for self.request_id='7' - exceeded 3 retries"
        )

    monkeypatch.setattr(SAMPLER, "compute_logprobs", refuse)
    found = verdicts(server, "scoring/compute_logprobs")["scoring/compute_logprobs"]
    assert found.word is Word.DIFFERS
    assert found.how.endswith(": no tinsmith here")


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), CancelledError()])
def test_an_answer_that_breaks_off_is_a_row(server: Running, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(SAMPLER, "compute_logprobs", broken)
    found = verdicts(server, "scoring/compute_logprobs")["scoring/compute_logprobs"]
    assert found.word is Word.DIFFERS
    assert type(error).__name__ in found.how


def test_what_is_refused_anyway_is_no_refusal_of_a_mistake(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        body = {"detail": "a field is missing"}
        response = httpx.Response(422, json=body, request=httpx.Request("POST", server.url))
        raise tinker.UnprocessableEntityError("", response=response, body=body)

    monkeypatch.setattr(SERVICE, "create_training_client_from_state", refuse)
    rows = ("state/list and delete", "mistakes/unknown checkpoint")
    assert {one.word for one in verdicts(server, *rows).values()} == {Word.REFUSED}


def test_a_sum_is_judged_by_the_gradient_where_no_loss_is_told(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = answered_otherwise(TRAINER, _without_metrics, "forward_backward", "forward")
    patch(monkeypatch)
    rows = ("losses/sum over datums", "training/chunks")
    assert {one.word for one in verdicts(server, *rows).values()} == {Word.HONOURED}


def test_a_server_that_dies_in_between_is_rows(tmp_path: Path) -> None:
    with Running(tmp_path / "state") as dying, open_subject(dying.url, KEY, None, HANG_S) as subject:
        asking = ask(subject, checks()[:4])
        found = [next(asking).verdict]
        dying.stop()
        subject.limit_s = 0.1  # nobody will answer, however long it is waited
        found += [one.verdict for one in asking]
    assert [one.word for one in found] == [Word.HONOURED, *[Word.DIFFERS] * 3]
    assert all("gone" in one.how for one in found[2:])
