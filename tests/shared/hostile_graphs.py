"""Graphs that nobody traced: what each tries, and whether it is found when it is made or when it is computed."""

from collections.abc import Mapping
from typing import Any

Nodes = list[dict[str, Any]]


def ref(name: str) -> dict[str, str]:
    return {"ref": name}


def node(op: str, name: str, target: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"op": op, "name": name, "target": target, "args": list(args), "kwargs": kwargs}


def call(name: str, target: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return node("call_function", name, target, *args, **kwargs)


def method(name: str, target: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return node("call_method", name, target, *args, **kwargs)


INPUT = node("placeholder", "logprobs", "logprobs")
SUM = method("loss", "sum", ref("logprobs"))


def output(loss: str = "loss", **metrics: Any) -> dict[str, Any]:
    return node("output", "output", "output", {"tuple": [ref(loss), {"dict": metrics}]})


def graph(*nodes: dict[str, Any]) -> Nodes:
    """The nodes between the input and a loss that is the sum of logprobs."""
    return [INPUT, *nodes, SUM, output()]


def scaled(*nodes: dict[str, Any], by: str = "x") -> Nodes:
    """A loss that is the sum of logprobs times a value of the nodes."""
    return [
        INPUT,
        *nodes,
        call("product", "operator.mul", ref("logprobs"), ref(by)),
        method("loss", "sum", ref("product")),
        output(),
    ]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"tuple": [value]}
    return value


_DOUBLED = [call(f"d{i}", "torch.cat", [ref(f"d{i - 1}" if i else "logprobs")] * 2) for i in range(40)]
_WIDE = [call("wide", "torch.zeros", 1 << 21), *(
    call(f"w{i}", "operator.add", ref("wide"), ref("loss0")) for i in range(40)
)]  # fmt: skip

AT_CREATION: Mapping[str, tuple[Nodes, str]] = {
    "import": (graph(call("x", "builtins.__import__", "os")), "x"),
    "system": (graph(call("x", "os.system", "true")), "x"),
    "eval": (graph(call("x", "builtins.eval", "1")), "x"),
    "load": (graph(call("x", "torch.load", "/etc/passwd")), "x"),
    "hub": (graph(call("x", "torch.hub.load", "a/b", "c")), "x"),
    "module": (graph(node("call_module", "x", "linear", ref("logprobs"))), "x"),
    "captured": (graph(node("get_attr", "x", "_tensor_constant0")), "x"),
    "dunder attribute": (graph(call("x", "getattr", ref("logprobs"), "__class__")), "x"),
    "attribute by node": (graph(call("x", "getattr", ref("logprobs"), ref("logprobs"))), "x"),
    "attribute grad_fn": (graph(call("x", "getattr", ref("logprobs"), "grad_fn")), "x"),
    "dunder method": (graph(method("x", "__reduce__", ref("logprobs"))), "x"),
    "apply": (graph(method("x", "apply_", ref("logprobs"), "print")), "x"),
    "item": (graph(method("x", "item", ref("logprobs"))), "x"),
    "random": (graph(call("x", "torch.rand_like", ref("logprobs"))), "x"),
    "in place": (graph(method("x", "add_", ref("logprobs"), 1)), "x"),
    "dotted walk": (graph(call("x", "torch.Tensor.__init__.__globals__", ref("logprobs"))), "x"),
    "empty": (graph(call("x", "torch.empty", 3)), "x"),
    "huge": (graph(call("x", "torch.zeros", 1 << 40)), "x"),
    "huge by many": (graph(call("x", "torch.ones", {"tuple": [1 << 20, 1 << 20]})), "x"),
    "huge arange": (graph(call("x", "torch.arange", 1 << 50)), "x"),
    "huge full": (graph(call("x", "torch.full", [1 << 12, 1 << 12], 1.0)), "x"),
    "many dimensions": (graph(call("x", "torch.zeros", [1] * 64)), "x"),
    "negative size": (graph(call("x", "torch.zeros", -1)), "x"),
    "NaN constant": (graph(call("x", "operator.mul", ref("logprobs"), {"float": "nan"})), "x"),
    "NaN made": (graph(call("x", "operator.sub", {"float": "inf"}, {"float": "inf"})), "x"),
    "NaN filled": (
        graph(call("a", "torch.full", 2, {"float": "inf"}), call("x", "operator.sub", ref("a"), ref("a"))),
        "x",
    ),
    "divided by zero": (graph(call("x", "operator.truediv", 1, 0)), "x"),
    "cycle": (graph(call("x", "operator.add", ref("x"), 1)), "x"),
    "forward reference": (graph(call("x", "operator.add", ref("loss"), 1)), "x"),
    "unknown reference": (graph(call("x", "operator.add", ref("nobody"), 1)), "x"),
    "name twice": (graph(call("logprobs", "operator.add", ref("logprobs"), 1)), "logprobs"),
    "no name": (graph(call("a b\nc", "operator.add", ref("logprobs"), 1)), "a b"),
    "deep": (graph(call("x", "torch.zeros", _nested(40))), "x"),
    "endless constants": (graph(call("x", "torch.cat", [1] * 5000)), "x"),
    "long text": (graph(call("x", "getattr", ref("logprobs"), "a" * 5000)), "x"),
    "large number": (graph(call("x", "operator.mul", ref("logprobs"), 1 << 80)), "x"),
    "two keys": (graph(call("x", "operator.mul", {"ref": "logprobs", "tuple": []}, 1)), "x"),
    "unhashable reference": (graph(call("x", "operator.mul", {"ref": ["logprobs"]}, 1)), "x"),
    "unhashable keyword": (graph(call("x", "torch.sum", ref("logprobs"), dim={"dict": []})), "x"),
    "strange key": (graph(call("x", "operator.mul", {"py/object": "os.system"}, 1)), "x"),
    "unknown keyword": (graph(call("x", "torch.exp", ref("logprobs"), out=ref("logprobs"))), "x"),
    "private keyword": (graph(call("x", "torch.exp", ref("logprobs"), tape=1)), "x"),
    "too many arguments": (graph(call("x", "torch.exp", *[ref("logprobs")] * 9)), "x"),
    "many nodes": (graph(*(call(f"n{i}", "torch.exp", ref("logprobs")) for i in range(600))), ""),
    "no output": ([INPUT, SUM], ""),
    "two outputs": ([INPUT, SUM, output(), output()], "output"),
    "no input": ([SUM, output()], "loss"),
    "other input": ([node("placeholder", "logprobs", "advantages"), SUM, output()], "logprobs"),
    "loss is a number": ([INPUT, SUM, node("output", "output", "output", {"tuple": [1.0, {"dict": {}}]})], "output"),
    "no dependence": ([INPUT, call("loss", "torch.zeros", {"tuple": []}), output()], "output"),
    "metric's name": ([INPUT, SUM, output(**{"loss:sum": ref("loss")})], "output"),
    "metric is a text": ([INPUT, SUM, output(**{"custom/a:sum": "os"})], "output"),
}
"""By what it tries: the nodes, and the name of the node that the refusal names."""

AT_EVALUATION: Mapping[str, tuple[Nodes, str]] = {
    "doubled for ever": ([INPUT, *_DOUBLED, method("loss", "sum", ref("d39")), output()], "d18"),
    "outer product": (
        scaled(
            call("a", "torch.zeros", 1 << 20),
            method("b", "unsqueeze", ref("a"), 1),
            call("x", "operator.add", ref("b"), ref("logprobs")),
        ),
        "x",
    ),
    "expanded": (
        [
            INPUT,
            call("a", "operator.getitem", ref("logprobs"), 0),
            method("x", "expand", ref("a"), 1 << 30),
            method("loss", "sum", ref("x")),
            output(),
        ],
        "x",
    ),
    "much work": (
        [INPUT, method("loss0", "sum", ref("logprobs")), *_WIDE, method("loss", "sum", ref("w39")), output()],
        "w",
    ),
    "size of the datum": (
        scaled(
            call("s", "getattr", ref("logprobs"), "shape"),
            call("n", "operator.getitem", ref("s"), 0),
            call("m", "operator.pow", ref("n"), 9),
            call("x", "torch.zeros", ref("m")),
        ),
        "x",
    ),
    "detached": ([INPUT, method("x", "detach", ref("logprobs")), method("loss", "sum", ref("x")), output()], "output"),
    "not a scalar": ([INPUT, call("loss", "torch.exp", ref("logprobs")), output()], "output"),
    "shapes that differ": (scaled(call("x", "torch.zeros", 1234)), "product"),
    "text as tensor": (graph(call("x", "operator.add", ref("logprobs"), "a")), "x"),
    "list as tensor": (graph(call("x", "torch.exp", [ref("logprobs")])), "x"),
    "dict as a size": (graph(method("x", "expand", ref("logprobs"), {"dict": {"a": 1}})), "x"),
    "half precision": (graph(method("x", "to", ref("logprobs"), {"dtype": "bfloat16"})), "x"),
    "another device": (graph(method("x", "to", ref("logprobs"), {"device": "cuda"})), "x"),
    "member of a shape": (
        graph(call("s", "getattr", ref("logprobs"), "shape"), call("x", "operator.getitem", ref("s"), 7)),
        "x",
    ),
    "place that is not": (graph(call("x", "operator.getitem", ref("logprobs"), 10**9)), "x"),
    "slice of nothing": (graph(call("x", "operator.getitem", ref("logprobs"), {"slice": [None, None, 0]})), "x"),
    "number too large to be whole": (
        graph(call("i", "operator.mul", ref("logprobs"), {"float": "inf"}), method("x", "long", ref("i"))),
        "x",
    ),
}
"""As above, of graphs that only a datum shows to be wrong."""

NOT_FINITE: Mapping[str, Nodes] = {
    "root of a negative number": [
        INPUT,
        call("x", "torch.sqrt", ref("logprobs")),
        method("loss", "sum", ref("x")),
        output(),
    ],
    "infinite": scaled(call("x", "operator.mul", {"float": "inf"}, 1.0)),
    "overflow": [
        INPUT,
        call("x", "torch.exp", ref("logprobs")),
        call("y", "operator.truediv", ref("x"), 1e-300),
        call("z", "operator.pow", ref("y"), 9),
        method("loss", "sum", ref("z")),
        output(),
    ],
    "slope of a root at zero": [
        INPUT,
        call("x", "operator.sub", ref("logprobs"), ref("logprobs")),
        call("y", "torch.sqrt", ref("x")),
        method("loss", "sum", ref("y")),
        output(),
    ],
}
"""Losses or gradients that are NaN or infinite for the datums there are."""
