"""`POST /api/v1/tinsmith/spread`: exact figures of whole distributions over HTTP."""

from typing import Any

import httpx
import numpy as np
import pytest
import tinker

from loopback import MODEL, Running
from tinsmith.server.spread import MOST, ROUTE

pytestmark = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
TEXT, OTHER = [70, 71, 72, 73, 74], [9, 8, 7]


def told(http: httpx.Client, **asked: Any) -> list[dict[str, list[Any]]]:
    answer = http.post(ROUTE, json={"model": MODEL, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["sequences"]


def test_log_probabilities_are_those_of_the_protocol(http: httpx.Client, running: Running) -> None:
    client = running.tinker().create_sampling_client(base_model=MODEL).result()
    expected = client.compute_logprobs(tinker.ModelInput.from_ints(TEXT)).result()
    (found,) = told(http, sequences=[TEXT])
    assert np.array(found["logprob"][1:], np.float32).tolist() == expected[1:]
    assert {name: values[0] for name, values in found.items()} == dict.fromkeys(found)


def test_the_most_probable_token_has_rank_1_and_no_other_has(http: httpx.Client) -> None:
    own = told(http, sequences=[TEXT, OTHER])
    best = [one["argmax"][1:] for one in own]
    asked = told(http, sequences=[TEXT, OTHER], targets=best)
    assert [one["rank"][1:] for one in asked] == [[1] * 4, [1] * 2]
    for one, text in zip(own, (TEXT, OTHER), strict=True):
        ranked_first = [rank == 1 for rank in one["rank"][1:]]
        assert ranked_first == [a == b for a, b in zip(one["argmax"][1:], text[1:], strict=True)]
    assert [one["entropy"] for one in asked] == [one["entropy"] for one in own]


def test_a_text_says_the_same_alone_and_among_others(http: httpx.Client) -> None:
    together = told(http, sequences=[OTHER, TEXT, [1, 2]])
    assert together[1:2] == told(http, sequences=[TEXT])


def test_of_a_part_it_says_what_it_says_of_the_whole(http: httpx.Client) -> None:
    whole = told(http, sequences=[TEXT, OTHER])
    parts = told(http, sequences=[TEXT, OTHER], begins=[3, 1])
    assert parts[1] == whole[1]
    for name, values in whole[0].items():
        assert parts[0][name] == [None, None, None, *values[3:]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sequences": []}, "sequences"),
        ({"sequences": [[5]]}, "sequences[0]"),
        ({"sequences": [TEXT] * (MOST + 1)}, "sequences"),
        ({"sequences": [TEXT], "targets": [[1]]}, "targets"),
        ({"sequences": [TEXT], "targets": []}, "targets"),
        ({"sequences": [TEXT], "begins": []}, "begins"),
        ({"sequences": [TEXT], "begins": [0]}, "begins[0]"),
        ({"sequences": [OTHER, TEXT], "begins": [1, 5]}, "begins[1]"),
        ({"sequences": [TEXT], "targets": [[-1, 1, 1, 1]]}, "targets"),
        ({"sequences": [[1, 10**6]]}, "prompt"),
        ({"sequences": [TEXT], "model": "nobody"}, "model"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_its_field(http: httpx.Client, asked: dict[str, Any], said: str) -> None:
    answer = http.post(ROUTE, json={"model": MODEL, **asked})
    assert answer.status_code == 400
    assert said in answer.text
