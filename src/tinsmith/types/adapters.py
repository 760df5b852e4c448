"""Adapter settings of a training session: kind, rank, scale and targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import LATER

ALPHA = 32.0
"""Default of LoRA's alpha: Tinker's, with which the best learning rate hardly depends on the rank."""

MAX_RANK = 1024


class AdapterKind(StrEnum):
    """Kind of a session's trainable weights; also the suffix of a base model's name."""

    LORA = "lora"
    DORA = "dora"
    QLORA = "qlora"
    QDORA = "qdora"
    FULL = "full"

    @property
    def quantised(self) -> bool:
        """True if the base's linear weights are stored as NF4."""
        return self in (AdapterKind.QLORA, AdapterKind.QDORA)

    @property
    def decomposed(self) -> bool:
        """True for DoRA: a trained magnitude beside the low-rank direction."""
        return self in (AdapterKind.DORA, AdapterKind.QDORA)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSpec:
    """Everything that, with a base model, determines a fresh adapter bit for bit."""

    kind: AdapterKind = AdapterKind.LORA
    rank: int = 32
    """Rank of A and B; ignored by FULL, where it must stay 0 or the default."""
    seed: int = 0
    """Seed of A's initial values; B starts at zero."""
    alpha: float = ALPHA
    """Numerator of the scale: the low-rank product is scaled by alpha / rank."""
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True
    train_router: bool = field(default=False, metadata=LATER)
    """True to train a mixture's routers too; FULL always trains them."""

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= MAX_RANK:
            raise ConfigError("this rank is not possible", field="rank", value=self.rank, allowed=f"1 to {MAX_RANK}")
        if not 0 < self.alpha < math.inf:
            raise ConfigError("alpha must be above 0", field="alpha", value=self.alpha, allowed="> 0, finite")
        if self.kind is AdapterKind.FULL and self.alpha != ALPHA:
            raise ConfigError("full has no alpha", field="alpha", value=self.alpha)
        parts = (self.train_attn, self.train_mlp, self.train_unembed)
        if self.kind is AdapterKind.FULL and self.train_router:
            raise ConfigError(
                "full trains every weight, the routers too",
                field="train_router",
                value=True,
                allowed="false with kind=full",
            )
        if self.kind is AdapterKind.FULL and not all(parts):
            raise ConfigError(
                "full trains every weight",
                field="train_attn, train_mlp, train_unembed",
                value=parts,
                allowed="all true with kind=full",
            )
        if not any((*parts, self.train_router)):
            raise ConfigError(
                "nothing would be trained",
                field="train_attn, train_mlp, train_unembed",
                value=False,
                allowed="at least one of them true",
            )

    @property
    def scaling(self) -> float:
        """Alpha / rank."""
        return self.alpha / self.rank
