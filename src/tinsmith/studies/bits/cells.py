"""Cells of a sweep: factors that may change bits, a reference cell, one factor varied at a time; output of a cell.

A factor's values are texts, as on the command line. What the engine cannot vary is a cell all the same, that says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Final, Literal, get_args, get_type_hints

from tinsmith.ops.extension import native, physical_cores
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.sketches import TensorMark

Changes = tuple[tuple[str, str], ...]  # Factors with their values.
TEMPERATURES: Final = (0.0, 1.0)  # Completions are drawn at both; at the second with a fixed seed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to compute the same completions and the same training.

    `batch` requests for the one prompt are under way at once at most, beside `neighbours`: random prompts that come and
    go; they are handed to the sampler in some `order`. `prefill` prompt tokens are computed in one step, `micro_batch`
    units of gradient at once (0: by memory). After `resume` optimizer steps the session is saved and loaded by a new
    one (0: never). `restart` and `repeat` count earlier starts, each in a process of its own, and earlier computations
    in the same one. `seed` is of the draws; the weights do not depend on it.
    """

    batch: int = 8
    neighbours: int = 4
    order: Literal["given", "reversed", "shuffled"] = "given"
    padding: Literal["none", "left", "right"] = "none"
    cache: str = "default"  # Pages of the key-value cache; default: the engine's, least: one whole context.
    prefill: int = 2048
    micro_batch: int = 0
    threads: int = 1
    isa: str = "best"  # Instruction set of the native kernels; best: the fastest here.
    arithmetic: Arithmetic = Arithmetic.CANONICAL
    dtype: Literal["fp32", "bf16", "bf16_weights"] = "fp32"
    """bf16: operands of every product, sums in fp32; bf16_weights: weights rounded, computed in fp32 (LayerCast)."""
    adapter: Literal["unmerged", "merged"] = "unmerged"
    restart: int = 0
    resume: int = 0
    seed: int = 0
    repeat: int = 0
    device: str = "cpu"
    deviation: Deviation = Deviation.NONE

    @property
    def process(self) -> tuple[int, str, str, str, int]:
        """Values of a whole process: cells that agree in them share one."""
        return (self.threads, self.isa, self.arithmetic.value, self.device, self.restart)


FACTORS: Final = tuple(one.name for one in fields(Cell))  # Names of what a sweep varies.


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A cell by what it changes of the reference cell."""

    cell: Cell
    changes: Changes = ()

    @property
    def title(self) -> str:
        """Factors with their values."""
        return " ".join(f"{factor}={value}" for factor, value in self.changes) or "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Amount of what is computed in a cell: completions of one prompt at each temperature, tokens, optimizer steps."""

    completions: int = 32
    prompt: int = 40
    tokens: int = 32
    steps: int = 3
    prompts: int = 6  # Of a training step, two rollouts each.
    rank: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled sequence, token by token: fp32 log-probabilities, the trainer's of the same tokens, the top token.

    Of a mixture, `routes` has a number for each token that tells the experts of the row it was drawn from, and `routed`
    the trainer's.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    scored: tuple[float, ...]
    top_tokens: tuple[int, ...]
    top_logprobs: tuple[float, ...]
    routes: tuple[int, ...] = ()
    routed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Output of a cell, or why it cannot be had here; `weights_file` is an npz."""

    number: int
    unavailable: str | None = None
    completions: tuple[tuple[Completion, ...], ...] = ()  # By temperature.
    steps: tuple[tuple[Mapping[str, TensorMark], Mapping[str, TensorMark]], ...] = ()
    """Gradient and weights by published name."""
    weights_sha256: str = ""
    weights_file: str = ""
    seconds: float = 0.0
    machine: Mapping[str, str] = field(default_factory=dict[str, str])


Job = tuple[str, Size, tuple[tuple[int, Cell], ...], str]
"""Request to a process: a model, sizes, each cell with its number, and a folder for weights and checkpoints."""

NO_PADDING: Final = "the engine does not pad: rows of all sequences lie one after another"
ONLY_FAST: Final = "bf16 products are computed by arithmetic=fast alone; canonical computes in fp32"
ONLY_CANONICAL: Final = "deviations are only possible with canonical arithmetic"
_FAST: Final = ("arithmetic", "fast")
_THREADS: Final = ("threads", "2")
_LOAD: Final = (("batch", "32"), ("neighbours", "24"))
"""The published experiment: one prompt, many requests at once, random neighbours."""
TOGETHER: Final[Sequence[Changes]] = (
    (_THREADS, ("batch", "1")),
    (_THREADS, ("micro_batch", "1")),
    _LOAD,
    (("cache", "least"), *_LOAD),
    (_FAST, *_LOAD),
    (_FAST, _THREADS, *_LOAD),
    (_FAST, ("dtype", "bf16"), *_LOAD),
    (_FAST, ("device", "cuda"), ("dtype", "bf16"), *_LOAD),
)
"""Factors that the default sweep varies together."""
_NEEDS_FAST: Final = ("dtype", "bf16")
"""Of the default values, the one that `canonical` does not have; the default sweep tries it on `fast`."""
_TEXTS: Final[Mapping[str, Sequence[str]]] = {"cache": ("default", "least"), "isa": ("best", *Isa)}
"""Values of factors that are texts and have no type of their own."""


def plan(
    factors: Mapping[str, Sequence[str]] | None = None, together: Sequence[Sequence[str]] = (), reference: Changes = ()
) -> tuple[Variation, ...]:
    """Choose the cells; the first is the reference cell.

    Args:
        factors: values by factor; neither these nor `together`: the default sweep.
        together: factors that are also varied together, every value with every other.
        reference: what the reference cell has instead of the default.
    """
    is_default = not factors and not together
    chosen = default_values() if is_default else factors or {}
    rows: list[Changes] = [((factor, value),) for factor, values in chosen.items() for value in values]
    for factor in (*chosen, *itertools.chain(*together), *dict(reference)):
        if factor not in FACTORS:
            raise ConfigError("there is no such factor", field="factor", value=factor, allowed=FACTORS)
    first = changed(Cell(), reference)
    for some in together:
        if len(set(some)) < 2:
            what = "two or more factors are needed to vary them together"
            raise ConfigError(what, field="--pair", value=",".join(some), allowed="such as threads,batch")
        values = [chosen.get(factor) or default_values()[factor] for factor in some]
        rows += [tuple(zip(some, each, strict=True)) for each in itertools.product(*values)]
    if is_default:
        rows = [(_FAST, *row) if row == (_NEEDS_FAST,) else row for row in rows]
        rows += TOGETHER
    made = [Variation(cell=changed(first, row), changes=row) for row in dict.fromkeys(rows)]
    return (Variation(cell=first), *(one for one in made if one.cell != first))


def default_values() -> dict[str, tuple[str, ...]]:
    """Return values by factor, of those that differ from `Cell`'s on this machine."""
    return {
        "batch": ("1", "3", "32"),
        "neighbours": ("0", "24"),
        "order": ("reversed", "shuffled"),
        "padding": ("left",),
        "cache": ("least",),
        "prefill": ("16", "5"),
        "micro_batch": ("1", "2", "8"),
        "threads": tuple(map(str, sorted({2, physical_cores()} - {1}))),
        "isa": () if native is None else tuple(native.supported_isas()),
        "arithmetic": ("fast",),
        "dtype": ("bf16_weights", "bf16"),
        "adapter": ("merged",),
        **dict.fromkeys(("restart", "resume", "seed", "repeat"), ("1",)),
        "device": ("cuda",),
        "deviation": tuple(each.value for each in Deviation if each is not Deviation.NONE),
    }


def changed(cell: Cell, changes: Iterable[tuple[str, str]]) -> Cell:
    """Return the cell with other values of some factors."""
    hints = get_type_hints(Cell)
    for factor, text in changes:
        kind = type(getattr(cell, factor))
        known = [*_TEXTS.get(factor, ()), *get_args(hints[factor]), *(kind if issubclass(kind, StrEnum) else ())]
        is_counted = kind is int or (factor == "cache" and text not in known)
        least = factor in ("batch", "prefill", "threads", "cache")
        try:
            value = kind(int(text)) if is_counted else kind(text)
            if int(text) < least if is_counted else (known and text not in known):
                raise ValueError
        except ValueError:
            counted = [f"a whole number, at least {least:d}"] if kind is int else []
            counted += ["a number of pages"] if factor == "cache" else []
            what = "a factor of the sweep cannot have this value"
            raise ConfigError(what, field=factor, value=text, allowed=", ".join([*counted, *known])) from None
        cell = replace(cell, **{factor: value})
    return cell


def cell_texts(cell: Cell) -> dict[str, str]:
    """Return the value of every factor as `changed` reads it."""
    return {name: str(value) for name, value in asdict(cell).items()}


def cannot(cell: Cell) -> str | None:
    """Say why the engine has no such cell; None: it has, or only the machine can tell."""
    if cell.padding != "none":
        return NO_PADDING
    if cell.dtype == "bf16" and cell.arithmetic is not Arithmetic.FAST:
        return ONLY_FAST
    if cell.deviation is not Deviation.NONE and cell.arithmetic is not Arithmetic.CANONICAL:
        return ONLY_CANONICAL
    return None


def promised(reference: Cell, cell: Cell) -> bool | None:
    """Return True if a cell must equal the reference cell, False if it must not; None: nothing is promised."""
    if reference.deviation is Deviation.NONE and cell.deviation is not Deviation.NONE:
        return False
    identities = [(one.arithmetic, one.dtype, one.adapter, one.seed, one.deviation) for one in (reference, cell)]
    sound = cell.arithmetic is Arithmetic.CANONICAL and cell.deviation is Deviation.NONE
    return True if identities[0] == identities[1] and sound else None
