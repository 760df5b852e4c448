"""Hostile graphs are refused at the node that is to blame, when they are made where that can be known."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hostile_graphs import AT_CREATION, AT_EVALUATION, NOT_FINITE, Nodes, graph
from hypothesis import given, settings
from hypothesis import strategies as st

from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.operations import FUNCTIONS, METHODS
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.types.errors import InputError

LOGPROBS = -np.arange(1.0, 17.0, dtype=np.float32)


def made(nodes: Nodes, *inputs: LossInput) -> CustomLoss:
    given = inputs or (LossInput("logprobs", 1),)
    return CustomLoss.of("hostile", given, [SentNode(**node) for node in nodes])


def assert_names(error: InputError, node: str) -> None:
    assert error.field is not None
    assert error.field.startswith("graph.nodes")
    assert node in error.field
    assert max(map(len, str(error).splitlines())) < 400


@pytest.mark.parametrize("name", AT_CREATION)
def test_what_can_be_known_is_refused_when_the_loss_is_made(name: str) -> None:
    nodes, node = AT_CREATION[name]
    with pytest.raises(InputError) as caught:
        made(nodes)
    assert_names(caught.value, node)


@pytest.mark.parametrize("name", AT_EVALUATION)
def test_the_rest_is_refused_when_a_datum_is_computed(name: str) -> None:
    nodes, node = AT_EVALUATION[name]
    objective = made(nodes).objective()
    with pytest.raises(InputError) as caught:
        objective.value(LOGPROBS, {})
    assert_names(caught.value, node)


@pytest.mark.parametrize("name", NOT_FINITE)
def test_a_loss_that_is_not_finite_shows_in_its_value_or_gradient(name: str) -> None:
    value = made(NOT_FINITE[name]).objective().value(LOGPROBS, {})
    assert not (np.isfinite(value.total) and np.isfinite(value.grad).all())


def test_memory_stays_bounded_and_is_given_back() -> None:
    objectives = [made(nodes).objective() for nodes, _ in AT_EVALUATION.values()]
    tracemalloc.start()
    for objective in objectives:
        with pytest.raises(InputError):
            objective.value(LOGPROBS, {})
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 700 << 20
    assert held < 1 << 20


def test_a_request_has_a_bound_on_what_is_computed_for_all_its_datums() -> None:
    objective = made(graph()).objective()
    objective.work.left = 250
    for _ in range(5):
        objective.value(LOGPROBS, {})  # 16 elements, their sum that reads them, and the way back: 50
    with pytest.raises(InputError) as caught:
        objective.value(LOGPROBS, {})
    assert_names(caught.value, "")


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [("weights", 1)],
        [("logprobs", 0)],
        [("logprobs", 3)],
        [("logprobs", 1), ("logprobs", 1)],
        [("logprobs", 1), ("Weights", 1)],
        [("logprobs", 1), ("__class__\n", 1)],
        [("logprobs", 1), ("weights", 3)],
        [("logprobs", 1), *((f"i{i}", 1) for i in range(16))],
    ],
)
def test_inputs_that_a_loss_cannot_have_are_refused(inputs: Any) -> None:
    with pytest.raises(InputError) as caught:
        CustomLoss.of("hostile", [LossInput(*each) for each in inputs], [])
    assert caught.value.field is not None
    assert caught.value.field.startswith("inputs")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 200])
def test_a_loss_needs_a_name(name: str) -> None:
    with pytest.raises(InputError, match="field: name"):
        CustomLoss.of(name, [LossInput("logprobs", 1)], [])


_NODES = st.sampled_from(["logprobs", "weights", "ids", "table", "n0", "n1", "n2"])
_REFS = st.builds(lambda name: {"ref": name}, _NODES)
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.5, -1.5, 2**62, -(2**63), 1e300, "values", "shape", "T", "mean", "cpu"]),
    st.sampled_from(
        [
            {"float": "inf"},
            {"dtype": "int64"},
            {"dtype": "bool"},
            {"dtype": "float16"},
            {"device": "cpu"},
            {"ellipsis": True},
            {"layout": "strided"},
            {"memory_format": "contiguous_format"},
            {"dict": {"a": 1}},
        ]
    ),
)
_ARGUMENTS = st.recursive(
    st.one_of(_REFS, _REFS, _PLAIN),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda parts: {"tuple": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"slice": parts}, st.lists(inner, min_size=3, max_size=3)),
    ),
    max_leaves=4,
)
_NAMED = st.dictionaries(
    st.sampled_from(["dim", "keepdim", "dtype", "min", "max", "other", "input", "size", "index"]),
    _ARGUMENTS,
    max_size=2,
)
_CALLS = st.one_of(
    st.tuples(st.just("call_function"), st.sampled_from(sorted(FUNCTIONS))),
    st.tuples(st.just("call_method"), st.sampled_from(sorted(METHODS))),
)
_INPUTS = [LossInput("logprobs", 1), LossInput("weights", 1), LossInput("ids", 1), LossInput("table", 2)]


@given(st.lists(st.tuples(_CALLS, _REFS, st.lists(_ARGUMENTS, max_size=3), _NAMED), min_size=1, max_size=3))
@settings(max_examples=120, deadline=None)
def test_no_graph_of_allowed_operations_raises_anything_else(calls: Any) -> None:
    nodes: Nodes = [
        {"op": "placeholder", "name": each.name, "target": each.name, "args": [], "kwargs": {}} for each in _INPUTS
    ]
    for i, ((op, target), first, rest, named) in enumerate(calls):
        nodes.append({"op": op, "name": f"n{i}", "target": target, "args": [first, *rest], "kwargs": named})
    last = {"ref": f"n{len(calls) - 1}"}
    returned = {"tuple": [{"ref": "loss"}, {"dict": {}}]}
    nodes.append({"op": "call_method", "name": "loss", "target": "sum", "args": [last], "kwargs": {}})
    nodes.append({"op": "output", "name": "output", "target": "output", "args": [returned], "kwargs": {}})
    inputs = {
        "weights": np.array([0.5, 0.0, -1.0, 2.0], np.float32),
        "ids": np.array([0, 3, 1, 1]),
        "table": np.arange(12, dtype=np.float32).reshape(4, 3),
    }
    try:
        value = made(nodes, *_INPUTS).objective().value(LOGPROBS[:4], inputs)
    except InputError as error:
        assert_names(error, "")
    else:
        assert value.grad.shape == (4,)
