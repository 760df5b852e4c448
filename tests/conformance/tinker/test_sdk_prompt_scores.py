"""What is asked about a prompt: other targets, alternatives, the most probable, without a sampled token."""

import numpy as np
import pytest
import tinker
import torch
from sdk_cases import TIMEOUT_S, USER_ERRORS, prompt_of, sampler_logprobs, tokens_of
from sdk_server import VOCAB
from tinker import types

PROMPT = "the tinsmith said"
ROWS = len(PROMPT) - 1
NOTHING = types.SamplingParams(max_tokens=0)


def ask(
    sampler: tinker.SamplingClient,
    *,
    params: types.SamplingParams = NOTHING,
    num_samples: int = 1,
    text: str = PROMPT,
    **questions: object,
) -> types.SampleResponse:
    future = sampler.sample(prompt_of(text), num_samples, params, **questions)  # pyright: ignore[reportArgumentType]
    return future.result(TIMEOUT_S)


def tensor(values: types.TensorData | None) -> np.ndarray:
    assert values is not None
    return values.to_torch().numpy()


def test_a_prompt_is_scored_without_a_token(sampler: tinker.SamplingClient) -> None:
    got = ask(sampler, num_samples=2, include_prompt_logprobs=True, topk_prompt_logprobs=2)
    assert got.prompt_logprobs_np is not None
    assert [(one.tokens, one.stop_reason) for one in got.sequences] == [([], "length")] * 2
    scored = np.array(sampler_logprobs(sampler, PROMPT), np.float32)
    assert got.prompt_logprobs_np[1:].tobytes() == scored[-ROWS:].tobytes()
    assert got.topk_prompt_logprobs is not None
    assert [row is None or len(row) for row in got.topk_prompt_logprobs] == [True, *[2] * ROWS]


def test_dense_targets_are_scored_where_they_stand(sampler: tinker.SamplingClient) -> None:
    ids = torch.full((ROWS, 3), -1, dtype=torch.int64)
    ids[:, 0] = torch.tensor(tokens_of(PROMPT)[1:])
    ids[5, 2] = 77
    got = ask(sampler, include_prompt_logprobs=True, target_prompt_logprobs=types.TensorData.from_torch(ids))
    scored = tensor(got.target_prompt_logprobs)
    assert scored.shape == (ROWS, 3)
    assert got.prompt_logprobs_np is not None
    assert scored[:, 0].tobytes() == got.prompt_logprobs_np[1:].tobytes()
    assert scored[5, 2] < 0.0
    assert (scored[ids.numpy() < 0] == 0.0).all()


def test_sparse_targets_come_back_as_they_were_sent(sampler: tinker.SamplingClient) -> None:
    ids = torch.full((ROWS, VOCAB), -1, dtype=torch.int64)
    ids[3, 200], ids[3, 7], ids[9, 40] = 12, 99, 13
    sent = types.TensorData.from_torch_sparse(ids, pad_value=-1)
    got = ask(sampler, target_prompt_logprobs=sent).target_prompt_logprobs
    assert got is not None
    assert got.sparse_crow_indices == sent.sparse_crow_indices
    assert got.sparse_col_indices == sent.sparse_col_indices
    assert got.shape == sent.shape == [ROWS, VOCAB]
    named = ids[:, [7, 40, 200]].contiguous()
    dense = ask(sampler, target_prompt_logprobs=types.TensorData.from_torch(named))
    assert got.data == tensor(dense.target_prompt_logprobs)[named.numpy() >= 0].tolist()


def test_alternatives_have_the_logprobs_of_targets(sampler: tinker.SamplingClient) -> None:
    params = types.SamplingParams(max_tokens=1, temperature=0.7, seed=5)
    drawn = ask(sampler, params=params, prompt_alt_tokens_k=6).prompt_alt_tokens
    assert drawn is not None
    tokens, logprobs = tensor(drawn.tokens), tensor(drawn.logprobs)
    assert tokens.shape == logprobs.shape == (ROWS, 6)
    assert drawn.tokens.dtype == "int64"
    again = ask(sampler, params=params, num_samples=3, prompt_alt_tokens_k=6).prompt_alt_tokens
    assert again is not None
    assert tensor(again.tokens).tolist() == tokens.tolist()
    targets = types.TensorData.from_numpy(np.ascontiguousarray(tokens, np.int64))
    scored = tensor(ask(sampler, target_prompt_logprobs=targets).target_prompt_logprobs)
    assert scored.tobytes() == logprobs.tobytes()


@pytest.mark.parametrize(
    "questions",
    [
        {},
        {"prompt_alt_tokens_k": 4096},
        {"target_prompt_logprobs": types.TensorData([1] * (ROWS + 1), "int64", [ROWS + 1, 1])},
        {"target_prompt_logprobs": types.TensorData([-1] * ROWS, "int64", [ROWS, 1])},
        {"target_prompt_logprobs": types.TensorData([VOCAB] * ROWS, "int64", [ROWS, 1])},
        {"target_prompt_logprobs": types.TensorData([1], "int64", [ROWS, 1], [0] * ROWS, [0])},
        {"topk_prompt_logprobs": VOCAB + 1},
    ],
    ids=lambda questions: " ".join(questions) or "nothing",
)
def test_what_cannot_be_said_is_refused_and_the_client_lives_on(
    sampler: tinker.SamplingClient, questions: dict[str, object]
) -> None:
    with pytest.raises(USER_ERRORS):
        ask(sampler, **questions)  # pyright: ignore[reportArgumentType]
    assert ask(sampler, params=types.SamplingParams(max_tokens=1)).sequences
