"""Canonical arithmetic: kernels whose bits depend on their operands only.

Arrays are float32 where nothing else is said, and are passed without a copy. `Out` arrays are
written. A wrong shape, stride or index raises ValueError.
"""

from typing import overload

import numpy as np
from numpy.typing import NDArray

In = NDArray[np.generic]
Out = NDArray[np.generic]
Int32s = NDArray[np.generic]
Int64s = NDArray[np.generic]

def supported_isas() -> list[str]: ...
def use_isa(name: str) -> None: ...
def isa() -> str: ...
def set_num_threads(n: int) -> None: ...
def num_threads() -> int: ...

# Matrices held as published

def held_types() -> list[tuple[str, int, int]]: ...

class Tape:
    def begin(self) -> None: ...
    def end(self) -> bool: ...
    def replay(self) -> None: ...

class Packed:
    def __init__(self, type: str, stored: In, rows: int, columns: int) -> None: ...
    def scale(self, codes: In, scales: In, offset: float, levels: In) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def widen(self, first: int, out: Out) -> None: ...
    def widen_turned(self, first: int, out: Out) -> None: ...
    def take(self, ids: Int64s, out: Out) -> None: ...

# Products

def gemm(a: In, b: In, c: Out, chain: bool = False, segments: Int64s | None = None) -> None: ...
def held_product(a: In, parts: list[Packed], c: Out) -> None: ...
def held_product_turned(a: In, parts: list[Packed], c: Out) -> None: ...
def column_chain(x: In, y: In | None, segments: Int64s, acc: Out) -> None: ...
def embed(table: In, ids: Int64s, out: Out) -> None: ...
def embed_backward(ids: Int64s, dy: In, segments: Int64s, into: Out) -> None: ...

# Rows

def add_rms_norm(x: In, delta: In | None, gain: In, eps: float, sum: Out | None, y: Out, inv_rms: Out) -> None: ...
def rms_norm_backward(x: In, gain: In, inv_rms: In, d_sum: In | None, dy: In, dx: Out, xhat: Out | None) -> None: ...
def rotate(
    x: In,
    y: Out,
    positions: Int64s,
    cos: In,
    sin: In,
    heads: int,
    kv_heads: int,
    q_gain: In | None,
    k_gain: In | None,
    eps: float,
) -> None: ...
def rotate_backward(
    x: In,
    dy: In,
    dx: Out,
    positions: Int64s,
    cos: In,
    sin: In,
    heads: int,
    kv_heads: int,
    q_gain: In | None,
    k_gain: In | None,
    eps: float,
    dgain_q: Out | None,
    dgain_k: Out | None,
) -> None: ...
def silu_gate(gate_up: In, y: Out) -> None: ...
def silu_gate_backward(gate_up: In, dy: In, d_gate_up: Out) -> None: ...
def row_stats(logits: In, temperature: float, row_max: Out, log_sum: Out) -> None: ...
def gather_logprobs(
    logits: In, rows: Int64s, targets: Int32s, temperature: float, row_max: In, log_sum: In, out: Out
) -> None: ...
def logprob_backward(
    logits: In, reads: Int64s, targets: Int32s, g: In, row_max: In, log_sum: In, d_logits: Out
) -> None: ...
def scale_bias(y: Out, scale: In | None, bias: In | None) -> None: ...

# Attention

def store_keys(
    qkv: In, heads: int, kv_heads: int, table: Int32s, row_begin: Int64s, first_pos: Int64s, k_pages: Out, v_pages: Out
) -> None: ...
def store_slots(qkv: In, heads: int, kv_heads: int, slots: Int64s, k_pages: Out, v_pages: Out) -> None: ...
def attention(
    qkv: In,
    heads: int,
    kv_heads: int,
    k_pages: In,
    v_pages: In,
    table: Int32s,
    row_begin: Int64s,
    first_pos: Int64s,
    scale: float,
    out: Out,
    row_max: Out | None,
    row_sum: Out | None,
) -> None: ...
def attention_backward(
    qkv: In,
    heads: int,
    kv_heads: int,
    out: In,
    d_out: In,
    row_max: In,
    row_sum: In,
    row_begin: Int64s,
    first_pos: Int64s,
    unit_nodes: Int64s,
    scale: float,
    d_qkv: Out,
) -> None: ...

# Mixtures of experts

def route(logits: In, normalised: bool, experts: Out, weights: Out) -> None: ...
def route_backward(
    logits: In, normalised: bool, experts: Int64s, weights: In, d_weights: In, d_logits: Out
) -> None: ...

class Matrices:
    @overload
    def __init__(self, all: list[In]) -> None: ...
    @overload
    def __init__(self, packed: list[list[Packed]]) -> None: ...

Low = tuple[In, list[In], list[tuple[int, int]], float, In | None, In | None]
Grads = tuple[Out | None, bool, Out | None, list[Out | None], Out | None]
MixtureArrays = tuple[Out, Out, Out, Out, Out, Out | None, Out | None]

def mixture(
    x: In,
    places: Int64s,
    bounds: Int64s,
    weights: In,
    up: Matrices,
    down: Matrices,
    low_up: list[Low | None],
    low_down: list[Low | None],
    y: Out,
    kept: MixtureArrays | None = None,
) -> None: ...
def mixture_backward(
    dy: In,
    x: In,
    places: Int64s,
    bounds: Int64s,
    weights: In,
    segments: Int64s,
    up: Matrices,
    down: Matrices,
    low_up: list[Low | None],
    low_down: list[Low | None],
    grads_up: list[Grads],
    grads_down: list[Grads],
    kept: MixtureArrays,
    dx: Out,
    d_weights: Out,
) -> None: ...
def row_entropies(logits: In, out: Out) -> None: ...
def row_dots(x: In, y: In, out: Out) -> None: ...

# Sampling

def choose(
    logits: In,
    rows: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    samples: NDArray[np.int64],
    positions: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    top_ks: NDArray[np.int64],
    top_ps: NDArray[np.float64],
    tokens: NDArray[np.int32],
    logprobs: NDArray[np.float32],
) -> None: ...
def top_logprobs(
    logits: In,
    rows: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    k: int,
    tokens: NDArray[np.int32],
    logprobs: NDArray[np.float32],
) -> None: ...

# State

def adam(
    p: Out,
    g: In,
    m: Out,
    v: Out,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    grad_scale: float,
    bias1: float,
    bias2: float,
) -> None: ...
def sum_squares(x: In) -> float: ...
def exp(x: In, y: Out) -> None: ...
def nf4_dequantise_transposed(codes: NDArray[np.generic], absmax: In, out: int, in_: int, wt: Out) -> None: ...
def rope_table(frequencies: In, cos: Out, sin: Out) -> None: ...

# Citation graphs

def group_edges(
    keys: NDArray[np.uint32], values: NDArray[np.uint32], pointer: NDArray[np.uint32], grouped: NDArray[np.uint32]
) -> None: ...
def strictly_ascending(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> bool: ...
def count_citers(
    out_pointer: NDArray[np.uint32],
    out: NDArray[np.uint32],
    in_pointer: NDArray[np.uint32],
    in_: NDArray[np.uint32],
    window_begin: NDArray[np.uint32],
    window_end: NDArray[np.uint32],
    first_dated: int,
    cursors: NDArray[np.uint32],
    begin: int,
    end: int,
    citers: NDArray[np.uint32],
    both: NDArray[np.uint32],
    both5: NDArray[np.uint32],
    reference_citers: NDArray[np.uint32],
    until_end: NDArray[np.uint32],
    shared: NDArray[np.uint64],
) -> None: ...

class JournalPairs:
    def __init__(
        self,
        pointer: NDArray[np.uint32],
        journal: NDArray[np.uint32],
        stratum: NDArray[np.uint32],
        journals: int,
        strata: int,
    ) -> None: ...
    def score_closed(self) -> None: ...
    def score_switched(self, seeds: NDArray[np.uint64], nulls: int) -> None: ...
    def summarise(self, median: NDArray[np.float64], p10: NDArray[np.float64], pairs: NDArray[np.uint32]) -> None: ...
    def size(self) -> int: ...
    def cells(
        self,
        first: NDArray[np.uint32],
        second: NDArray[np.uint32],
        observed: NDArray[np.uint32],
        z: NDArray[np.float64],
    ) -> None: ...

# Synthetic world

def world_references(
    year_start: NDArray[np.int64],
    topic: NDArray[np.int32],
    field: NDArray[np.int32],
    cause: NDArray[np.uint8],
    fitness: NDArray[np.uint32],
    wander: NDArray[np.uint32],
    wanted: NDArray[np.int32],
    topics: int,
    fields: int,
    habits: NDArray[np.uint32],
    age_below: NDArray[np.uint32],
    candidates: int,
    hub_slots: int,
    hub_tenure: int,
    max_hubs: int,
    seed: int,
    offsets: NDArray[np.int64],
) -> NDArray[np.uint32]: ...
