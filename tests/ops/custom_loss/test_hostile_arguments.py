"""Every operation of the table with hostile arguments: a refusal that names the node, or a result within the limits."""

import random
from typing import Any

import numpy as np
import pytest
from hostile_graphs import INPUT, call, graph, method, node, output, ref, scaled

from tinsmith.ops.custom_loss import program
from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.limits import MAX_CONSTANT_WORK, MAX_DATUM_WORK, MAX_ELEMENTS
from tinsmith.ops.custom_loss.operations import FUNCTIONS, METHODS
from tinsmith.ops.custom_loss.program import CustomLoss, CustomObjective
from tinsmith.types.errors import InputError

INPUTS = (LossInput("logprobs", 1), LossInput("ids", 1), LossInput("table", 2))
DATUM = {"ids": np.array([0, 3, 1, 1]), "table": np.arange(12, dtype=np.float32).reshape(4, 3)}
LOGPROBS = -np.arange(1.0, 5.0, dtype=np.float32)

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
            value = objective(nodes).value(LOGPROBS, DATUM)
        except InputError as error:
            refused.append(str(error.field))
        else:
            assert value.grad.shape == LOGPROBS.shape
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
    value = objective(scaled(*made, by="s"), INPUTS[:1]).value(LOGPROBS, {})
    assert value.grad.tolist() == [3.0] * 4


def test_an_operation_is_charged_for_what_it_reads() -> None:
    wide = method("e", "expand", ref("logprobs"), 4000, -1)
    sums = [method(f"s{i}", "sum", ref("e")) for i in range(20)]
    returned = output("s19")
    logprobs = np.full(1000, -1.0, np.float32)  # expanded 4,000,000 elements, which 20 sums read
    with pytest.raises(InputError, match=str(MAX_DATUM_WORK)):
        objective([INPUT, wide, *sums, returned], INPUTS[:1]).value(logprobs, {})
    assert objective([INPUT, wide, sums[-1], returned], INPUTS[:1]).value(logprobs, {}).total == -4e6


def test_a_shape_that_is_asked_for_costs_nothing() -> None:
    asked = [call(f"s{i}", "getattr", ref("e"), "shape") for i in range(100)]
    nodes = [INPUT, method("e", "expand", ref("logprobs"), 4000, -1), *asked, method("loss", "sum", ref("logprobs"))]
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
    made.value(LOGPROBS, {})
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
    assert value.value(LOGPROBS, {}).metrics == {"custom/t:sum": 0.0}
