"""Small models and data that the engine's tests share."""

import numpy as np
import torch

from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family
from tinsmith.models.decoder import Decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName

VOCAB = 97

CONFIG = DecoderConfig(
    family=Family.LLAMA,
    vocab_size=VOCAB,
    hidden_size=48,
    intermediate_size=80,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    max_positions=256,
    norm_eps=1e-5,
    rope_theta=10_000.0,
    tied=True,
    end_tokens=(0,),
)


def small_decoder(
    kernels: Kernels | None = None, *, config: DecoderConfig = CONFIG, quantised: bool = False, bf16: bool = False
) -> Decoder:
    """A model, of two layers unless said, whose distributions are not flat; with values that bf16 has too."""
    drawn, dtype = initial_weights(config, 0), torch.bfloat16 if bf16 else torch.float32
    sharp = {name: (t * 8 if t.ndim == 2 else t).to(dtype).float() for name, t in drawn.items()}
    return build_decoder(config, sharp, kernels or NativeKernels(), quantised=quantised)


def tokens(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random token ids, none of which ends a sequence."""
    return rng.integers(1, VOCAB, count).astype(np.int32)


def scored(sequence: np.ndarray) -> Datum:
    """A datum that scores every token of a sequence but the first."""
    return Datum(tokens=sequence[:-1], inputs={"target_tokens": sequence[1:]})


def trained(decoder: Decoder, kind: AdapterKind, *, seed: int = 0, rank: int = 4) -> Adapter:
    """An adapter after two real optimizer steps, so that no part of it is zero."""
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=kind, rank=rank, seed=seed)))
    rng = np.random.default_rng(seed)
    for _ in range(2):
        session.forward_backward([scored(tokens(rng, 30))], LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=5e-3))
    return session.adapter


def policy(adapter: Adapter) -> Policy:
    """Sampling through an adapter, unmerged."""
    return Policy(adapter.decoder, adapter.low)
