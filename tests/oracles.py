"""A second implementation of decoder, adapters and their gradients: transformers and peft.

Also small random models for both sides, and what ours says in a form the other side is held to.
Needs nothing of any other test file.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from experts_apart import with_experts_apart

from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.folders.hf_config import config_values
from tinsmith.models.names import expected_tensors
from tinsmith.models.slots import load, values
from tinsmith.models.steps import LowRanks, TrainSteps
from tinsmith.ops import nf4
from tinsmith.ops.forest import Forest
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Run, forward
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.objectives.losses import LOSSES
from tinsmith.ops.packed import Packed
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.seeds import derive, uniform

Tensors = dict[str, torch.Tensor]

LLAMA = DecoderConfig(
    family=Family.LLAMA,
    vocab_size=97,
    hidden_size=64,
    intermediate_size=112,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    max_positions=64,
    norm_eps=1e-5,
    rope_theta=10_000.0,
    tied=True,
)
"""Two layers, tied as the presets are; no width but the model's is a multiple of 64."""

QWEN2 = replace(LLAMA, family=Family.QWEN2, qkv_bias=True, tied=False)
"""Biases of q, k and v, and a head of its own."""

QWEN3 = replace(LLAMA, family=Family.QWEN3, qk_norm=True, head_dim=24)
"""Norms of q and k, heads together wider than the model."""

QWEN3_MOE = replace(
    QWEN3,
    family=Family.QWEN3_MOE,
    num_layers=3,
    tied=False,
    mixture=Mixture(num_experts=8, num_active=2, expert_size=40, normalised=True, dense_layers=(1,)),
)
"""Eight experts, two a token, their weights normalised; the middle layer is dense."""

OLMOE = replace(
    LLAMA,
    family=Family.OLMOE,
    intermediate_size=24,
    tied=False,
    qk_norm_whole=True,
    mixture=Mixture(num_experts=64, num_active=8, expert_size=24, normalised=False),
)
"""Sixty-four experts, eight a token, their weights as they are; norms of q and k over all heads."""


def random_weights(config: DecoderConfig, seed: int) -> Tensors:
    """Weights large enough for logits that are not flat; norms about 1, biases about 0."""
    weights: Tensors = {}
    for name, shape in expected_tensors(config).items():
        bound = 0.4 if len(shape) == 1 else 0.2
        drawn = torch.from_numpy(uniform(derive(seed, name), shape, bound))
        weights[name] = drawn + 1.0 if name.endswith("norm.weight") else drawn
    return weights


@cache
def small_decoder(config: DecoderConfig, *, quantised: bool) -> Decoder:
    """The base that tests share; nothing may change it."""
    return build_decoder(config, random_weights(config, 1), NativeKernels(), quantised=quantised)


def held_weights(config: DecoderConfig, *, quantised: bool) -> Tensors:
    """Return `small_decoder`'s weights, rounded to NF4 or bf16 and back where it rounds."""
    weights = random_weights(config, 1)
    if quantised:
        for name in weights:
            if name.endswith("mlp.gate.weight"):
                continue
            if ".layers." in name and weights[name].ndim == 2:
                packed = nf4.quantise(weights[name].numpy(), name=name)
                weights[name] = torch.from_numpy(nf4.dequantise(packed))
            elif weights[name].ndim == 2:
                weights[name] = weights[name].bfloat16().float()
    return weights


def disturb(adapter: Adapter, seed: int) -> None:
    """Make a fresh adapter do something: B is drawn, a magnitude moves by up to a quarter."""
    tensors = values(adapter.slots)
    for name, tensor in tensors.items():
        noise = torch.from_numpy(uniform(derive(seed, name), tuple(tensor.shape), 0.25))
        if name.endswith("lora_B.weight"):
            tensors[name] = noise * 0.1
        elif name.endswith("lora_magnitude_vector"):
            tensors[name] = tensor * (1.0 + noise)
    load(adapter.slots, tensors, source="test")
    adapter.changed()


def sequences(lengths: Sequence[int], config: DecoderConfig, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, config.vocab_size, n).astype(np.int32) for n in lengths]


def full_logprobs(decoder: Decoder, low: LowRanks, tokens: Sequence[np.ndarray]) -> list[torch.Tensor]:
    """log p(v | tokens up to t) of one ragged batch, (T, V) per sequence."""
    kernels, forest = decoder.kernels, Forest.whole([len(t) for t in tokens])
    ids = torch.from_numpy(np.concatenate(tokens).astype(np.int64))
    with torch.no_grad():
        hidden = decoder.hidden(TrainSteps(kernels, forest, low), ids)
        runs = (Run(0, len(ids), low.get(HEAD_PLACE)),)
        logits = forward(kernels, hidden, decoder.head, runs)
    stats = kernels.row_stats(logits, 1.0)
    columns = [
        kernels.gather_logprobs(logits, torch.full((len(ids),), v, dtype=torch.int32), stats)
        for v in range(decoder.config.vocab_size)
    ]
    return list(torch.stack(columns, dim=1).split([len(t) for t in tokens]))


def gradients(session: TrainingSession) -> Tensors:
    """The accumulated gradient under published names, all uses of a weight added."""
    return {name: tensor.clone() for name, tensor in session.optimizer.gradient().items()}


# The other side


def hf_model(
    config: DecoderConfig, weights: Tensors, dtype: torch.dtype = torch.float32, *, apart: bool = False
) -> torch.nn.Module:
    """The transformers model of these weights; with `apart`, its experts are linear layers by themselves."""
    from transformers import AutoConfig, AutoModelForCausalLM

    given = config_values(config, dtype="float32")
    for key in ("architectures", "dtype", "rope_theta", "rope_scaling"):
        del given[key]
    hf_config = AutoConfig.for_model(given.pop("model_type"), **given)
    model = AutoModelForCausalLM.from_config(hf_config, attn_implementation="eager", **_experts(config))
    if apart:
        model = with_experts_apart(model, config)
    else:
        weights = experts_together(weights, config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= ({"lm_head.weight"} if config.tied else set())
    return model.to(dtype).eval()


def _experts(config: DecoderConfig) -> dict[str, str]:
    """Return transformers' option for experts one by one, which works in fp64 too."""
    return {} if config.mixture is None else {"experts_implementation": "eager"}


def experts_together(weights: Tensors, config: DecoderConfig) -> Tensors:
    """The weights as transformers 5 holds them: all experts of a layer in two tensors."""
    if config.mixture is None:
        return weights
    together = {name: tensor for name, tensor in weights.items() if ".experts." not in name}
    for layer in filter(config.sparse, range(config.num_layers)):
        prefix = f"model.layers.{layer}.mlp.experts"
        gate, up, down = (
            torch.stack([weights[f"{prefix}.{e}.{m}_proj.weight"] for e in range(config.mixture.num_experts)])
            for m in ("gate", "up", "down")
        )
        together[f"{prefix}.gate_up_proj"] = torch.cat([gate, up], dim=1)
        together[f"{prefix}.down_proj"] = down
    return together


def peft_model(
    config: DecoderConfig, weights: Tensors, adapter: Adapter, dtype: torch.dtype = torch.float32
) -> torch.nn.Module:
    """The peft model of these weights with `adapter`'s A, B and magnitudes copied in."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(
        r=adapter.spec.rank,
        lora_alpha=adapter.spec.alpha,
        target_modules=list(adapter.targets),
        use_dora=adapter.spec.kind.decomposed,
        lora_dropout=0.0,
        bias="none",
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*tie.*")  # a tied head may be adapted here
        warnings.filterwarnings("ignore", category=FutureWarning)  # between peft and transformers
        apart = config.mixture is not None
        model = get_peft_model(hf_model(config, weights, apart=apart), lora)
    trained = published_parameters(model)
    assert set(trained) == {slot.name for slot in adapter.slots}
    with torch.no_grad():
        for name, tensor in values(adapter.slots).items():
            assert trained[name].shape == tensor.shape
            trained[name].copy_(tensor)
    return model.to(dtype).eval()


def reference_model(adapter: Adapter, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    """The other side's model of `adapter` on `small_decoder` as it is now."""
    config, spec = adapter.decoder.config, adapter.spec
    if spec.kind is AdapterKind.FULL:
        return hf_model(config, values(adapter.slots), dtype)
    return peft_model(config, held_weights(config, quantised=spec.kind.quantised), adapter, dtype)


def published_parameters(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Trainable parameters under the names of our slots."""
    return {
        name.removeprefix("base_model.model.")
        .replace("lora_magnitude_vector.default.weight", "lora_magnitude_vector")
        .replace(".default", ""): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def reference_logprobs(model: torch.nn.Module, tokens: np.ndarray) -> torch.Tensor:
    """log p(v | tokens up to t) of one sequence by itself, (T, V), differentiable."""
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    return torch.log_softmax(model(input_ids=ids).logits[0], dim=-1)


def reference_gradients(
    model: torch.nn.Module, datums: Iterable[Datum], loss: Callable[[torch.Tensor, Datum], torch.Tensor]
) -> Tensors:
    """The gradient of the sum of `loss(logprobs of the targets, datum)` by autograd."""
    model.zero_grad(set_to_none=False)
    for datum in datums:
        targets = torch.from_numpy(datum.inputs["target_tokens"].astype(np.int64))
        logprobs = reference_logprobs(model, datum.tokens).gather(1, targets[:, None])[:, 0]
        loss(logprobs, datum).backward()
    zero = torch.zeros(())
    return {
        name: parameter.grad if parameter.grad is not None else zero.expand(parameter.shape)
        for name, parameter in published_parameters(model).items()
    }


def relative_error(ours: Tensors, reference: Tensors) -> float:
    """The largest ||ours - reference|| / ||reference|| of all tensors; both zero counts as 0."""
    assert set(ours) == set(reference)
    errors = [0.0]
    for name, tensor in ours.items():
        difference = float((tensor.double() - reference[name].double()).norm())
        if difference > 0:
            errors.append(difference / max(float(reference[name].double().norm()), 1e-300))
    return max(errors)


def make_adapter(
    config: DecoderConfig, spec: AdapterSpec, *, active: bool = True, targets: Collection[str] | None = None
) -> Adapter:
    """An adapter on the shared base; `active` disturbs a low-rank one."""
    base = small_decoder(config, quantised=spec.kind.quantised)
    adapter = create_adapter(base, spec, targets=targets)
    if active and spec.kind is not AdapterKind.FULL:
        disturb(adapter, 3)
    return adapter


def weights_sha256(adapter: Adapter) -> str:
    """The hash of all trained tensors by published name."""
    return tensors_sha256({name: t.numpy() for name, t in values(adapter.slots).items()})


def buffers_sha256(session: TrainingSession) -> str:
    """The hash of every buffer's accumulated gradient; a tied head's counts by itself."""
    total = session.optimizer.sums.total()
    return tensors_sha256({f"{i:03d}": grad.numpy() for i, grad in enumerate(total)})


def base_sha256(decoder: Decoder) -> str:
    """The hash of everything a frozen base computes with, NF4 and a tied head included."""
    tensors = {name: t.numpy() for name, t in values(decoder.slots).items()}
    for place, linear in decoder.linears().items():
        for i, base in enumerate(linear.base):
            if isinstance(base, Packed):
                parts = (base.widened(),)
            else:
                parts = (base.value.float(),) if isinstance(base, Weight) else (base.codes, base.absmax)
            for j, part in enumerate(parts):
                tensors[f"{place}.{i}.{j}"] = part.numpy()
    return tensors_sha256(tensors)


def make_datums(
    config: DecoderConfig, lengths: Sequence[int], seed: int, loss: LossName = LossName.CROSS_ENTROPY
) -> list[Datum]:
    """Ragged datums with the inputs of a loss and very uneven masks; equal ones for every loss.

    The first datum counts everywhere, the second at its last token only, the third at its first
    and some others, and so on; every one counts somewhere.
    """
    rng = np.random.default_rng(seed)
    datums: list[Datum] = []
    for i, tokens in enumerate(sequences(lengths, config, seed)):
        n = len(tokens)
        counts = (np.ones(n), np.arange(n) == n - 1, (rng.random(n) < 0.3) | (np.arange(n) == 0))[i % 3].astype(
            np.float32
        )
        inputs = {
            "target_tokens": rng.integers(0, config.vocab_size, n),
            "weights": counts * rng.uniform(0.2, 2.0, n),
            "logprobs": counts * -rng.exponential(4.0, n),
            "advantages": counts * rng.normal(size=n),
            "sequence_ratio_mask": counts,
        }
        columns = {k: v if v.dtype.kind == "i" else v.astype(np.float32) for k, v in inputs.items()}
        datums.append(for_loss(Datum(tokens=tokens, inputs=columns), loss))
    return datums


def for_loss(datum: Datum, loss: LossName) -> Datum:
    """The datum with those of its inputs that `loss` reads."""
    known = (*LOSSES[loss].required, *LOSSES[loss].optional)
    return replace(datum, inputs={n: datum.inputs[n] for n in known if n in datum.inputs})


def cross_entropy(logprobs: torch.Tensor, datum: Datum) -> torch.Tensor:
    """The sum of -w logp, for `reference_gradients`."""
    return -(logprobs * torch.from_numpy(datum.inputs["weights"].astype(np.float64))).sum()
