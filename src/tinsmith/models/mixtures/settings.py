"""Settings of a mixture of experts in a Hugging Face config.json, to and from a `Mixture`.

An unsupported mixture - shared experts, groups of experts, another score than a softmax - is rejected by the name of
its setting.
"""

from __future__ import annotations

from typing import Final, cast

from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.folders.json_keys import Keys

FAMILIES: Final = (Family.QWEN3_MOE, Family.OLMOE)

_COUNTS: Final = ("num_experts", "num_local_experts")
"""Keys of the number of experts: the published one, and the one transformers 5 writes for Qwen3-MoE."""
_SHARED: Final = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "n_shared_experts",
    "num_shared_experts",
    "num_experts_shared",
)
_NEUTRAL: Final[dict[str, tuple[object, ...]]] = {
    "n_group": (1,),
    "topk_group": (1,),
    "routed_scaling_factor": (1, 1.0),
    "scoring_func": ("softmax",),
    "topk_method": ("greedy",),
    "moe_router_enable_expert_bias": (False,),
    "moe_router_use_sigmoid": (False,),
    "num_zero_experts": (0,),
}
"""Settings of other mixtures, with their neutral values."""


def refuse_shared_experts(keys: Keys) -> None:
    """Reject experts that every token takes, whatever the architecture.

    Raises:
        ConfigError: naming their setting.
    """
    for field in _SHARED:
        if keys.values.get(field) not in (None, 0, False):
            raise keys.error("shared experts, which every token takes, are not supported", field, "absent, or 0")


def parse_mixture(keys: Keys, family: Family, num_layers: int) -> Mixture | None:
    """Return the mixture of a model of this family; None for a dense family.

    Raises:
        ConfigError: a setting is missing, invalid or unsupported.
    """
    if family not in FAMILIES:
        return None
    refuse_shared_experts(keys)
    for field, neutral in _NEUTRAL.items():
        if keys.values.get(field) is not None and keys.values[field] not in neutral:
            raise keys.error("this routing is not supported", field, f"absent, or {neutral[0]}")
    if keys.values.get("clip_qkv") is not None:
        raise keys.error("clipped queries and keys are not supported", "clip_qkv", "null")
    qwen3 = family is Family.QWEN3_MOE
    return Mixture(
        num_experts=_num_experts(keys),
        num_active=keys.integer("num_experts_per_tok"),
        expert_size=keys.integer("moe_intermediate_size" if qwen3 else "intermediate_size"),
        normalised=keys.flag("norm_topk_prob"),
        dense_layers=_dense_layers(keys, num_layers) if qwen3 else (),
    )


def mixture_values(config: DecoderConfig) -> dict[str, object]:
    """Return the keys of a config.json for a decoder's mixture; none for a dense one.

    An OLMoE's `intermediate_size` is that of an expert, and is written elsewhere.
    """
    mixture = config.mixture
    if mixture is None:
        return {}
    values: dict[str, object] = {
        "num_experts": mixture.num_experts,
        "num_experts_per_tok": mixture.num_active,
        "norm_topk_prob": mixture.normalised,
    }
    if config.family is Family.OLMOE:
        return {**values, "clip_qkv": None}
    return {
        **values,
        "moe_intermediate_size": mixture.expert_size,
        "decoder_sparse_step": 1,
        "mlp_only_layers": list(mixture.dense_layers),
        "use_sliding_window": False,
        "sliding_window": None,
    }


def _num_experts(keys: Keys) -> int:
    counts = {field: keys.integer(field) for field in _COUNTS if keys.values.get(field) is not None}
    if len(set(counts.values())) > 1:
        raise keys.error("two numbers of experts are given", _COUNTS[1], str(counts[_COUNTS[0]]))
    count = next(iter(counts.values())) if counts else keys.integer(_COUNTS[0])
    if count < 1:
        raise keys.error("a mixture has experts", next(iter(counts)), ">= 1")
    return count


def _dense_layers(keys: Keys, num_layers: int) -> tuple[int, ...]:
    """Return the layers with a dense MLP: those listed, and those that the step skips."""
    field = "mlp_only_layers"
    named = keys.values.get(field) or []
    layers = cast("list[object]", named) if isinstance(named, list) else [None]
    if not all(type(n) is int and 0 <= n < num_layers for n in layers):
        raise keys.error("dense layers are named by number", field, f"a list of 0 to {num_layers - 1}")
    step = keys.integer("decoder_sparse_step", 1)
    if step < 1:
        raise keys.error("every so many layers are mixtures", "decoder_sparse_step", ">= 1")
    return tuple(n for n in range(num_layers) if n in layers or (n + 1) % step)
