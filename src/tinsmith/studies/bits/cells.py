"""The cells of a sweep: the factors that may change bits, a reference cell, and one factor varied at a time.

A factor's values are words, as on the command line. What the engine cannot vary is a cell all the same, that says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.ops.extension import native, physical_cores
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError


class Factor(StrEnum):
    """What a sweep varies; the names are those of `Cell`'s fields."""

    BATCH = "batch"
    NEIGHBOURS = "neighbours"
    ORDER = "order"
    PADDING = "padding"
    CACHE = "cache"
    PREFILL = "prefill"
    MICRO_BATCH = "micro_batch"
    THREADS = "threads"
    ISA = "isa"
    ARITHMETIC = "arithmetic"
    DTYPE = "dtype"
    ADAPTER = "adapter"
    RESTART = "restart"
    RESUME = "resume"
    SEED = "seed"
    REPEAT = "repeat"
    DEVICE = "device"
    DEVIATION = "deviation"


class Order(StrEnum):
    """In which order a round's requests are handed to the sampler."""

    GIVEN = "given"
    REVERSED = "reversed"
    SHUFFLED = "shuffled"


class Dtype(StrEnum):
    """What the base's weights are held in, and what products are computed in."""

    FP32 = "fp32"
    BF16 = "bf16"
    """Operands of every product in bf16, sums in fp32; only where the vendor's kernels compute."""
    BF16_WEIGHTS = "bf16_weights"
    """Weights rounded to bf16, everything computed in fp32 (LayerCast)."""


class Padding(StrEnum):
    """What stands beside shorter sequences."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"


class AdapterUse(StrEnum):
    """How the sampler uses the adapter."""

    UNMERGED = "unmerged"
    MERGED = "merged"


class Expected(StrEnum):
    """What a cell must show beside the reference cell."""

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
    """How often everything was started before, each in a process of its own."""
    resume: int = 0
    """After which optimizer step the session is saved and loaded by a new one; 0: never."""
    seed: int = 0
    """Of the draws; the weights do not depend on it."""
    repeat: int = 0
    """How often it was computed before, in the same process."""
    device: str = "cpu"
    deviation: Deviation = Deviation.NONE

    @property
    def process(self) -> tuple[int, str, str, str, int]:
        """What decides about a whole process: cells that agree in it share one."""
        return (self.threads, self.isa, self.arithmetic.value, self.device, self.restart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A cell by what it changes of the reference cell."""

    cell: Cell
    changes: tuple[tuple[Factor, str], ...] = ()

    @property
    def title(self) -> str:
        """The changes as one says them."""
        return " ".join(f"{factor}={value}" for factor, value in self.changes) or "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep computes; the first variation is the reference cell, changed in nothing."""

    variations: tuple[Variation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for; nothing: the default sweep."""

    factors: Mapping[Factor, Sequence[str]] = field(default_factory=dict[Factor, Sequence[str]])
    """Values by factor; none: the default ones."""
    together: Sequence[Sequence[Factor]] = ()
    """Factors that are also varied together, every value with every other."""
    reference: Sequence[tuple[Factor, str]] = ()
    """What the reference cell has instead of the default."""


NO_PADDING: Final = "the engine does not pad: rows of all sequences lie one after another"
ONLY_FAST: Final = "bf16 products are computed by arithmetic=fast alone; canonical computes in fp32"

ONLY_CANONICAL: Final = "deviations are only possible with canonical arithmetic"


def plan(wish: Wish) -> Plan:
    """Choose the cells.

    Raises:
        ConfigError: a value that a factor cannot have, or a combination of fewer than two factors.
    """
    reference = Cell()
    for factor, value in wish.reference:
        reference = changed(reference, factor, value)
    whole = not wish.factors and not wish.together
    chosen = default_values() if whole else wish.factors
    rows: list[tuple[tuple[Factor, str], ...]] = [
        ((factor, value),) for factor, values in chosen.items() for value in values
    ]
    for factors in wish.together:
        if len(set(factors)) < 2:
            raise ConfigError(
                "two or more factors are needed to vary them together",
                field="--pair",
                value=",".join(factors),
                allowed="such as threads,batch",
            )
        values = [wish.factors.get(factor) or default_values()[factor] for factor in factors]
        rows += [tuple(zip(factors, each, strict=True)) for each in itertools.product(*values)]
    if whole:
        rows = [(_FAST, *row) if row[0] in _NEEDS_FAST else row for row in rows]
        rows += TOGETHER
    variations = [Variation(cell=reference)]
    for row in dict.fromkeys(rows):
        cell = reference
        for factor, value in row:
            cell = changed(cell, factor, value)
        if cell != reference:
            variations.append(Variation(cell=cell, changes=row))
    return Plan(variations=tuple(variations))


_FAST: Final = (Factor.ARITHMETIC, "fast")
_THREADS: Final = (Factor.THREADS, "2")
_LOAD: Final = ((Factor.BATCH, "32"), (Factor.NEIGHBOURS, "24"))
"""The published experiment: one prompt, many requests at once, random neighbours."""

TOGETHER: Final[Sequence[tuple[tuple[Factor, str], ...]]] = (
    (_THREADS, (Factor.BATCH, "1")),
    (_THREADS, (Factor.MICRO_BATCH, "1")),
    _LOAD,
    ((Factor.CACHE, "least"), *_LOAD),
    (_FAST, *_LOAD),
    (_FAST, _THREADS, *_LOAD),
    (_FAST, (Factor.DTYPE, "bf16"), *_LOAD),
    (_FAST, (Factor.DEVICE, "cuda"), (Factor.DTYPE, "bf16"), *_LOAD),
)
"""What the default sweep varies together."""

_NEEDS_FAST: Final = ((Factor.DTYPE, "bf16"), (Factor.DEVICE, "cuda"))
"""Of the default values, those that `canonical` does not have; the default sweep tries them on `fast`."""


def default_values() -> dict[Factor, tuple[str, ...]]:
    """Values by factor, of those that differ from `Cell`'s on this machine."""
    isas = () if native is None else native.supported_isas()
    counts = sorted({2, physical_cores()} - {1})
    return {
        Factor.BATCH: ("1", "3", "32"),
        Factor.NEIGHBOURS: ("0", "24"),
        Factor.ORDER: ("reversed", "shuffled"),
        Factor.PADDING: ("left",),
        Factor.CACHE: ("least",),
        Factor.PREFILL: ("16", "5"),
        Factor.MICRO_BATCH: ("1", "2", "8"),
        Factor.THREADS: tuple(map(str, counts)),
        Factor.ISA: tuple(isas),
        Factor.ARITHMETIC: ("fast",),
        Factor.DTYPE: ("bf16_weights", "bf16"),
        Factor.ADAPTER: ("merged",),
        Factor.RESTART: ("1",),
        Factor.RESUME: ("1",),
        Factor.SEED: ("1",),
        Factor.REPEAT: ("1",),
        Factor.DEVICE: ("cuda",),
        Factor.DEVIATION: tuple(each.value for each in Deviation if each is not Deviation.NONE),
    }


def changed(cell: Cell, factor: Factor, value: str) -> Cell:
    """Return the cell with another value of one factor.

    Raises:
        ConfigError: the factor cannot have it.
    """
    read, allowed = _READ[factor]
    try:
        return replace(cell, **{factor.value: read(value)})
    except ValueError:
        raise ConfigError(
            "a factor of the sweep cannot have this value", field=factor.value, value=value, allowed=allowed
        ) from None


def cell_words(cell: Cell) -> dict[str, str]:
    """Return the value of every factor in words, as `changed` reads them."""
    return {name: str(value) for name, value in asdict(cell).items()}


def cell_of(words: Mapping[str, str]) -> Cell:
    """Return the cell that `cell_words` told.

    Raises:
        ConfigError: a value that a factor cannot have.
    """
    cell = Cell()
    for name, value in words.items():
        cell = changed(cell, Factor(name), value)
    return cell


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


def _count(least: int) -> tuple[Callable[[str], object], str]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    return read, f"a whole number, at least {least}"


def _one_of(kind: type[StrEnum]) -> tuple[Callable[[str], object], str]:
    return kind, ", ".join(kind)


def _pages(text: str) -> str:
    return text if text in ("default", "least") else str(int(text))


def _isa(text: str) -> str:
    return text if text == "best" else Isa(text).value


_READ: Final[Mapping[Factor, tuple[Callable[[str], object], str]]] = MappingProxyType(
    {
        Factor.BATCH: _count(1),
        Factor.NEIGHBOURS: _count(0),
        Factor.ORDER: _one_of(Order),
        Factor.PADDING: _one_of(Padding),
        Factor.CACHE: (_pages, "a number of pages, default, least"),
        Factor.PREFILL: _count(1),
        Factor.MICRO_BATCH: _count(0),
        Factor.THREADS: _count(1),
        Factor.ISA: (_isa, ", ".join(("best", *Isa))),
        Factor.ARITHMETIC: _one_of(Arithmetic),
        Factor.DTYPE: _one_of(Dtype),
        Factor.ADAPTER: _one_of(AdapterUse),
        Factor.RESTART: _count(0),
        Factor.RESUME: _count(0),
        Factor.SEED: _count(0),
        Factor.REPEAT: _count(0),
        Factor.DEVICE: (str, "cpu, cuda"),
        Factor.DEVIATION: _one_of(Deviation),
    }
)
"""How a factor's words become a value, and what is allowed."""
