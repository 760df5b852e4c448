"""Each method of the `Kernels` seam except attention and sampling, against float64 formulas."""

import numpy as np
import pytest
import torch
from kernel_reference import assert_close, every_kernels, leaf, normal, rms_norm, rotate, silu_gate
from torch import Tensor

from tinsmith.ops import nf4
from tinsmith.ops.kernels import AdamStep, HeadGains, HeadShape, Kernels, Turn

SEGMENTS = {"one": [0, 40], "several": [0, 1, 17, 40], "empty ones": [0, 0, 7, 7, 7, 39, 40, 40]}
segmented = pytest.mark.parametrize("bounds", SEGMENTS.values(), ids=SEGMENTS.keys())
NUM_ROWS = 40

SHAPES = [
    HeadShape(heads=1, kv_heads=1, head_dim=64),
    HeadShape(heads=4, kv_heads=2, head_dim=16),
    HeadShape(heads=4, kv_heads=1, head_dim=80),
    HeadShape(heads=6, kv_heads=3, head_dim=32),
]
shaped = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.heads}q{s.kv_heads}kv{s.head_dim}d")


# Products


@every_kernels
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 700, 256), (5, 130, 33), (49, 64, 64), (61, 699, 97)])
def test_gemm_is_the_product(kernels: Kernels, m: int, k: int, n: int) -> None:
    a, b = normal(1, m, k), normal(2, k, n, scale=k**-0.5)
    expected = a.double() @ b.double()
    a, b = a.to(kernels.device), b.to(kernels.device)
    assert_close(kernels.gemm(a, b), expected)
    assert_close(kernels.gemm(a, b.t().contiguous().t()), expected)
    assert_close(kernels.gemm(a.t().contiguous().t(), b), expected)


@every_kernels
def test_gemm_continues_in_place_in_columns_of_a_wider_tensor(kernels: Kernels) -> None:
    a, b, wide = normal(1, 9, 50), normal(2, 50, 21, scale=0.1), normal(3, 9, 40)
    expected = wide.double()
    expected[:, 7:28] += a.double() @ b.double()
    into = wide.clone().to(kernels.device)
    returned = kernels.gemm(a.to(kernels.device), b.to(kernels.device), into=into[:, 7:28])
    assert_close(into, expected)
    assert returned.data_ptr() == into[:, 7:28].data_ptr()


@every_kernels
def test_gemm_over_no_terms_is_zero_and_leaves_into_alone(kernels: Kernels) -> None:
    a = torch.empty(2, 0, device=kernels.device)
    b = torch.empty(0, 3, device=kernels.device)
    assert_close(kernels.gemm(a, b), torch.zeros(2, 3, dtype=torch.float64))
    into = normal(1, 2, 3).to(kernels.device)
    assert_close(kernels.gemm(a, b, into=into), normal(1, 2, 3).double())


@every_kernels
@segmented
@pytest.mark.parametrize(("m", "n"), [(16, 16), (37, 65)])
def test_grad_gemm_adds_the_product_over_rows(kernels: Kernels, bounds: list[int], m: int, n: int) -> None:
    a, b, before = normal(1, NUM_ROWS, m), normal(2, NUM_ROWS, n), normal(3, m, n)
    into = before.clone().to(kernels.device)
    kernels.grad_gemm(a.to(kernels.device), b.to(kernels.device), torch.tensor(bounds), into)
    assert_close(into, before.double() + a.double().T @ b.double())


@every_kernels
@segmented
@pytest.mark.parametrize("width", [16, 150])
def test_column_chain_adds_column_sums(kernels: Kernels, bounds: list[int], width: int) -> None:
    wide, y, before = normal(1, NUM_ROWS, width + 9), normal(2, NUM_ROWS, width), normal(3, width)
    x = wide[:, 4 : 4 + width]
    for factor in (None, y):
        into = before.clone().to(kernels.device)
        kernels.column_chain(
            wide.to(kernels.device)[:, 4 : 4 + width],
            None if factor is None else factor.to(kernels.device),
            torch.tensor(bounds),
            into,
        )
        product = x.double() if factor is None else x.double() * factor.double()
        assert_close(into, before.double() + product.sum(0))


@every_kernels
@segmented
def test_rows_outside_the_segments_are_not_summed(kernels: Kernels, bounds: list[int]) -> None:
    ids = torch.arange(50) % 3
    x = normal(1, 50, 20)
    inner = slice(4, 4 + NUM_ROWS)
    segments = torch.tensor(bounds) + 4
    sums, product, table = torch.zeros(20), torch.zeros(20, 20), torch.zeros(3, 20)
    sums, product, table = (t.to(kernels.device) for t in (sums, product, table))
    on_device = x.to(kernels.device)
    kernels.column_chain(on_device, None, segments, sums)
    kernels.grad_gemm(on_device, on_device, segments, product)
    kernels.embed_backward(ids.to(kernels.device), on_device, segments, table)
    part = x[inner].double()
    assert_close(sums, part.sum(0))
    assert_close(product, part.T @ part)
    assert_close(table, torch.zeros(3, 20).double().index_add_(0, ids[inner], part))


# Embedding


@every_kernels
@segmented
def test_embedding_and_its_gradient(kernels: Kernels, bounds: list[int]) -> None:
    table = normal(1, 11, 24)
    ids = torch.from_numpy(np.random.default_rng(2).integers(0, 9, NUM_ROWS))  # 9, 10 never occur
    dy, before = normal(3, NUM_ROWS, 24), normal(4, 11, 24)
    recorded = leaf(table)
    (grad,) = torch.autograd.grad(recorded[ids], recorded, dy.double())
    rows = kernels.embed(table.to(kernels.device), ids.to(kernels.device))
    assert_close(rows, table.double()[ids], tolerance=0.0)
    into = before.clone().to(kernels.device)
    kernels.embed_backward(ids.to(kernels.device), dy.to(kernels.device), torch.tensor(bounds), into)
    assert_close(into, before.double() + grad)


# Norm, rotation, gate


@every_kernels
@pytest.mark.parametrize("width", [1, 16, 37, 300])
@pytest.mark.parametrize("with_delta", [False, True])
def test_add_rms_norm(kernels: Kernels, width: int, with_delta: bool) -> None:
    x, delta, gain = normal(1, 13, width), normal(2, 13, width), normal(3, width)
    total = x.double() + delta.double() if with_delta else x.double()
    got_total, y, inv_rms = kernels.add_rms_norm(
        x.to(kernels.device), delta.to(kernels.device) if with_delta else None, gain.to(kernels.device), 1e-5
    )
    assert_close(got_total, total)
    assert_close(y, rms_norm(total, gain.double(), 1e-5))
    assert_close(inv_rms, 1 / torch.sqrt((total**2).mean(1) + 1e-5))


@every_kernels
@pytest.mark.parametrize("width", [1, 16, 37, 300])
@pytest.mark.parametrize("with_sum", [False, True])
def test_rms_norm_backward(kernels: Kernels, width: int, with_sum: bool) -> None:
    x, gain, dy, d_sum = normal(1, 13, width), normal(2, width), normal(3, 13, width), None
    recorded, gains = leaf(x), leaf(gain)
    dx, d_gain = torch.autograd.grad(rms_norm(recorded, gains, 1e-5), (recorded, gains), dy.double())
    if with_sum:
        d_sum = normal(4, 13, width)
        dx = dx + d_sum.double()
    x, gain, dy = (t.to(kernels.device) for t in (x, gain, dy))
    inv_rms = kernels.add_rms_norm(x, None, gain, 1e-5)[2]
    d_sum = None if d_sum is None else d_sum.to(kernels.device)
    got, xhat = kernels.rms_norm_backward(x, gain, inv_rms, d_sum, dy, want_xhat=True)
    assert_close(got, dx)
    assert_close((dy * xhat).sum(0), d_gain)
    again, nothing = kernels.rms_norm_backward(x, gain, inv_rms, d_sum, dy, want_xhat=False)
    assert nothing is None
    assert_close(again, dx)


def frequencies(shape: HeadShape) -> np.ndarray:
    half = shape.head_dim // 2
    return (10_000.0 ** (-np.arange(half) / half)).astype(np.float32)


@every_kernels
@shaped
@pytest.mark.parametrize("with_gains", [False, True])
def test_rotation_and_its_gradients(kernels: Kernels, shape: HeadShape, with_gains: bool) -> None:
    width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    qkv, dy = normal(1, 19, width), normal(2, 19, width)
    positions = torch.from_numpy(np.random.default_rng(3).integers(0, 200, 19))
    q_gain, k_gain = normal(4, shape.head_dim), normal(5, shape.head_dim)
    recorded, q64, k64 = leaf(qkv), leaf(q_gain), leaf(k_gain)
    gains64 = (q64, k64, 1e-6) if with_gains else None
    expected = rotate(recorded, shape, positions, torch.from_numpy(frequencies(shape)), gains64)
    wanted = (recorded, q64, k64) if with_gains else (recorded,)
    grads = torch.autograd.grad(expected, wanted, dy.double())

    qkv, dy = qkv.to(kernels.device), dy.to(kernels.device)
    q_gain, k_gain = q_gain.to(kernels.device), k_gain.to(kernels.device)
    gains = HeadGains(q=q_gain, k=k_gain, eps=1e-6) if with_gains else None
    turn = Turn(shape, positions, kernels.rope(frequencies(shape), 200), gains)
    # The angle is rounded to fp32 before its cosine is taken: up to 200 * 2**-24 radians.
    assert_close(kernels.rotate(qkv, turn), expected, tolerance=2e-5)
    dx, rows = kernels.rotate_backward(qkv, dy, turn, want_gains=with_gains)
    assert_close(dx, grads[0], tolerance=2e-5)
    assert (rows is not None) == with_gains
    if rows is not None:
        assert rows[0].shape == (19 * shape.heads, shape.head_dim)
        assert_close(rows[0].sum(0), grads[1], tolerance=2e-5)
        assert_close(rows[1].sum(0), grads[2], tolerance=2e-5)


@every_kernels
@pytest.mark.parametrize("width", [1, 16, 43])
def test_silu_gate_and_its_gradient(kernels: Kernels, width: int) -> None:
    gate_up, dy = normal(1, 21, 2 * width, scale=4), normal(2, 21, width)
    gate_up[0, 0], gate_up[1, 0] = 80.0, -80.0
    recorded = leaf(gate_up)
    expected = silu_gate(recorded)
    (grad,) = torch.autograd.grad(expected, recorded, dy.double())
    gate_up, dy = gate_up.to(kernels.device), dy.to(kernels.device)
    assert_close(kernels.silu_gate(gate_up), expected)
    assert_close(kernels.silu_gate_backward(gate_up, dy), grad)


@every_kernels
def test_rope_tables_are_cos_and_sin_of_position_times_frequency(kernels: Kernels) -> None:
    few = np.array([1.0, 0.37, 0.01, 1e-5], np.float32)
    rope = kernels.rope(few, 500)
    angle = (np.arange(500, dtype=np.float32)[:, None] * few).astype(np.float64)
    assert_close(rope.cos, torch.from_numpy(np.cos(angle)), tolerance=6e-8)
    assert_close(rope.sin, torch.from_numpy(np.sin(angle)), tolerance=6e-8)


# Log-probabilities


@every_kernels
@pytest.mark.parametrize("vocab", [1, 7, 64, 1003])
@pytest.mark.parametrize("temperature", [1.0, 0.35, 2.5])
def test_row_stats(kernels: Kernels, vocab: int, temperature: float) -> None:
    logits = normal(1, 9, vocab, scale=6) + 40
    largest, log_sum = kernels.row_stats(logits.to(kernels.device), temperature)
    scaled = logits.double() / float(np.float32(temperature))
    assert_close(largest, scaled.amax(1), tolerance=1e-7)
    assert_close(log_sum, torch.logsumexp(scaled - scaled.amax(1, keepdim=True), 1), 2e-5)


def log_softmax_case(kernels: Kernels, vocab: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits and targets on the device, and the recorded float64 logits."""
    logits = normal(1, 12, vocab, scale=5)
    targets = torch.from_numpy(np.random.default_rng(2).integers(0, vocab, 12).astype(np.int32))
    return logits.to(kernels.device), targets.to(kernels.device), leaf(logits)


@every_kernels
@pytest.mark.parametrize("vocab", [1, 7, 64, 1003])
def test_gathered_logprobs(kernels: Kernels, vocab: int) -> None:
    logits, targets, recorded = log_softmax_case(kernels, vocab)
    expected = torch.log_softmax(recorded, 1)[torch.arange(12), targets.cpu().long()]
    got = kernels.gather_logprobs(logits, targets, kernels.row_stats(logits, 1.0))
    assert_close(got, expected)


@every_kernels
@pytest.mark.parametrize("vocab", [1, 7, 64, 1003])
def test_logprob_gradient_of_the_rows_that_count(kernels: Kernels, vocab: int) -> None:
    logits, targets, recorded = log_softmax_case(kernels, vocab)
    counts = torch.tensor([0, 3, 4, 11])
    grads = torch.zeros(12)
    grads[counts] = normal(3, 4)
    logprobs = torch.log_softmax(recorded, 1)[torch.arange(12), targets.cpu().long()]
    (expected,) = torch.autograd.grad(logprobs, recorded, grads.double())
    stats = kernels.row_stats(logits, 1.0)
    rows = counts.to(kernels.device)
    got = kernels.logprob_backward(
        logits[rows], torch.arange(5), targets[rows], grads.to(kernels.device)[rows], (stats[0][rows], stats[1][rows])
    )
    assert_close(got, expected[counts])
    assert expected[1].abs().max() == 0


@every_kernels
@pytest.mark.parametrize("vocab", [7, 64, 1003])
def test_a_row_that_is_read_for_several_targets(kernels: Kernels, vocab: int) -> None:
    logits, _, recorded = log_softmax_case(kernels, vocab)
    rows = torch.tensor([0, 3, 3, 3, 11])
    targets = torch.tensor([4, 6, 1, 6, 0], dtype=torch.int32)
    grads = normal(3, 5)
    read = torch.log_softmax(recorded, 1)[rows, targets.long()]
    (expected,) = torch.autograd.grad(read, recorded, grads.double())
    stats = kernels.row_stats(logits, 1.0)
    assert_close(kernels.gather_logprobs(logits, targets.to(kernels.device), stats, rows=rows), read)
    some = torch.tensor([0, 3, 11], device=kernels.device)
    got = kernels.logprob_backward(
        logits[some],
        torch.tensor([0, 1, 4, 5]),
        targets.to(kernels.device),
        grads.to(kernels.device),
        (stats[0][some], stats[1][some]),
    )
    assert_close(got, expected[some.cpu()])


@every_kernels
@pytest.mark.parametrize("width", [3, 16, 45])
def test_scale_and_bias_per_column_in_place(kernels: Kernels, width: int) -> None:
    wide, scale, bias = normal(1, 8, width + 5), normal(2, width), normal(3, width)
    for use_scale, use_bias in ((True, True), (True, False), (False, True), (False, False)):
        expected = wide.double()
        part = expected[2:6, 5:]
        part *= scale.double() if use_scale else 1
        part += bias.double() if use_bias else 0
        y = wide.clone().to(kernels.device)
        kernels.scale_bias(
            y[2:6, 5:], scale.to(kernels.device) if use_scale else None, bias.to(kernels.device) if use_bias else None
        )
        assert_close(y, expected)


# State


@pytest.mark.whole
@every_kernels
def test_adam_is_adamw(kernels: Kernels) -> None:
    weight = normal(1, 30, 41)
    settings = {"lr": 3e-2, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}
    oracle = torch.nn.Parameter(weight.double())
    optimizer = torch.optim.AdamW([oracle], **settings)
    weight = weight.to(kernels.device)
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for t in range(1, 6):
        grad = normal(10 + t, 30, 41, scale=10.0**-t)
        oracle.grad = grad.double() * 0.5
        optimizer.step()
        step = AdamStep(
            learning_rate=3e-2,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.1,
            grad_scale=0.5,
            bias1=1 - 0.9**t,
            bias2=1 - 0.999**t,
        )
        before = grad.clone().to(kernels.device)
        kernels.adam(weight, before, m, v, step)
        assert torch.equal(before.cpu(), grad)
        state = optimizer.state[oracle]
        assert_close(weight, oracle.data, tolerance=3e-7)
        torch.testing.assert_close(m.cpu().double(), state["exp_avg"], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(v.cpu().double(), state["exp_avg_sq"], rtol=1e-6, atol=0)


@every_kernels
def test_sum_of_squares(kernels: Kernels) -> None:
    x = normal(1, 1001, scale=1e-15)
    expected = float((x.double() ** 2).sum())
    assert kernels.sum_squares(x.to(kernels.device)) == pytest.approx(expected, rel=1e-14, abs=0)
    assert kernels.sum_squares(torch.empty(0, device=kernels.device)) == 0.0


@every_kernels
@pytest.mark.parametrize("shape", [(64, 64), (33, 128), (7, 48), (3, 33), (1, 1)])
def test_nf4_weights_come_out_transposed(kernels: Kernels, shape: tuple[int, int]) -> None:
    coded = nf4.quantise(normal(1, *shape).numpy())
    codes = torch.from_numpy(coded.codes).to(kernels.device)
    absmax = torch.from_numpy(nf4.block_absmax(coded)).to(kernels.device)
    expected = torch.from_numpy(nf4.dequantise(coded)).double().T
    assert_close(kernels.nf4_transposed(codes, absmax, *shape), expected, tolerance=0.0)
