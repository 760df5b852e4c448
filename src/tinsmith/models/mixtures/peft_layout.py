"""Adapters of experts in PEFT's two layouts: a pair per expert and matrix, and the fused form of transformers 5.

In the fused form, all experts of a layer are one parameter, whose A is (experts * rank, in) by expert, and whose B is
(out, rank * experts) by rank. Gate and up are one matrix there and share their A; after the split, each has a copy of
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from torch import Tensor

from tinsmith.models.config import DecoderConfig, Mixture
from tinsmith.types.errors import ConfigError

_FUSED: Final = ("gate_up_proj", "down_proj", "gate.weight")
"""Parameters of a mixture that PEFT adapts by name: all experts' matrices, and a router's."""
_NAME: Final = re.compile(r"(model\.layers\.\d+\.mlp\.experts)((?:\.base_layer)*)\.lora_A\.weight")


def check_fused_targets(named: object, file: Path) -> None:
    """Reject adapted parameters of PEFT's that are not a mixture's.

    Raises:
        ConfigError: naming the first of them.
    """
    names = cast("list[object]", named) if isinstance(named, list) else [named]
    for name in names:
        if not (isinstance(name, str) and any(f".{name}".endswith(f".{each}") for each in _FUSED)):
            raise ConfigError(
                f"{file}: this setting of PEFT is not supported",
                field="target_parameters",
                value=name,
                allowed=", ".join(_FUSED),
            )


def refuse_mixed_layers(targets: Iterable[str], *, dora: bool) -> None:
    """Reject an adapter on experts of some layers and on dense MLPs of others, or a DoRA adapter on experts.

    In a model with experts, PEFT on transformers 5 applies `gate_proj` and the like to all experts, and would silently
    ignore those of the dense layers. It has no DoRA of experts, which are parameters and not layers there.

    Raises:
        ConfigError: the adapter has both, or is one of DoRA on experts.
    """
    names = list(targets)
    experts = [name for name in names if ".mlp.experts." in name]
    if experts and dora:
        raise ConfigError(
            "PEFT cannot load a DoRA adapter on experts",
            field="targets",
            value=experts[0],
            allowed="lora and qlora on experts",
            fix="export it as a whole model: --to merged",
        )
    dense = [name for name in names if re.search(r"\.mlp\.(gate|up|down)_proj$", name)]
    if experts and dense:
        raise ConfigError(
            "PEFT cannot load an adapter on both experts and dense layers",
            field="targets",
            value=dense[0],
            allowed="adapters on one of them",
            fix="export it as a whole model: --to merged",
        )


def experts_apart(tensors: Mapping[str, Tensor], config: DecoderConfig) -> dict[str, Tensor]:
    """Return an adapter's tensors with fused experts split, and the others unchanged.

    A pair that fits no expert's matrix is left to the later check of names and shapes.
    """
    apart = dict(tensors)
    for name in tensors:
        match = _NAME.fullmatch(name)
        if match is None or config.mixture is None:
            continue
        a, b = tensors[name], tensors.get(f"{match[1]}{match[2]}.lora_B.weight")
        matrices = None if b is None else _matrices(a, b, config.hidden_size, config.mixture)
        if b is None or matrices is None:
            continue
        del apart[name], apart[f"{match[1]}{match[2]}.lora_B.weight"]
        experts = config.mixture.num_experts
        a_by_expert = a.reshape(experts, -1, a.shape[1])
        b_by_expert = b.reshape(len(matrices), b.shape[0] // len(matrices), -1, experts)
        for e in range(experts):
            for i, matrix in enumerate(matrices):
                key = f"{match[1]}.{e}.{matrix}"
                apart[f"{key}.lora_A.weight"] = a_by_expert[e].contiguous()
                apart[f"{key}.lora_B.weight"] = b_by_expert[i, :, :, e].contiguous()
    return apart


def _matrices(a: Tensor, b: Tensor, hidden: int, mixture: Mixture) -> tuple[str, ...] | None:
    """Return the names of an expert's matrices that a pair adapts, by its input and output sizes, or None."""
    if a.shape[0] % mixture.num_experts or a.shape[0] != b.shape[1]:
        return None
    inner = mixture.expert_size
    return {(hidden, 2 * inner): ("gate_proj", "up_proj"), (inner, hidden): ("down_proj",)}.get(
        (a.shape[1], b.shape[0])
    )
