"""Arguments of the CUDA kernels, laid out as the structs of `native/cuda/args.h`."""

from __future__ import annotations

import ctypes
from typing import ClassVar

_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_longlong, "f": ctypes.c_float}


def _fields(**names: str) -> list[tuple[str, type[ctypes.c_void_p | ctypes.c_longlong | ctypes.c_float]]]:
    """Fields in the order given: `p1="x y"` are pointers, `i...` integers, `f...` floats."""
    return [(name, _TYPES[kind[0]]) for kind, listed in names.items() for name in listed.split()]


class Arguments(ctypes.Structure):
    """One kernel's arguments, passed by value."""

    _fields_: ClassVar = []


class GemmArgs(Arguments):
    """A product."""

    _fields_ = _fields(
        i1="M N K", p2="A", i3="a_rs a_cs", p4="B", i5="b_rs b_cs", p6="absmax C", i7="c_rs", p8="chains",
        i9="num_chains add",
    )  # fmt: skip


class ColumnArgs(Arguments):
    """Column sums."""

    _fields_ = _fields(p1="x y", i2="rs_x rs_y", p3="chains", i4="num_chains", p5="acc", i6="N")


class EmbedArgs(Arguments):
    """The embedding's gradient."""

    _fields_ = _fields(p1="dy", i2="rs", p3="order ids chain_begin chains into", i4="H")


class NormArgs(Arguments):
    """RMSNorm."""

    _fields_ = _fields(p1="x delta gain sum y inv_rms", i2="rows H", f3="eps pad")


class NormBackArgs(Arguments):
    """Its backward."""

    _fields_ = _fields(p1="x gain inv_rms d_sum dy dx xhat", i2="rows H")


class RotateArgs(Arguments):
    """Rotation, either way."""

    _fields_ = _fields(
        p1="x", i2="x_rs", p3="dy", i4="dy_rs", p5="y", i6="y_rs", p7="pos cos sin q_gain k_gain dgain_q dgain_k",
        i8="rows q_heads kv_heads d", f9="eps pad",
    )  # fmt: skip


class GateArgs(Arguments):
    """The gate, and its backward."""

    _fields_ = _fields(p1="gate_up dy out", i2="rows I")


class ScaleArgs(Arguments):
    """Scale and bias by column."""

    _fields_ = _fields(p1="y", i2="y_rs", p3="scale bias", i4="rows N")


class StoreArgs(Arguments):
    """Keys and values into pages, by slot or by row."""

    _fields_ = _fields(
        p1="qkv", i2="rs", p3="row_of_slot row_begin first_pos table", i4="table_rs", p5="k_pages v_pages",
        i6="count sequences heads kv_heads d d_pad",
    )  # fmt: skip


class AttentionArgs(Arguments):
    """Attention over pages."""

    _fields_ = _fields(
        p1="q", i2="q_rs", p3="k_pages v_pages table", i4="table_rs", p5="row_begin first_pos out", i6="out_rs",
        p7="row_max row_sum", i8="heads kv_heads d d_pad", f9="scale pad",
    )  # fmt: skip


class AttentionBackArgs(Arguments):
    """Its backward over prefix trees."""

    _fields_ = _fields(
        p1="q k v", i2="rs", p3="out d_out", i4="out_rs", p5="row_max row_sum delta d_q d_k d_v", i6="d_rs",
        p7="path path_begin tile_row tile_end first_seen sees_end", i8="rows heads kv_heads d", f9="scale pad",
    )  # fmt: skip


class StatsArgs(Arguments):
    """Statistics of rows of logits."""

    _fields_ = _fields(p1="x top log_sum", i2="V", f3="temperature pad")


class ChooseArgs(Arguments):
    """Draws."""

    _fields_ = _fields(
        p1="logits rows seeds samples positions temperatures top_ks top_ps order tokens logprobs", i2="V"
    )


class RankedArgs(Arguments):
    """Log-probabilities of some tokens of each row."""

    _fields_ = _fields(p1="logits rows temperatures tokens logprobs", i2="V k")


class GatherArgs(Arguments):
    """Log-probabilities of targets."""

    _fields_ = _fields(p1="logits rows targets top log_sum out", i2="count V")


class LogprobBackArgs(Arguments):
    """Their gradient."""

    _fields_ = _fields(p1="logits reads targets g top log_sum d_logits", i2="V")


class RouteArgs(Arguments):
    """A mixture's routes, and their backward."""

    _fields_ = _fields(p1="logits experts weights d_weights out", i2="rows E active normalised")


class DotsArgs(Arguments):
    """Dot products of rows."""

    _fields_ = _fields(p1="x", i2="x_rs", p3="y", i4="y_rs", p5="out", i6="rows N")


class AdamArgs(Arguments):
    """An optimizer step; doubles are rounded to fp32 once, as in native/bind_state.cpp."""

    _fields_ = _fields(p1="p g m v", i2="n", f3="lr beta1 beta2 eps scale rest1 rest2 keep bias1 bias2")


class SquaresArgs(Arguments):
    """A sum of squares."""

    _fields_ = _fields(p1="x out", i2="n")


class FiniteArgs(Arguments):
    """A question whether all elements are finite."""

    _fields_ = _fields(p1="x bad", i2="n")


class Nf4Args(Arguments):
    """NF4 codes to be decoded."""

    _fields_ = _fields(p1="codes absmax wt", i2="out in_")


class QuotientArgs(Arguments):
    """Division and root over bit patterns."""

    _fields_ = _fields(p1="x y quotient root inverse", i2="n")
