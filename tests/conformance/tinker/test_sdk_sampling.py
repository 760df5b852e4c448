"""Tokens and their log-probabilities: one model with the trainer, seeds, stops, neighbours (checks 7, 8, 15)."""

import numpy as np
import pytest
import tinker
import torch
from hf_reference import HfReference
from sdk_cases import (
    TIMEOUT_S,
    USER_ERRORS,
    datum,
    forward,
    lora,
    prompt_of,
    same,
    sampler_logprobs,
    text_datum,
    tokens_of,
    train,
)
from sdk_server import END, VOCAB, Server
from tinker import types

PROMPT = "the tinsmith said: "
ADAM = types.AdamParams(learning_rate=0.01)
Told = tuple[list[int], bytes, str]


@pytest.fixture(scope="module")
def trainer(server: Server, service: tinker.ServiceClient) -> tinker.TrainingClient:
    """An adapter after two steps, which stays as it is."""
    client = lora(service, server.model)
    for text in ("copper and brass", "iron and tin"):
        train(client, [text_datum(text)], ADAM)
    return client


@pytest.fixture(scope="module")
def sampler(trainer: tinker.TrainingClient) -> tinker.SamplingClient:
    return trainer.save_weights_and_get_sampling_client().result(TIMEOUT_S)


def params(**changes: object) -> types.SamplingParams:
    """16 tokens, whatever they are."""
    return types.SamplingParams.model_validate({"max_tokens": 16, "stop": [], **changes})


def told(response: types.SampleResponse) -> list[Told]:
    """Tokens, bits of their log-probabilities and the reason to stop."""
    sequences: list[Told] = []
    for sequence in response.sequences:
        assert len(sequence.tokens) == len(sequence.logprobs_np)
        sequences.append((sequence.tokens, sequence.logprobs_np.tobytes(), sequence.stop_reason))
    return sequences


def draw(client: tinker.SamplingClient, wanted: types.SamplingParams, *, n: int = 1, text: str = PROMPT) -> list[Told]:
    """Sample a text's continuation."""
    return told(client.sample(prompt_of(text), n, wanted).result(TIMEOUT_S))


def test_base_logprobs_are_those_of_transformers(
    server: Server, service: tinker.ServiceClient, hf: HfReference
) -> None:
    base = service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)
    expected = hf.logprobs(tokens_of(PROMPT))
    np.testing.assert_allclose(sampler_logprobs(base, PROMPT), expected, rtol=0, atol=1e-5)


def test_sampler_and_trainer_give_a_text_the_same_logprobs(
    server: Server, trainer: tinker.TrainingClient, sampler: tinker.SamplingClient
) -> None:
    assert same(server, forward(trainer, [text_datum(PROMPT)]), [sampler_logprobs(sampler, PROMPT)])


def test_sampled_tokens_have_the_trainers_logprobs(
    server: Server, trainer: tinker.TrainingClient, sampler: tinker.SamplingClient
) -> None:
    prompt = tokens_of(PROMPT)
    response = sampler.sample(prompt_of(PROMPT), 8, params(seed=3, max_tokens=40)).result(TIMEOUT_S)
    data = [datum(prompt + sequence.tokens) for sequence in response.sequences]
    scored = [values[len(prompt) - 1 :] for values in forward(trainer, data)]
    sampled = [np.asarray(sequence.logprobs_np) for sequence in response.sequences]
    assert same(server, sampled, scored)


def test_on_policy_the_importance_ratio_is_one(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    prompt = tokens_of(PROMPT)
    for step in range(3):
        policy = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
        samples = policy.sample(prompt_of(PROMPT), 4, params(seed=step)).result(TIMEOUT_S).sequences
        advantages = np.array([-1.0, 1.0, 0.5, -0.5])
        batch = []
        for advantage, sequence in zip(advantages, samples, strict=True):
            zeros = [0.0] * (len(prompt) - 1)
            inputs = {
                "logprobs": zeros + list(sequence.logprobs or []),
                "advantages": zeros + [advantage] * len(sequence.tokens),
            }
            batch.append(datum(prompt + sequence.tokens, inputs))
        told_step = train(client, batch, ADAM, loss_fn="importance_sampling")
        distances = [
            np.asarray(sequence.logprobs_np) - values[len(prompt) - 1 :]
            for sequence, values in zip(samples, told_step.logprobs, strict=True)
        ]
        assert np.abs(np.concatenate(distances)).max() <= (0.0 if server.exact else 1e-6)
        assert told_step.loss == pytest.approx(-16 * advantages.sum(), abs=1e-5)


def test_a_seed_repeats_and_another_does_not(sampler: tinker.SamplingClient) -> None:
    first, again, other = (draw(sampler, params(seed=seed), n=2) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_the_samples_of_one_request_differ(sampler: tinker.SamplingClient) -> None:
    response = sampler.sample(prompt_of(PROMPT), 4, params(seed=5)).result(TIMEOUT_S)
    assert len({tuple(sequence.tokens) for sequence in response.sequences}) == 4
    assert len({sequence.sequence_id for sequence in response.sequences}) == 4


def test_unseeded_requests_that_are_equal_differ(sampler: tinker.SamplingClient) -> None:
    pending = [sampler.sample(prompt_of(PROMPT), 1, params()) for _ in range(4)]
    sequences = [told(future.result(TIMEOUT_S))[0] for future in pending]
    assert len({tuple(tokens) for tokens, _, _ in sequences}) == 4


def test_greedy_needs_no_seed(sampler: tinker.SamplingClient) -> None:
    greedy = draw(sampler, params(temperature=0.0))
    assert greedy == draw(sampler, params(temperature=0.0))
    assert greedy == draw(sampler, params(temperature=0.0, seed=9))
    assert greedy[0][0] == draw(sampler, params(top_k=1, seed=4))[0][0]
    assert greedy[0][0] == draw(sampler, params(top_p=1e-6, seed=4))[0][0]


def test_temperature_divides_the_differences_of_logprobs(sampler: tinker.SamplingClient) -> None:
    prompt = tokens_of(PROMPT)
    hot = params(seed=2, max_tokens=1, temperature=2.0)
    sequences = sampler.sample(prompt_of(PROMPT), 12, hot).result(TIMEOUT_S).sequences
    at_two = {sequence.tokens[0]: (sequence.logprobs or [])[0] for sequence in sequences}
    assert len(at_two) > 3
    at_one: dict[int, float] = {}
    for token in at_two:
        scored = sampler.compute_logprobs(types.ModelInput.from_ints([*prompt, token]))
        value = scored.result(TIMEOUT_S)[-1]
        assert value is not None
        at_one[token] = value
    first = next(iter(at_two))
    for token in at_two:
        difference = at_two[token] - at_two[first]
        assert difference == pytest.approx((at_one[token] - at_one[first]) / 2.0, abs=1e-4)


def test_prompt_logprobs_come_with_a_sample(server: Server, sampler: tinker.SamplingClient) -> None:
    response = sampler.sample(
        prompt_of(PROMPT), 2, params(seed=1), include_prompt_logprobs=True, topk_prompt_logprobs=5
    ).result(TIMEOUT_S)
    assert response.prompt_logprobs[0] is None
    values = np.array(response.prompt_logprobs[1:], dtype=np.float32)
    assert same(server, [values], [sampler_logprobs(sampler, PROMPT)])
    assert told(response) == draw(sampler, params(seed=1), n=2)
    top = response.topk_prompt_logprobs
    assert len(top) == len(tokens_of(PROMPT))
    for token, value, best in zip(tokens_of(PROMPT)[1:], values, top[1:], strict=True):
        assert len(best) == 5
        assert [logprob for _, logprob in best] == sorted((lp for _, lp in best), reverse=True)
        assert best[0][1] >= value
        assert dict(best).get(token, value) == pytest.approx(value, abs=1e-6)


def test_top_logprobs_of_sampled_positions(sampler: tinker.SamplingClient) -> None:
    response = sampler.sample(prompt_of(PROMPT), 1, params(temperature=0.0), topk_sample_logprobs=3).result(TIMEOUT_S)
    sequence = response.sequences[0]
    for token, value, best in zip(sequence.tokens, sequence.logprobs or [], sequence.topk_logprobs, strict=True):
        assert len(best) == 3
        assert best[0] == (token, pytest.approx(value, abs=1e-6))


def test_sampler_weights_by_path_are_the_snapshot(
    server: Server, service: tinker.ServiceClient, trainer: tinker.TrainingClient, sampler: tinker.SamplingClient
) -> None:
    path = trainer.save_weights_for_sampler("by-path").result(TIMEOUT_S).path
    loaded = service.create_sampling_client(model_path=path).result(TIMEOUT_S)
    assert loaded.get_base_model() == server.model
    assert draw(loaded, params(seed=8), n=2) == draw(sampler, params(seed=8), n=2)


def test_a_client_from_a_handle_samples_the_same(server: Server, sampler: tinker.SamplingClient) -> None:
    """A clone numbers its requests from a billion on, and nobody ever sends those before."""
    clone = tinker.SamplingClient.from_sampler_handle(sampler.get_sampler_handle(), api_key=server.key)
    assert draw(clone, params(seed=8)) == draw(sampler, params(seed=8))
    assert len(draw(clone, params())[0][0]) == 16


def test_the_longest_sequence_fits_the_context(sampler: tinker.SamplingClient, context: int) -> None:
    prompt = types.ModelInput.from_ints([65 + i % 26 for i in range(context - 2)])
    response = sampler.sample(prompt, 1, params(max_tokens=2, seed=1)).result(TIMEOUT_S)
    assert len(response.sequences[0].tokens) == 2


def test_chunks_of_a_prompt_are_one_prompt(sampler: tinker.SamplingClient) -> None:
    tokens = tokens_of(PROMPT)
    chunks = [types.EncodedTextChunk(tokens=part) for part in (tokens[:5], tokens[5:])]
    split = sampler.sample(types.ModelInput(chunks=chunks), 1, params(seed=8)).result(TIMEOUT_S)
    assert told(split) == draw(sampler, params(seed=8))


STOPPED = "hammer, anvil, "
LONG = 400


def sample(client: tinker.SamplingClient, stop: object, max_tokens: int = LONG) -> types.SampledSequence:
    """One seeded sample."""
    wanted = types.SamplingParams.model_validate({"max_tokens": max_tokens, "seed": 11, "stop": stop})
    return client.sample(prompt_of(STOPPED), 1, wanted).result(TIMEOUT_S).sequences[0]


def test_an_empty_list_never_stops(sampler: tinker.SamplingClient) -> None:
    sequence = sample(sampler, [])
    assert len(sequence.tokens) == LONG
    assert sequence.stop_reason == "length"


def test_a_stop_token_ends_the_sample_and_is_part_of_it(sampler: tinker.SamplingClient) -> None:
    free = sample(sampler, []).tokens
    stop = next(token for i, token in enumerate(free) if i > 20 and token not in free[:i])
    sequence = sample(sampler, [stop])
    at = next(i for i, token in enumerate(free) if token in (stop, END))
    assert sequence.tokens == free[: at + 1]
    assert sequence.stop_reason == "stop"


def test_a_stop_string_ends_the_sample_and_is_part_of_it(
    server: Server, service: tinker.ServiceClient, sampler: tinker.SamplingClient
) -> None:
    if server.process is None:
        pytest.skip("a named server may name a tokenizer that is not on this machine")
    tokenizer = lora(service, server.model).get_tokenizer()
    free = sample(sampler, []).tokens
    ascii_pair = next(
        (i, tokenizer.decode(free[i : i + 2]))
        for i in range(5, LONG)
        if END not in free[: i + 2]
        and tokenizer.decode(free[i : i + 2]).isascii()
        and len(tokenizer.decode(free[i : i + 2])) == 2
    )
    at, text = ascii_pair
    for stop in (text, [text, "never in there"]):
        sequence = sample(sampler, stop)
        assert sequence.tokens == free[: at + 2]
        assert sequence.stop_reason == "stop"


def test_without_stops_the_end_token_ends(server: Server, sampler: tinker.SamplingClient) -> None:
    if server.process is None:
        pytest.skip("a named server may have another end token")
    wanted = types.SamplingParams(max_tokens=LONG, seed=2)
    sequences = sampler.sample(prompt_of(STOPPED), 16, wanted).result(TIMEOUT_S).sequences
    stopped = [sequence for sequence in sequences if sequence.stop_reason == "stop"]
    assert stopped
    for sequence in stopped:
        assert sequence.tokens.index(END) == len(sequence.tokens) - 1
    for sequence in sequences:
        if sequence.stop_reason == "length":
            assert len(sequence.tokens) == LONG
            assert END not in sequence.tokens


def test_thirty_samples_in_flight_change_nothing(sampler: tinker.SamplingClient) -> None:
    alone = sample(sampler, [], 48)
    others = [
        sampler.sample(
            prompt_of(f"{i} " * (1 + 7 * i)),
            1 + i % 3,
            types.SamplingParams(max_tokens=20 + i, stop=[], temperature=0.5 + i / 10),
        )
        for i in range(30)
    ]
    among = sample(sampler, [], 48)
    for other in others:
        other.result(TIMEOUT_S)
    assert among.tokens == alone.tokens
    assert among.logprobs == alone.logprobs


def test_256_requests_at_once_are_each_as_alone(server: Server, sampler: tinker.SamplingClient) -> None:
    if not server.exact:
        pytest.skip("needs a server that promises equal bits")

    def submit(i: int) -> tinker.APIFuture[types.SampleResponse]:
        wanted = types.SamplingParams(max_tokens=4 + i % 9, seed=i, stop=[], temperature=1.0)
        return sampler.sample(prompt_of("tin " * (1 + i % 11) + str(i)), 1, wanted)

    pending = [submit(i) for i in range(256)]
    together = [future.result(TIMEOUT_S).sequences[0] for future in pending]
    alone = [submit(i).result(TIMEOUT_S).sequences[0] for i in range(256)]
    assert [s.tokens for s in together] == [s.tokens for s in alone]
    assert [s.logprobs for s in together] == [s.logprobs for s in alone]


SCORED = "the tinsmith said"
ROWS = len(SCORED) - 1
NOTHING = types.SamplingParams(max_tokens=0)


def ask(
    sampler: tinker.SamplingClient,
    *,
    params: types.SamplingParams = NOTHING,
    num_samples: int = 1,
    text: str = SCORED,
    **questions: object,
) -> types.SampleResponse:
    future = sampler.sample(prompt_of(text), num_samples, params, **questions)  # pyright: ignore[reportArgumentType]
    return future.result(TIMEOUT_S)


def tensor(values: types.TensorData | None) -> np.ndarray:
    return values.to_torch().numpy()


def test_a_prompt_is_scored_without_a_token(sampler: tinker.SamplingClient) -> None:
    got = ask(sampler, num_samples=2, include_prompt_logprobs=True, topk_prompt_logprobs=2)
    assert [(one.tokens, one.stop_reason) for one in got.sequences] == [([], "length")] * 2
    scored = np.array(sampler_logprobs(sampler, SCORED), np.float32)
    assert got.prompt_logprobs_np[1:].tobytes() == scored[-ROWS:].tobytes()
    assert [row is None or len(row) for row in got.topk_prompt_logprobs] == [True, *[2] * ROWS]


def test_dense_targets_are_scored_where_they_stand(sampler: tinker.SamplingClient) -> None:
    ids = torch.full((ROWS, 3), -1, dtype=torch.int64)
    ids[:, 0] = torch.tensor(tokens_of(SCORED)[1:])
    ids[5, 2] = 77
    got = ask(sampler, include_prompt_logprobs=True, target_prompt_logprobs=types.TensorData.from_torch(ids))
    scored = tensor(got.target_prompt_logprobs)
    assert scored.shape == (ROWS, 3)
    assert scored[:, 0].tobytes() == got.prompt_logprobs_np[1:].tobytes()
    assert scored[5, 2] < 0.0
    assert (scored[ids.numpy() < 0] == 0.0).all()


def test_sparse_targets_come_back_as_they_were_sent(sampler: tinker.SamplingClient) -> None:
    ids = torch.full((ROWS, VOCAB), -1, dtype=torch.int64)
    ids[3, 200], ids[3, 7], ids[9, 40] = 12, 99, 13
    sent = types.TensorData.from_torch_sparse(ids, pad_value=-1)
    got = ask(sampler, target_prompt_logprobs=sent).target_prompt_logprobs
    assert got.sparse_crow_indices == sent.sparse_crow_indices
    assert got.sparse_col_indices == sent.sparse_col_indices
    assert got.shape == sent.shape == [ROWS, VOCAB]
    named = ids[:, [7, 40, 200]].contiguous()
    dense = ask(sampler, target_prompt_logprobs=types.TensorData.from_torch(named))
    assert got.data == tensor(dense.target_prompt_logprobs)[named.numpy() >= 0].tolist()


def test_alternatives_have_the_logprobs_of_targets(sampler: tinker.SamplingClient) -> None:
    params = types.SamplingParams(max_tokens=1, temperature=0.7, seed=5)
    drawn = ask(sampler, params=params, prompt_alt_tokens_k=6).prompt_alt_tokens
    tokens, logprobs = tensor(drawn.tokens), tensor(drawn.logprobs)
    assert tokens.shape == logprobs.shape == (ROWS, 6)
    assert drawn.tokens.dtype == "int64"
    again = ask(sampler, params=params, num_samples=3, prompt_alt_tokens_k=6).prompt_alt_tokens
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
