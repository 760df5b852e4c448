"""Whose request is computed next, where more wait than there is room for."""

from typing import Any

import numpy as np

from tinsmith.engine.sequences import Group, Waiting
from tinsmith.types.sampling import SampleRequest, SamplingParams


def group() -> Group:
    nothing: Any = None
    request = SampleRequest(prompt=np.array([1], np.int32), params=SamplingParams(seed=0, max_tokens=1))
    return Group(request, nothing, nothing)


def test_owners_take_turns_and_each_ones_requests_stay_in_order() -> None:
    waiting, named = Waiting(), {name: group() for name in ("a0", "a1", "a2", "a3", "b0", "b1", "c0")}
    for name, each in named.items():
        waiting.add(each, name[0])
    order: list[str] = []
    while waiting:
        first = waiting.first
        assert waiting.pop() is first
        order += [name for name, each in named.items() if each is first]
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_what_is_taken_out_is_not_computed() -> None:
    waiting, kept, other = Waiting(), group(), group()
    waiting.add(other, "a")
    waiting.add(kept, "b")
    assert waiting.remove(other)
    assert not waiting.remove(other)
    assert waiting.pop() is kept
    assert not waiting
