"""What a sweep found, cell by cell, as the page, the console and `sweep.json` tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tinsmith.lab.difference.runs import Phase
from tinsmith.pages.wording import listed

SWEEP_JSON = "sweep.json"
SWEEP_PAGE = "sweep.html"


class Verdict(StrEnum):
    """What a cell shows, beside what is promised of it."""

    REFERENCE = "reference"
    KEPT = "kept"
    """Promised to be equal, and equal in every bit."""
    BROKEN = "BROKEN"
    """Promised to be equal, and not."""
    SEEN = "seen"
    """A fault on purpose that shows."""
    UNSEEN = "NOT SEEN"
    """A fault on purpose that nothing shows."""
    EQUAL = "equal"
    """Though nothing is promised."""
    DIFFERENT = "different"
    """And nothing is promised."""
    UNAVAILABLE = "not here"
    """Cannot be had on this machine, or with this engine."""

    @property
    def wrong(self) -> bool:
        """Whether something is not as it must be."""
        return self in (Verdict.BROKEN, Verdict.UNSEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How far completions are from others of the same prompt; figures without a token to be taken over are None."""

    tokens: int
    """Compared ones: the same token after the same tokens."""
    div_index: int | None
    """Div_Index: the first position at which a token differs; None: none does."""
    avg_std_top1_prob: float | None
    """Avg_Std@top1_prob: spread of the top token's probability over the completions, averaged over the positions before
    the first that differs."""
    unequal_bits: float | None
    """Share of the compared tokens whose log-probabilities are not the same float."""
    max_difference: float | None
    """Largest |d|, nats."""
    mean_difference: float | None
    kl_k3: float | None
    flip_rate: float | None
    """Share of the positions after the same tokens at which another token is the most probable one."""
    unequal_routes: float | None = None
    """Of a mixture: share of the compared tokens whose row took another expert in some layer."""

    @property
    def same(self) -> bool:
        """Whether tokens, bits and routes are the same."""
        return self.div_index is None and self.unequal_bits == 0.0 and not self.unequal_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The completions of one prompt at one temperature."""

    temperature: float
    completions: int
    unique: int
    """Different ones among them, by tokens."""
    unique_bits: int
    """By tokens and the bits of their log-probabilities."""
    within: Apart
    """From the cell's first one."""
    against: Apart
    """From the reference cell's first one."""
    trainer: Apart
    """The sampler's log-probabilities from the trainer's, of the same tokens in the same cell."""

    @property
    def one(self) -> bool:
        """Whether all completions are one, and the trainer agrees."""
        return self.unique_bits == 1 and self.trainer.same


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where training first differs from the reference cell's."""

    step: int
    """From 0."""
    phase: Phase
    tensor: str
    size: float | None
    """||a - b|| / ||a||, estimated from sketches."""
    tensors: int
    """Unequal ones in that step and phase."""
    of_tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A few steps of training."""

    steps: int
    weights_sha256: str
    equal: bool
    """Whether gradients, weights and final hash are the reference cell's."""
    first: Place | None
    weight_difference: float
    """Largest ||a - b|| / ||a|| of a tensor's final weights, against the reference cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell."""

    title: str
    changes: Mapping[str, str]
    """Values by factor, of those that are not the reference cell's."""
    cell: Mapping[str, str]
    verdict: Verdict
    unavailable: str | None = None
    """Why there is nothing below."""
    sampled: tuple[Sampled, ...] = ()
    """At temperature 0, and at temperature 1 with a fixed seed."""
    trained: Trained | None = None
    peers: Mapping[str, float] | None = None
    """Sampler against trainer under the names that other stacks use."""
    seconds: float = 0.0
    machine: Mapping[str, str] | None = None

    @property
    def unequal_routes(self) -> float | None:
        """Largest share of tokens routed otherwise than in the reference cell or by its trainer; None: no mixture."""
        shares = [
            apart.unequal_routes
            for one in self.sampled
            for apart in (one.against, one.trainer)
            if apart.unequal_routes is not None
        ]
        return max(shares) if shares else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep; the first cell is the reference."""

    model: str
    completions: int
    prompt: int
    tokens: int
    steps: int
    machine: Mapping[str, str]
    cells: tuple[CellResult, ...]

    @property
    def routed(self) -> tuple[CellResult, ...]:
        """Cells of a mixture, whose routes were compared."""
        return tuple(cell for cell in self.cells if cell.unequal_routes is not None)

    @property
    def wrong(self) -> tuple[CellResult, ...]:
        """Cells that are not as they must be."""
        return tuple(cell for cell in self.cells if cell.verdict.wrong)


def story(sweep: Sweep) -> tuple[str, ...]:
    """Say in sentences what the sweep shows; the page and the console begin with them."""
    kept, broken, seen, unseen, absent = (
        [cell for cell in sweep.cells if cell.verdict is verdict]
        for verdict in (Verdict.KEPT, Verdict.BROKEN, Verdict.SEEN, Verdict.UNSEEN, Verdict.UNAVAILABLE)
    )
    promised = len(kept) + len(broken)
    sentences: list[str] = []
    if promised:
        equal = f"{len(kept)} of {promised} cells that are promised to be equal are"
        sentences.append(f"{equal}, bit for bit: completions, log-probabilities, gradients, weights.")
    sentences += [f"Broken: {cell.title}: {found(cell)}." for cell in broken]
    sentences += [
        f"{cell.title}, {_load(cell)}: {_uniques(cell)}; {_spread(cell)}."
        for cell in sweep.cells
        if "neighbours" in cell.changes and "batch" in cell.changes and cell.sampled
    ]
    if sweep.routed:
        sentences.append(_routes(sweep.routed))
    sentences += [f"{cell.title} is seen: {found(cell)}." for cell in seen]
    sentences += [f"{cell.title} is not seen by anything." for cell in unseen]
    if absent:
        sentences.append(f"Not available here: {listed([cell.title for cell in absent])}.")
    return tuple(sentences)


def found(cell: CellResult) -> str:
    """Say where a cell differs from the reference cell."""
    parts = [
        f"{one.unique} unique of {one.completions} completions at temperature {one.temperature:g}"
        for one in cell.sampled
        if one.unique > 1
    ]
    if not parts and any(not one.against.same for one in cell.sampled):
        parts.append("sampled bits are not the reference's")
    if any(not one.trainer.same for one in cell.sampled):
        worst = max(one.trainer.max_difference or 0.0 for one in cell.sampled)
        parts.append(f"sampler and trainer differ by up to {worst:.2g} nats")
    if cell.trained is not None and cell.trained.first is not None:
        parts.append(f"training first at {place_words(cell.trained.first)}")
    return "; ".join(parts) or "nothing"


def place_words(place: Place) -> str:
    """Say where training first differs."""
    size = "" if place.size is None else f", |a - b| / |a| about {place.size:.2g}"
    extent = f"{place.tensors} of {place.of_tensors} tensors"
    return f"step {place.step}, {place.phase}, {place.tensor}{size} ({extent})"


def _load(cell: CellResult) -> str:
    return f"up to {cell.cell['batch']} requests at once and {cell.cell['neighbours']} neighbours"


def _uniques(cell: CellResult) -> str:
    return ", ".join(
        f"{one.unique} unique of {one.completions} completions at temperature {one.temperature:g}"
        for one in cell.sampled
    )


def _routes(cells: Sequence[CellResult]) -> str:
    """What changes the experts that a mixture's tokens take."""
    moved = [f"{cell.title} ({100 * (cell.unequal_routes or 0.0):.2g} %)" for cell in cells if cell.unequal_routes]
    still = f"In {len(cells) - len(moved)} of {len(cells)} cells every compared token takes the same experts"
    return f"{still}; not in {listed(moved)}." if moved else f"{still}."


def _spread(cell: CellResult) -> str:
    patterns = " and ".join(str(one.unique_bits) for one in cell.sampled)
    shares = [one.within.unequal_bits or 0.0 for one in cell.sampled]
    return f"{patterns} patterns of bits, {100 * max(shares):.2g} % of tokens unequal"
