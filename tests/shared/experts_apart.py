"""A mixture as transformers 4 had it, every expert and the router a linear layer: what PEFT can put any adapter on.

transformers 5 holds all experts of a layer in one parameter, where PEFT has LoRA but not DoRA.
"""

import torch
from torch import nn

from tinsmith.models.config import DecoderConfig, Mixture


class Expert(nn.Module):
    """One gated MLP."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """`Qwen3MoeSparseMoeBlock` and `OlmoeSparseMoeBlock` of transformers 4.57."""

    def __init__(self, hidden: int, mixture: Mixture) -> None:
        super().__init__()
        self.mixture = mixture
        self.gate = nn.Linear(hidden, mixture.num_experts, bias=False)
        self.experts = nn.ModuleList(Expert(hidden, mixture.expert_size) for _ in range(mixture.num_experts))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        shares = torch.softmax(self.gate(rows), dim=-1)
        weights, chosen = torch.topk(shares, self.mixture.num_active, dim=-1)
        if self.mixture.normalised:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(rows)
        for index, expert in enumerate(self.experts):
            row, rank = torch.where(chosen == index)
            out = out.index_add(0, row, expert(rows[row]) * weights[row, rank, None])
        return out.reshape(hidden_states.shape)


def with_experts_apart(model: nn.Module, config: DecoderConfig) -> nn.Module:
    """The model with a fresh `Block` in the place of every mixture, and no longer known to PEFT as a mixture."""
    assert config.mixture is not None
    for index, layer in enumerate(model.model.layers):  # pyright: ignore
        if config.sparse(index):
            layer.mlp = Block(config.hidden_size, config.mixture)  # pyright: ignore
    model.config.model_type = "llama"  # pyright: ignore
    return model
