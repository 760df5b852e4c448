"""Cells of a sweep: factors that may change bits, a reference cell, and one factor varied at a time.

A factor's values are texts, as on the command line. What the engine cannot vary is a cell all the same, that says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Final

from tinsmith.ops.extension import native, physical_cores
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError

Changes = tuple[tuple[str, str], ...]
"""Factors with their values."""


class Order(StrEnum):
    """In which order a round's requests are handed to the sampler."""

    GIVEN = "given"
    REVERSED = "reversed"
    SHUFFLED = "shuffled"


class Dtype(StrEnum):
    """Type of the base's weights, and of products."""

    FP32 = "fp32"
    BF16 = "bf16"
    """Operands of every product in bf16, sums in fp32; only where the vendor's kernels compute."""
    BF16_WEIGHTS = "bf16_weights"
    """Weights rounded to bf16, everything computed in fp32 (LayerCast)."""


class Padding(StrEnum):
    """Side on which shorter sequences are filled up."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"


class AdapterUse(StrEnum):
    """Use of the adapter by the sampler."""

    UNMERGED = "unmerged"
    MERGED = "merged"


class Expected(StrEnum):
    """Promise about a cell beside the reference cell."""

    EQUAL = "equal"
    DIFFERENT = "different"
    OPEN = "open"
    """Nothing is promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to compute the same completions and the same training."""

    batch: int = 8
    """Most requests for the one prompt that are under way at once."""
    neighbours: int = 4
    """Most other requests beside them: random prompts that come and go."""
    order: Order = Order.GIVEN
    padding: Padding = Padding.NONE
    cache: str = "default"
    """Pages of the key-value cache; default: the engine's, least: one whole context."""
    prefill: int = 2048
    """Prompt tokens computed in one step."""
    micro_batch: int = 0
    """Most units of gradient computed at once; 0: by memory."""
    threads: int = 1
    isa: str = "best"
    """Instruction set of the native kernels; best: the fastest here."""
    arithmetic: Arithmetic = Arithmetic.CANONICAL
    dtype: Dtype = Dtype.FP32
    adapter: AdapterUse = AdapterUse.UNMERGED
    restart: int = 0
    """Earlier starts of everything, each in a process of its own."""
    resume: int = 0
    """After which optimizer step the session is saved and loaded by a new one; 0: never."""
    seed: int = 0
    """Of the draws; the weights do not depend on it."""
    repeat: int = 0
    """Earlier computations in the same process."""
    device: str = "cpu"
    deviation: Deviation = Deviation.NONE

    @property
    def process(self) -> tuple[int, str, str, str, int]:
        """Values of a whole process: cells that agree in them share one."""
        return (self.threads, self.isa, self.arithmetic.value, self.device, self.restart)


FACTORS: Final = tuple(one.name for one in fields(Cell))
"""Names of what a sweep varies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A cell by what it changes of the reference cell."""

    cell: Cell
    changes: Changes = ()

    @property
    def title(self) -> str:
        """Factors with their values."""
        return " ".join(f"{factor}={value}" for factor, value in self.changes) or "reference"


NO_PADDING: Final = "the engine does not pad: rows of all sequences lie one after another"
ONLY_FAST: Final = "bf16 products are computed by arithmetic=fast alone; canonical computes in fp32"

ONLY_CANONICAL: Final = "deviations are only possible with canonical arithmetic"


def plan(
    factors: Mapping[str, Sequence[str]] | None = None, together: Sequence[Sequence[str]] = (), reference: Changes = ()
) -> tuple[Variation, ...]:
    """Choose the cells; the first is the reference cell.

    Args:
        factors: values by factor; neither these nor `together`: the default sweep.
        together: factors that are also varied together, every value with every other.
        reference: what the reference cell has instead of the default.
    """
    first = changed(Cell(), reference)
    is_default = not factors and not together
    chosen = default_values() if is_default else factors or {}
    rows: list[Changes] = [((factor, value),) for factor, values in chosen.items() for value in values]
    for some in together:
        if len(set(some)) < 2:
            raise ConfigError(
                "two or more factors are needed to vary them together",
                field="--pair",
                value=",".join(some),
                allowed="such as threads,batch",
            )
        values = [chosen.get(factor) or default_values()[factor] for factor in some]
        rows += [tuple(zip(some, each, strict=True)) for each in itertools.product(*values)]
    if is_default:
        rows = [(_FAST, *row) if row[0] in _NEEDS_FAST else row for row in rows]
        rows += TOGETHER
    made = [Variation(cell=changed(first, row), changes=row) for row in dict.fromkeys(rows)]
    return (Variation(cell=first), *(one for one in made if one.cell != first))


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

_NEEDS_FAST: Final = (("dtype", "bf16"),)
"""Of the default values, those that `canonical` does not have; the default sweep tries them on `fast`."""


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
        "restart": ("1",),
        "resume": ("1",),
        "seed": ("1",),
        "repeat": ("1",),
        "device": ("cuda",),
        "deviation": tuple(each.value for each in Deviation if each is not Deviation.NONE),
    }


def changed(cell: Cell, changes: Iterable[tuple[str, str]]) -> Cell:
    """Return the cell with other values of some factors."""
    for factor, text in changes:
        kind = type(getattr(cell, factor))
        known = [*_TEXTS.get(factor, ()), *(kind if issubclass(kind, StrEnum) else ())]
        least = factor in ("batch", "prefill", "threads")
        try:
            value: object = text if kind is str and (text in known or not known) else kind(text)
            if factor == "cache" and text not in known:
                value = str(int(text))
            if (isinstance(value, int) and value < least) or (factor == "isa" and value not in known):
                raise ValueError
        except ValueError:
            counted = [f"a whole number, at least {least:d}"] if kind is int else []
            counted += ["a number of pages"] if factor == "cache" else []
            raise ConfigError(
                "a factor of the sweep cannot have this value",
                field=factor,
                value=text,
                allowed=", ".join([*counted, *known]),
            ) from None
        cell = replace(cell, **{factor: value})
    return cell


_TEXTS: Final[Mapping[str, Sequence[str]]] = {"cache": ("default", "least"), "isa": ("best", *Isa)}
"""Values of factors that are texts and have no enumeration."""


def cell_texts(cell: Cell) -> dict[str, str]:
    """Return the value of every factor as `changed` reads it."""
    return {name: str(value) for name, value in asdict(cell).items()}


def cannot(cell: Cell) -> str | None:
    """Say why the engine has no such cell; None: it has, or only the machine can tell."""
    if cell.padding is not Padding.NONE:
        return NO_PADDING
    if cell.dtype is Dtype.BF16 and cell.arithmetic is not Arithmetic.FAST:
        return ONLY_FAST
    if cell.deviation is not Deviation.NONE and cell.arithmetic is not Arithmetic.CANONICAL:
        return ONLY_CANONICAL
    return None


def expected(reference: Cell, cell: Cell) -> Expected:
    """Say what is promised of a cell beside the reference cell."""
    if reference.deviation is Deviation.NONE and cell.deviation is not Deviation.NONE:
        return Expected.DIFFERENT
    kept = [(one.arithmetic, one.dtype, one.adapter, one.seed, one.deviation) for one in (reference, cell)]
    sound = cell.arithmetic is Arithmetic.CANONICAL and cell.deviation is Deviation.NONE
    return Expected.EQUAL if kept[0] == kept[1] and sound else Expected.OPEN
