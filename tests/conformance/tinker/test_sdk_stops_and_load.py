"""Where a sample ends, and that no neighbour in flight changes it (check 8)."""

import pytest
import tinker
from sdk_cases import TIMEOUT_S, lora, prompt_of
from sdk_server import END, Server
from tinker import types

PROMPT = "hammer, anvil, "
LONG = 400


def sample(client: tinker.SamplingClient, stop: object, max_tokens: int = LONG) -> types.SampledSequence:
    """One seeded sample."""
    wanted = types.SamplingParams.model_validate({"max_tokens": max_tokens, "seed": 11, "stop": stop})
    return client.sample(prompt_of(PROMPT), 1, wanted).result(TIMEOUT_S).sequences[0]


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
    sequences = sampler.sample(prompt_of(PROMPT), 16, wanted).result(TIMEOUT_S).sequences
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
