"""Hostile graphs are refused at the node that is to blame, when they are made where that can be known."""

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hostile_graphs import (
    AT_CREATION,
    AT_EVALUATION,
    INPUT,
    NOT_FINITE,
    Nodes,
    call,
    graph,
    method,
    node,
    output,
    ref,
    scaled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tinsmith.ops.custom_loss import program
from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.limits import MAX_CONSTANT_WORK, MAX_DATUM_WORK, MAX_ELEMENTS
from tinsmith.ops.custom_loss.operations import FUNCTIONS, METHODS
from tinsmith.ops.custom_loss.program import CustomLoss, CustomObjective
from tinsmith.ops.custom_loss.tape import Tape
from tinsmith.types.errors import InputError

LOGPROBS = -np.arange(1.0, 17.0, dtype=np.float32)


def made(nodes: Nodes, *inputs: LossInput) -> CustomLoss:
    given = inputs or (LossInput("logprobs", 1),)
    return CustomLoss.of("hostile", given, [SentNode(**node) for node in nodes])


def assert_names(error: InputError, node: str) -> None:
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


INPUTS = (LossInput("logprobs", 1), LossInput("ids", 1), LossInput("table", 2))
DATUM = {"ids": np.array([0, 3, 1, 1]), "table": np.arange(12, dtype=np.float32).reshape(4, 3)}
HOSTILE_LOGPROBS = -np.arange(1.0, 5.0, dtype=np.float32)

BEFORE = [
    *(node("placeholder", each.name, each.name) for each in INPUTS),
    method("column", "unsqueeze", ref("logprobs"), 1),
    method("big", "expand", ref("column"), 4, 1000),
    call("zero", "torch.zeros", 3, 0),
    call("empty", "operator.getitem", ref("logprobs"), {"slice": [0, 0, None]}),
    call("mask", "operator.gt", ref("logprobs"), -2),
    call("shape", "getattr", ref("table"), "shape"),
    call("total", "torch.sum", ref("logprobs")),
    call("beyond", "operator.neg", -(2**63)),
    call("pair", "torch.max", ref("table"), 1),
]
NODES = [ref(each["name"]) for each in BEFORE]
VALUES: list[Any] = [
    *NODES, 2**62, 2**63 - 1, -(2**63), -1, 0, 3, 1e300, 1e-300, -0.0, {"float": "inf"}, {"float": "-inf"}, True, None,
    "mean", [2**62, 0], [0, 2**62], [-1, -1], [2**31, 2**31, 2**31], {"tuple": []}, [], {"tuple": [4, 2**60]}, [1] * 9,
    [0, 0], [ref("logprobs"), ref("big")], [ref("empty")], {"slice": [2**62, None, 2**62]}, {"ellipsis": True},
    {"dtype": "int64"}, {"dtype": "bool"}, {"dict": {}},
]  # fmt: skip
TABLE = [*(("call_function", name) for name in FUNCTIONS), *(("call_method", name) for name in METHODS)]


def objective(nodes: list[dict[str, Any]], inputs: tuple[LossInput, ...] = INPUTS) -> CustomObjective:
    return CustomLoss.of("hostile", inputs, [SentNode(**each) for each in nodes]).objective()


@pytest.mark.parametrize(("op", "target"), TABLE)
def test_an_operation_with_hostile_arguments_is_refused_at_its_node(
    op: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "IMPOSSIBLE", ())  # the checks alone must do, not what numpy refuses
    draw = random.Random(target)
    refused: list[str] = []
    for count in (1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3):
        first = draw.choice(NODES if op == "call_method" or draw.random() < 0.5 else VALUES)
        arguments = [first, *(draw.choice(VALUES) for _ in range(count - 1))]
        nodes = [*BEFORE, node(op, "x", target, *arguments), method("s", "sum", ref("x"))]
        nodes += [call("p", "operator.mul", ref("s"), ref("logprobs")), method("loss", "sum", ref("p")), output()]
        try:
            value = objective(nodes).value(HOSTILE_LOGPROBS, DATUM)
        except InputError as error:
            refused.append(str(error.field))
        else:
            assert value.grad.shape == HOSTILE_LOGPROBS.shape
    assert all(field.startswith("graph.nodes") for field in refused)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("torch.zeros", [2**62, 0]),
        ("torch.zeros", [[0, 2**62]]),
        ("torch.ones", [2**40, 0, 2**40]),
        ("torch.full", [[2**62, 0], 1.0]),
        ("torch.arange", [0, 1e300, 1e-300]),
        ("torch.arange", [-1e308, 1e308]),
        ("torch.arange", [0, {"float": "inf"}]),
        ("torch.arange", [-(2**63), 2**63 - 1]),
    ],
)
def test_a_size_that_cannot_be_is_refused_when_the_loss_is_made(target: str, arguments: list[Any]) -> None:
    with pytest.raises(InputError, match="field: graph") as caught:
        objective(graph(call("x", target, *arguments)), INPUTS[:1])
    assert str(MAX_ELEMENTS) in str(caught.value) or "finite" in str(caught.value)


def test_counting_numbers_are_exact_beyond_what_a_float_holds() -> None:
    made = [
        call("n", "torch.arange", 2**60, 2**60 + 3),
        call("x", "operator.sub", ref("n"), 2**60),
        method("s", "sum", ref("x")),
    ]
    value = objective(scaled(*made, by="s"), INPUTS[:1]).value(HOSTILE_LOGPROBS, {})
    assert value.grad.tolist() == [3.0] * 4


def test_an_operation_is_charged_for_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    least = MAX_DATUM_WORK >> 8
    monkeypatch.setattr(program, "Tape", lambda work, limit=least: Tape(work, limit))
    wide = method("e", "expand", ref("logprobs"), 4000, -1)
    sums = [method(f"s{i}", "sum", ref("e")) for i in range(20)]
    returned = output("s19")
    logprobs = np.full(4, -1.0, np.float32)  # expanded 16,000 elements, which 20 sums read
    with pytest.raises(InputError, match=str(least)):
        objective([INPUT, wide, *sums, returned], INPUTS[:1]).value(logprobs, {})
    assert objective([INPUT, wide, sums[-1], returned], INPUTS[:1]).value(logprobs, {}).total == -16e3


def test_a_shape_that_is_asked_for_costs_nothing() -> None:
    requests = [call(f"s{i}", "getattr", ref("e"), "shape") for i in range(100)]
    nodes = [INPUT, method("e", "expand", ref("logprobs"), 4000, -1), *requests, method("loss", "sum", ref("logprobs"))]
    assert objective([*nodes, output()], INPUTS[:1]).value(np.full(1000, -1.0, np.float32), {}).total == -1000.0


def test_the_way_back_is_charged_too() -> None:
    parts = [call(f"p{i}", "operator.getitem", ref("x"), i) for i in range(10)]
    joined = call("j", "torch.stack", [ref(f"p{i}") for i in range(10)])
    nodes = [
        INPUT,
        method("x", "repeat", ref("logprobs"), 1000),
        *parts,
        joined,
        method("loss", "sum", ref("j")),
        output(),
    ]
    made = objective(nodes, INPUTS[:1])
    before = made.work.left
    made.value(HOSTILE_LOGPROBS, {})
    assert before - made.work.left > 2 * 10 * 4000  # each part reads all, and its gradient is written into all again


def test_constants_are_charged_for_what_they_read_when_the_loss_is_made() -> None:
    ones = call("o", "torch.ones", 1 << 20)
    sums = [method(f"s{i}", "sum", ref("o")) for i in range(4)]
    with pytest.raises(InputError, match=str(MAX_CONSTANT_WORK)):
        objective(graph(ones, *sums), INPUTS[:1])


def test_rows_of_nothing_have_the_sum_zero() -> None:
    nodes = graph(call("z", "torch.zeros", 3, 0), call("x", "torch.sum", ref("z"), 1))
    metric = method("total", "sum", ref("x"))
    value = objective([*nodes[:-2], metric, nodes[-2], output(**{"custom/t:sum": ref("total")})], INPUTS[:1])
    assert value.value(HOSTILE_LOGPROBS, {}).metrics == {"custom/t:sum": 0.0}
