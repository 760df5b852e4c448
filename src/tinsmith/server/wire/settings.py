"""Settings inside JSON requests; an unknown field is an error."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from tinsmith.server.wire.body import Finite, Int32, SeqId, Settings, TokenId
from tinsmith.server.wire.bounds import FailFast
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind


class OptimizerSettings(BaseModel):
    """Settings of the optimizer; there is one kind."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())
    type: str = "adamw"

    @model_validator(mode="after")
    def _is_adamw(self) -> Self:
        if self.type != "adamw" or self.model_extra:
            raise InputError(
                "this optimizer is not supported",
                field="optimizer_config",
                value={"type": self.type, **(self.model_extra or {})},
                allowed="{'type': 'adamw'}",
            )
        return self


class LoraSettings(Settings):
    """Adapter requested by a training client."""

    rank: Int32
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class AdamSettings(Settings):
    """Settings of one optimizer step."""

    learning_rate: Finite = 1e-4
    beta1: Finite = 0.9
    beta2: Finite = 0.95
    eps: Finite = 1e-12
    weight_decay: Finite = 0.0
    grad_clip_norm: Finite = 0.0


class GrammarSettings(Settings):
    """Constraint that a whole completion must match."""

    kind: GrammarKind
    text: str = ""


class AdjustmentSettings(Settings):
    """Adjustments of the distribution; see `types.sampling.Adjustments`."""

    min_p: Finite = 0.0
    repetition_penalty: Finite = 1.0
    presence_penalty: Finite = 0.0
    frequency_penalty: Finite = 0.0
    logit_bias: FailFast[tuple[tuple[TokenId, Finite], ...]] = ()
    grammar: GrammarSettings | None = None


_Counts = FailFast[tuple[SeqId, ...]]


class TensorSettings(Settings):
    """Tensor in JSON: dense, or sparse by rows (CSR)."""

    data: FailFast[tuple[int, ...]] | FailFast[tuple[float, ...]]
    dtype: str
    shape: _Counts | None = None
    sparse_crow_indices: _Counts | None = None
    sparse_col_indices: _Counts | None = None


class SamplingSettings(Settings):
    """Settings for drawing tokens."""

    max_tokens: Int32 | None = None
    seed: int | None = None
    stop: JsonValue = None
    """None | str | [str] | [int]."""
    temperature: Finite = 1.0
    top_k: Int32 = -1
    top_p: Finite = 1.0
    adjustments: AdjustmentSettings | None = None
    """Not sent by the Tinker SDK; for other protocols and custom clients."""


class PromptChunk(BaseModel):
    """Piece of a prompt; only text is supported."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str = "encoded_text"
    tokens: FailFast[tuple[TokenId, ...]] = ()

    @model_validator(mode="after")
    def _is_text(self) -> Self:
        if self.type != "encoded_text" or self.model_extra:
            raise InputError(
                "only text is supported here",
                field="prompt.chunks",
                value=f"{self.type} with {', '.join(self.model_extra or {}) or 'tokens'}",
                allowed="chunks {'type': 'encoded_text', 'tokens': [...]}",
            )
        return self


class Prompt(Settings):
    """Prompt in pieces, concatenated in order."""

    chunks: FailFast[tuple[PromptChunk, ...]]
