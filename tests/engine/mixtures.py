"""Small mixtures of experts, and the data that they are tested on."""

from dataclasses import replace
from functools import cache

import numpy as np

from oracles import LLAMA, disturb, random_weights
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.decoder import Decoder
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum

QWEN3_MOE = replace(
    LLAMA,
    family=Family.QWEN3_MOE,
    qk_norm=True,
    num_layers=3,
    max_positions=256,
    mixture=Mixture(num_experts=8, num_active=2, expert_size=40, normalised=True, dense_layers=(1,)),
)
"""Eight experts of which a token takes two, weights that add up to one, a dense layer between."""

OLMOE = replace(
    LLAMA,
    family=Family.OLMOE,
    tied=False,
    qk_norm_whole=True,
    max_positions=256,
    mixture=Mixture(num_experts=24, num_active=5, expert_size=24, normalised=False),
)
"""Many small experts, weights that do not add up to one, norms over all heads together."""

CONFIGS = {"qwen3_moe": QWEN3_MOE, "olmoe": OLMOE}
OF_KINDS = {
    f"{kind}-{name}": (config, kind)
    for name, config in CONFIGS.items()
    for kind in (AdapterKind if config is QWEN3_MOE else (AdapterKind.LORA, AdapterKind.FULL))
}
"""Every kind of adapter on one of them; on the other without those whose base is quantised, or directions normed."""


@cache
def mixture_decoder(config: DecoderConfig, *, quantised: bool = False) -> Decoder:
    """A base that tests share; nothing may change it."""
    return build_decoder(config, random_weights(config, 1), NativeKernels(), quantised=quantised)


def mixture_adapter(config: DecoderConfig, kind: AdapterKind, **changes: bool) -> Adapter:
    """A trained-looking adapter on the shared base, its routers trained too if asked."""
    spec = AdapterSpec(kind=kind, rank=4, seed=5, **changes)
    adapter = create_adapter(mixture_decoder(config, quantised=kind.quantised), spec)
    if kind is not AdapterKind.FULL:
        disturb(adapter, 3)
    return adapter


def scored(sequence: np.ndarray) -> Datum:
    """A datum that scores every token of a sequence but the first."""
    return Datum(tokens=sequence[:-1], inputs={"target_tokens": sequence[1:]})


def forked(config: DecoderConfig, seed: int, *, stems: int = 5) -> list[Datum]:
    """Ragged groups of sequences that share their beginnings."""
    rng = np.random.default_rng(seed)
    data: list[Datum] = []
    for stem in range(stems):
        prompt = rng.integers(0, config.vocab_size, 9 + 5 * stem)
        for _ in range(3):
            answer = rng.integers(0, config.vocab_size, int(rng.integers(2, 14)))
            data.append(scored(np.concatenate([prompt, answer]).astype(np.int32)))
    return data
