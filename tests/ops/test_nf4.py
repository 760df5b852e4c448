"""NF4 against bitsandbytes on CPU, against exact arithmetic, and against its own native decoder.

bitsandbytes is always given the flat weight: its AVX-512 decoder takes the wrong absmax for rows
that are not a multiple of 64.
"""

import math
from fractions import Fraction

import bitsandbytes.functional as bnb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from safetensors.numpy import load, save

from tinsmith.ops import nf4
from tinsmith.types.errors import CheckpointError, InputError
from tinsmith.types.fingerprints import array_sha256, tensors_sha256
from tinsmith.types.seeds import uniform

pytestmark = pytest.mark.whole

FloatArray = NDArray[np.float32]

SHAPES = [(64, 64), (32, 192), (256, 320), (512, 512), (33, 128), (1000, 192), (7, 48), (3, 33), (1, 1)]
SEEDS = [0, 1, 2]
HALF_GAP = 0.15190361
"""Half the distance between -1 and -0.6961928."""
HALF_DYNAMIC_GAP = 0.00703126
"""Half the distance between neighbours in the top decade of the dynamic map."""
GRID = 2.0 / 65535
"""Spacing of the grid to which bitsandbytes' CPU kernel rounds before it looks an 8-bit code up."""
LEVELS = torch.from_numpy(nf4.DYNAMIC_LEVELS)
"""Handed to bitsandbytes, whose own table has other bits where torch has no fma."""
MAGNITUDES = st.floats(2.0**-99, 2.0**99, width=32)
"""Far enough from the subnormal numbers that the exact bounds hold."""


def normal_weight(shape: tuple[int, int], seed: int) -> FloatArray:
    """A weight with rows of unequal spread, so that the absmax values fill their map."""
    rng = np.random.default_rng(seed)
    spread = 0.02 * (1 + 0.5 * rng.random((shape[0], 1)))
    return (rng.standard_normal(shape) * spread).astype(np.float32)


def bnb_quantise(weight: FloatArray) -> tuple[NDArray[np.uint8], bnb.QuantState]:
    """bitsandbytes' codes and state of the flat weight, with a zero appended to an odd count."""
    flat = weight.reshape(-1)
    flat = np.append(flat, np.float32(0)) if flat.size % 2 else flat
    codes, state = bnb.quantize_4bit(
        torch.from_numpy(flat.copy()), compress_statistics=True, quant_type="nf4", blocksize=64
    )
    return codes.numpy().reshape(-1), state


def bnb_dequantise(codes: NDArray[np.uint8], state: bnb.QuantState, shape: tuple[int, int]) -> FloatArray:
    column = torch.from_numpy(codes.copy()).reshape(-1, 1)
    state.state2.code = LEVELS
    flat = bnb.dequantize_4bit(column, state).reshape(-1).numpy()
    return flat[: math.prod(shape)].reshape(shape)


def from_bnb(codes: NDArray[np.uint8], state: bnb.QuantState, shape: tuple[int, int]) -> nf4.Nf4Tensor:
    return nf4.from_parts(
        {
            "shape": np.array(shape, dtype=np.int64),
            "codes": codes,
            "absmax_codes": state.absmax.numpy(),
            "absmax_scales": state.state2.absmax.numpy(),
            "offset": state.offset.numpy().reshape(1),
        }
    )


def exact_absmax(weight: FloatArray) -> FloatArray:
    flat = np.pad(weight.reshape(-1), (0, -weight.size % 64))
    return np.abs(flat.reshape(-1, 64)).max(axis=1)


def bits(array: FloatArray | np.float32) -> NDArray[np.int32]:
    return np.ascontiguousarray(array).view(np.int32)


def unpacked(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([codes >> 4, codes & 15], axis=1).reshape(-1)


def test_nf4_levels_and_thresholds_are_bitsandbytes() -> None:
    assert np.array_equal(nf4.NF4_LEVELS, bnb.get_4bit_type("nf4", device="cpu").numpy())
    thresholds = [  # those written out in bitsandbytes' GPU kernel
        *(-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544),
        *(-0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767),
        *(0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683),
        *(0.5016634166240692, 0.6427869200706482, 0.8614784181118011),
    ]
    assert np.array_equal(nf4._NF4_THRESHOLDS, np.array(thresholds, dtype=np.float32))


def test_dynamic_levels_are_bitsandbytes() -> None:
    theirs = bnb.create_dynamic_map(signed=True, max_exponent_bits=7, total_bits=8).numpy()
    distance = np.abs(bits(nf4.DYNAMIC_LEVELS) - bits(theirs))
    with_fma = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    assert distance.max() <= (0 if with_fma else 2)


@pytest.mark.golden
def test_dynamic_levels_keep_their_bits() -> None:
    assert array_sha256(nf4.DYNAMIC_LEVELS) == "0ca86de33263cdac18c632327b65eb757ff910fe0136d459c571ff459b322448"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_parts_made_by_bitsandbytes_decode_to_its_bits(shape: tuple[int, int], seed: int) -> None:
    codes, state = bnb_quantise(normal_weight(shape, seed))
    ours = nf4.dequantise(from_bnb(codes, state, shape))
    assert np.array_equal(bits(ours), bits(bnb_dequantise(codes, state, shape)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_weight_codes_are_bitsandbytes(shape: tuple[int, int], seed: int) -> None:
    weight = normal_weight(shape, seed)
    assert np.array_equal(nf4.quantise(weight).codes, bnb_quantise(weight)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_offset_is_the_exact_mean_and_bitsandbytes_within_one_unit(shape: tuple[int, int], seed: int) -> None:
    weight = normal_weight(shape, seed)
    offset = nf4.quantise(weight).offset
    absmax = exact_absmax(weight).tolist()
    assert offset == np.float32(float(sum(map(Fraction, absmax)) / len(absmax)))
    theirs = bnb_quantise(weight)[1].offset.numpy()
    assert np.abs(bits(offset) - bits(theirs)).item() <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_absmax_codes_are_those_of_bitsandbytes_torch_kernel(seed: int) -> None:
    centred = np.random.default_rng(seed).standard_normal(256 * 100).astype(np.float32)
    quantise = torch.ops.bitsandbytes.quantize_blockwise.default
    plain = torch._C.DispatchKey.CompositeExplicitAutograd
    codes, scales = quantise._op_dk(plain, torch.from_numpy(centred), LEVELS, 256)
    ours, our_scales = nf4._absmax_codes(centred)
    assert np.array_equal(bits(our_scales), bits(scales.numpy()))
    assert np.array_equal(ours, codes.numpy())


@pytest.mark.parametrize("seed", SEEDS)
def test_absmax_codes_differ_from_bitsandbytes_cpu_kernel_only_by_its_grid(seed: int) -> None:
    centred = np.random.default_rng(seed).standard_normal(256 * 100 + 37).astype(np.float32)
    theirs, state = bnb.quantize_blockwise(torch.from_numpy(centred), code=LEVELS, blocksize=256)
    ours, scales = nf4._absmax_codes(centred)
    assert np.array_equal(bits(scales), bits(state.absmax.numpy()))
    scaled = centred / np.repeat(scales, 256)[: centred.size]
    our_error = np.abs(nf4.DYNAMIC_LEVELS[ours] - scaled)
    their_error = np.abs(nf4.DYNAMIC_LEVELS[theirs.numpy()] - scaled)
    assert (our_error <= their_error + 1e-7).all()
    assert (their_error <= our_error + 1.01 * GRID).all()
    assert 0 < (ours != theirs.numpy()).mean() < 0.004  # measured: 0.0015


def test_whole_weights_agree_with_bitsandbytes_but_for_mean_and_grid() -> None:
    num_blocks = num_code_differences = num_offset_differences = 0
    for seed in range(20):
        weight = normal_weight((256, 320), seed)
        ours = nf4.quantise(weight)
        codes, state = bnb_quantise(weight)
        theirs = from_bnb(codes, state, weight.shape)
        assert np.array_equal(ours.codes, theirs.codes)
        unit = np.spacing(ours.offset)
        assert np.abs(ours.absmax_scales - theirs.absmax_scales).max() <= 2 * unit
        difference = np.abs(nf4.block_absmax(ours) - nf4.block_absmax(theirs))
        equal = ours.absmax_codes == theirs.absmax_codes
        assert difference[equal].max() <= 4 * unit
        assert difference.max() <= 2 * HALF_DYNAMIC_GAP * ours.absmax_scales.max() + 4 * unit
        num_blocks += equal.size
        num_code_differences += int((~equal).sum())
        num_offset_differences += int(ours.offset != theirs.offset)
    assert num_blocks == 25600
    assert num_code_differences <= 100  # measured: 45
    assert num_offset_differences <= 18  # measured: 9


def test_first_weight_is_in_the_high_nibble_and_levels_are_exact() -> None:
    weight = np.tile(nf4.NF4_LEVELS, 4).reshape(2, 32)
    tensor = nf4.quantise(weight)
    assert tensor.codes.tobytes().hex() == "0123456789abcdef" * 4
    assert (tensor.offset, tensor.absmax_scales.tolist()) == (1.0, [0.0])
    assert np.array_equal(nf4.dequantise(tensor), weight)


def test_a_weight_on_a_threshold_gets_the_lower_level() -> None:
    weight = np.zeros((1, 64), dtype=np.float32)
    weight[0, 0] = 1.0
    weight[0, 1:16] = nf4._NF4_THRESHOLDS
    weight[0, 16:31] = np.nextafter(nf4._NF4_THRESHOLDS, np.float32(2))
    codes = unpacked(nf4.quantise(weight).codes)
    assert codes[:31].tolist() == [15, *range(15), *range(1, 16)]


def test_zero_weights_decode_to_zero() -> None:
    zero = nf4.quantise(np.zeros((3, 50), dtype=np.float32))
    assert np.array_equal(nf4.dequantise(zero), np.zeros((3, 50)))
    weight = normal_weight((8, 64), 0)
    weight[3] = 0.0
    assert not nf4.dequantise(nf4.quantise(weight))[3].any()


def test_a_spare_nibble_is_seven() -> None:
    tensor = nf4.quantise(np.ones((1, 3), dtype=np.float32))
    assert tensor.codes.tobytes().hex() == "fff7"
    assert np.array_equal(nf4.dequantise(tensor), np.ones((1, 3)))


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 9), st.integers(1, 150)),
        elements=MAGNITUDES | MAGNITUDES.map(lambda magnitude: -magnitude) | st.just(0.0),
    )
)
def test_errors_stay_within_half_a_gap(weight: FloatArray) -> None:
    tensor = nf4.quantise(weight)
    decoded = nf4.dequantise(tensor)
    assert decoded.shape == weight.shape
    assert np.isfinite(decoded).all()
    absmax = exact_absmax(weight).astype(np.float64)
    per_weight = np.repeat(absmax, 64)[: weight.size]
    levels = nf4.NF4_LEVELS[unpacked(tensor.codes)[: weight.size]]
    scaled = weight.reshape(-1) / np.maximum(per_weight, 1e-38)
    assert np.abs(levels - scaled).max() <= HALF_GAP * (1 + 1e-6)
    scales = np.repeat(tensor.absmax_scales, 256)[: absmax.size].astype(np.float64)
    error = np.abs(nf4.block_absmax(tensor) - absmax)
    rounding = 1e-6 * absmax.max() + 1e-44
    assert (error <= HALF_DYNAMIC_GAP * scales + rounding).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 150), st.integers(0, 1000))
def test_equal_weights_give_equal_bytes_whatever_their_layout(rows: int, columns: int, seed: int) -> None:
    weight = normal_weight((rows, columns), seed)
    expected = tensors_sha256(nf4.to_parts(nf4.quantise(weight)))
    strided = np.repeat(weight, 2, axis=1)[:, ::2]
    for other in (np.asfortranarray(weight), strided, weight.copy()):
        assert tensors_sha256(nf4.to_parts(nf4.quantise(other))) == expected


def test_a_block_is_coded_alone_across_the_chunks_of_encoding() -> None:
    weight = normal_weight((2 * 8192 + 3, 64), 0)
    whole = nf4.quantise(weight).codes.reshape(-1, 32)
    assert np.array_equal(whole[8190:8194], nf4.quantise(weight[8190:8194]).codes.reshape(-1, 32))
    assert np.array_equal(whole[-2:], nf4.quantise(weight[-2:]).codes.reshape(-1, 32))


@pytest.mark.golden
def test_one_weight_keeps_its_bits() -> None:
    tensor = nf4.quantise(uniform(7, (300, 200), 0.05))
    assert tensors_sha256(nf4.to_parts(tensor)) == "14bd419a5f218831a9c13ec3aa18ea6c89bf73c4ede067dacbfb506d4050cbbc"
    assert array_sha256(nf4.dequantise(tensor)) == "975c2ec851a1eaa8fd84ec1d7e9de766e2c24fc22eb60be6149d2c28762c6c4c"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_named(value: float) -> None:
    weight = normal_weight((4, 100), 0)
    weight[2, 71] = value
    with pytest.raises(InputError) as error:
        nf4.quantise(weight, name="layers.0.q_proj")
    assert error.value.field == "layers.0.q_proj[2, 71]"


@pytest.mark.parametrize(
    "weight", [np.ones((2, 64), dtype=np.float64), np.ones(64, dtype=np.float32), np.ones((0, 64), dtype=np.float32)]
)
def test_what_is_not_an_fp32_matrix_is_refused(weight: NDArray[np.generic]) -> None:
    with pytest.raises(InputError, match=r"field: head = "):
        nf4.quantise(weight, name="head")


def test_num_bytes_counts_all_four_arrays() -> None:
    tensor = nf4.quantise(normal_weight((256, 256), 0))
    assert nf4.num_bytes(tensor) == 256 * 256 // 2 + 1024 + 4 * 4 + 4


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_come_back_from_safetensors(shape: tuple[int, int]) -> None:
    tensor = nf4.quantise(normal_weight(shape, 0))
    back = nf4.from_parts(load(save(nf4.to_parts(tensor))))
    assert back.shape == tensor.shape
    assert np.array_equal(bits(nf4.dequantise(back)), bits(nf4.dequantise(tensor)))


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("codes", None, "q"),
        ("zeros", np.zeros(1), "q"),
        ("codes", np.zeros(5, dtype=np.uint8), "q.codes"),
        ("codes", np.zeros(2048, dtype=np.int8), "q.codes"),
        ("absmax_codes", np.zeros(65, dtype=np.uint8), "q.absmax_codes"),
        ("absmax_scales", np.zeros(1, dtype=np.float64), "q.absmax_scales"),
        ("absmax_scales", np.array([math.nan], dtype=np.float32), "q.absmax_scales"),
        ("offset", np.zeros((), dtype=np.float32), "q.offset"),
        ("shape", np.array([64, 0]), "q.shape"),
        ("shape", np.array([64, 64, 1]), "q.shape"),
    ],
)
def test_damaged_parts_are_named(key: str, value: NDArray[np.generic] | None, field: str) -> None:
    parts = nf4.to_parts(nf4.quantise(normal_weight((64, 64), 0)))
    if value is None:
        del parts[key]
    else:
        parts[key] = value
    with pytest.raises(CheckpointError) as error:
        nf4.from_parts(parts, name="q")
    assert error.value.field == field


@pytest.mark.parametrize("shape", [*SHAPES, (70, 128), (96, 80)])
def test_native_decoder_gives_the_transpose_to_the_bit(shape: tuple[int, int]) -> None:
    native = pytest.importorskip("tinsmith._native")
    tensor = nf4.quantise(normal_weight(shape, 0))
    out, in_ = shape
    wt = np.full((in_, out), np.nan, dtype=np.float32)
    native.nf4_dequantise_transposed(tensor.codes, nf4.block_absmax(tensor), out, in_, wt)
    assert np.array_equal(bits(wt), bits(nf4.dequantise(tensor).T))
