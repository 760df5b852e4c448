"""The mixture that is measured, the prompts it continues, and the texts that are drawn from it once for all sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from torch import Tensor

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import weights_fingerprint, write_folder
from tinsmith.models.slots import values
from tinsmith.models.staging import present
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.studies.moe.seen import Text
from tinsmith.studies.moe.settings import WanderSettings
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, IntArray, LossName
from tinsmith.types.errors import ConfigError
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.seeds import derive

FOLDER: Final = "base"
"""In the study's folder: the mixture as every side reads it."""

_BATCH: Final = 16
"""Sentences of a training step."""
_RATE: Final = 3e-3
_LEAST_PROMPT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredBase:
    """A mixture, and where it lies for those who read it from a folder."""

    config: DecoderConfig
    weights: Mapping[str, Tensor]
    fingerprint: str
    folder: Path


def measured_base(settings: WanderSettings, say: Callable[[str], None]) -> MeasuredBase:
    """Open the mixture, train it if that is asked for, and write it where all sides read it.

    Raises:
        ConfigError: it is no mixture, or its context is too short.
        CheckpointError: its weights are damaged.
    """
    opened = open_base(settings.model, seed=settings.seed)
    config, weights = opened.config, dict(opened.weights)
    if config.mixture is None:
        raise ConfigError(
            "only a mixture of experts has routes",
            field="model",
            value=settings.model,
            allowed="a mixture, such as tinsmith/moe-nano",
        )
    if settings.prompt_tokens + settings.tokens > config.max_positions:
        raise ConfigError(
            "prompt and text do not fit into the model's context",
            field="prompt_tokens, tokens",
            value=(settings.prompt_tokens, settings.tokens),
            allowed=f"{config.max_positions} tokens together",
        )
    if settings.base_steps:
        weights = _trained(settings, config, weights, say)
    fingerprint = weights_fingerprint(weights)
    folder = settings.out / FOLDER / fingerprint[:16]
    if not present(folder).is_dir():
        write_folder(folder, config, weights)
        tokenizer_of(settings.model).save_pretrained(str(folder))
    return MeasuredBase(config=config, weights=weights, fingerprint=fingerprint, folder=folder)


def drawn_texts(settings: WanderSettings, base: MeasuredBase) -> list[Text]:
    """Draw the texts: `samples` of each prompt, one after the other, at temperature 1 by canonical arithmetic."""
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    requests = [
        SampleRequest(
            prompt=prompt,
            params=SamplingParams(seed=derive(settings.seed, "wander", "text", i), max_tokens=settings.tokens, stop=()),
            num_samples=settings.samples,
        )
        for i, prompt in enumerate(_prompts(settings))
    ]
    results = Sampler(base.config, decoder.kernels).sample(requests, [Policy(decoder, {})] * len(requests))
    return [
        Text(prompt=request.prompt, completion=sequence.tokens)
        for request, result in zip(requests, results, strict=True)
        for sequence in result.sequences
    ]


def _prompts(settings: WanderSettings) -> list[IntArray]:
    """Beginnings of sentences that the base was not trained on, of lengths that are drawn."""
    rng = np.random.default_rng(derive(settings.seed, "wander", "prompts"))
    told = _sentences(settings, "prompts", 4 * settings.prompts)
    prompts: list[IntArray] = []
    for i in range(settings.prompts):
        length = int(rng.integers(_LEAST_PROMPT, settings.prompt_tokens + 1))
        prompts.append(np.concatenate(told[4 * i : 4 * i + 4])[:length].astype(np.int32))
    return prompts


def _sentences(settings: WanderSettings, what: str, count: int) -> list[IntArray]:
    tokenizer = tokenizer_of(settings.model)
    texts = builtin_corpus(num_sentences=count, seed=derive(settings.seed, "wander", what))
    return [np.array(tokenizer.encode(text, add_special_tokens=False), np.int32) for text in texts]


def _trained(
    settings: WanderSettings, config: DecoderConfig, weights: Mapping[str, Tensor], say: Callable[[str], None]
) -> dict[str, Tensor]:
    """All weights, trained to continue sentences."""
    decoder: Decoder = build_decoder(config, weights, NativeKernels())
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL)))
    told = _sentences(settings, "training", _BATCH * settings.base_steps)
    for step in range(settings.base_steps):
        loss = session.forward_backward(
            _datums(told[_BATCH * step : _BATCH * (step + 1)]), LossName.CROSS_ENTROPY
        ).metrics["loss:sum"]
        left = (settings.base_steps - step) / settings.base_steps
        session.optim_step(AdamParams(learning_rate=_RATE * left, eps=1e-8, grad_clip_norm=1.0))
        if step == 0 or (step + 1) % 40 == 0 or step + 1 == settings.base_steps:
            say(f"  base: step {step + 1}/{settings.base_steps}, {loss:.3f} nats a token")
    return values(session.adapter.decoder.slots)


def _datums(sentences: Sequence[IntArray]) -> list[Datum]:
    total = sum(len(tokens) - 1 for tokens in sentences)
    return [
        Datum(
            tokens=tokens[:-1],
            inputs={"target_tokens": tokens[1:], "weights": np.full(len(tokens) - 1, 1.0 / total, np.float32)},
        )
        for tokens in sentences
    ]
