"""No function of torch whose last bit depends on the machine stands where bits are promised.

torch's roots, exponentials and logarithms are MKL's, Sleef's or CUDA's, and its sums have an order of threads; those of
the kernels are our own.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import tinsmith

SOURCE = Path(tinsmith.__file__).parent
FLOORS = ("ops", "models", "engine")
VENDORS = frozenset(
    f"{name}{place}"
    for name in (
        *("sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow"),
        *("tanh", "sigmoid", "erf", "sin", "cos", "softmax", "log_softmax", "logsumexp", "silu"),
        *("mean", "var", "std", "norm", "cumsum", "mm", "matmul", "bmm", "einsum", "addmm", "addcmul", "addcdiv"),
        *("lerp", "index_add"),
    )
    for place in ("", "_")
)
INEXACT = frozenset({"alpha", "accumulate"})
"""Arguments that fuse a product with a sum, or add in an order of threads."""
OTHERS = frozenset({"math", "np", "exact", "functions", "canonical"})
"""Modules whose functions of these names are not torch's: the standard library's, numpy's, or the project's."""
ALLOWED = {
    "ops/linear.py": {"rounded_root"},  # of fp64, rounded: right on every machine
    "ops/routing.py": {"stock_routes", "stock_route_backward", "dealt"},  # of stock arithmetic; of whole numbers
    "engine/checks/deviations.py": {"StockSilu"},  # what it deviates in
    "models/merge.py": {"all_logprobs"},  # compared within a tolerance
}
STOCK = {"ops/stock.py", "ops/stock_attention.py", "ops/noise.py"}
"""Promise no bits between machines, and say so."""


def vendor_calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield (function or class, line) of each call of one of these names that may be torch's."""
    for outer in tree.body:
        for node in ast.walk(outer):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                other = isinstance(of, ast.Name) and of.id in OTHERS
                if (node.func.attr in VENDORS and not other) or INEXACT & {given.arg for given in node.keywords}:
                    yield getattr(outer, "name", ""), node.lineno


def test_it_finds_them() -> None:
    text = "def f(x):\n    math.sqrt(2)\n    return torch.sqrt(x) + x.exp_()\ny = x.softmax(1)\ny = x.add(y, alpha=2)"
    assert list(vendor_calls(ast.parse(text))) == [("f", 3), ("f", 3), ("", 4), ("", 5)]


def test_bits_are_promised_of_no_function_of_torchs() -> None:
    found: list[str] = []
    used: set[tuple[str, str]] = set()
    for path in sorted(file for floor in FLOORS for file in (SOURCE / floor).rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in STOCK:
            continue
        for function, line in vendor_calls(ast.parse(path.read_text(encoding="utf-8"))):
            if function in ALLOWED.get(name, ()):
                used.add((name, function))
            else:
                found.append(f"{name}:{line} in {function}")
    assert not found
    assert used == {(name, one) for name, some in ALLOWED.items() for one in some}
