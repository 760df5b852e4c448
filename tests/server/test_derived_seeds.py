"""Seeds of unseeded requests, frozen: a field that came later changes none of them while it is at its default."""

import json

import pytest
from pydantic import JsonValue

from tinsmith.server.access.caller import DEFAULT
from tinsmith.server.samplers import Samplers
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.requests import Sample

FULL: dict[str, JsonValue] = {"max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ["a"]}
EXTRA: dict[str, JsonValue] = {
    "num_samples": 3,
    "topk_sample_logprobs": 2,
    "prompt_logprobs": True,
    "prompt_logprobs_last_n": 1,
}


class _Never:
    """A store that has seen no request yet."""

    seed = 0

    @property
    def store(self) -> "_Never":
        return self

    def occurrence(self, key: str) -> int:
        assert key
        return 0


def _seed(params: dict[str, JsonValue], route: str | None = None, extra: dict[str, JsonValue] | None = None) -> int:
    body: dict[str, JsonValue] = {
        "sampling_session_id": "s",
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": params,
        **(extra or {}),
    }
    request = parse_json(Sample, json.dumps(body).encode())
    return Samplers.seed_of(_Never(), "tinsmith/nano", "w", request, owner=DEFAULT, route=route)  # type: ignore[arg-type]


def test_seeds_are_what_they_were() -> None:
    assert _seed({}) == 11207096521635740342
    assert _seed({}, "chat") == 14067411268240808895
    assert _seed(FULL, extra=EXTRA) == 9642518371831223031
    assert _seed(FULL, "chat", EXTRA) == 12590702979970194620


@pytest.mark.parametrize("adjustments", [None, {}, {"min_p": 0.0, "logit_bias": []}])
def test_adjustments_that_change_nothing_change_no_seed(adjustments: JsonValue) -> None:
    assert _seed({"adjustments": adjustments}) == _seed({})


@pytest.mark.parametrize("adjustments", [{"min_p": 0.1}, {"grammar": {"kind": "regex", "text": "a"}}])
def test_adjustments_that_change_something_have_a_seed_of_their_own(adjustments: JsonValue) -> None:
    assert _seed({"adjustments": adjustments}) != _seed({})
