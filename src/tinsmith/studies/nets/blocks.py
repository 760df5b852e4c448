"""Blocks, masks and training of small nets in plain torch, fp32, one thread: the same figures on one machine only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tinsmith.types.fingerprints import tensors_sha256


class Block(nn.Module):
    """A pre-norm block: attention over (batch, tokens, width) with an additive mask (tokens, tokens), then a GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x after the block."""
        batch, tokens, width = x.shape
        each = width // self.heads
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, self.heads, each).permute(2, 0, 3, 1, 4)
        attended = (q @ k.transpose(-1, -2) * each**-0.5 + mask).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Ends(nn.Module):
    """Embeddings of tokens and places, and the head."""

    def __init__(self, vocabulary: int, tokens: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def enter(self, tokens: Tensor) -> Tensor:
        """Return the embedded tokens."""
        return self.embedding(tokens) + self.places[: tokens.shape[1]]

    def leave(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.norm(x))


class Decoder(nn.Module):
    """Blocks, one after the other, between two ends."""

    def __init__(self, vocabulary: int, tokens: int, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.ends = Ends(vocabulary, tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return logits (batch, tokens, vocabulary)."""
        x = self.ends.enter(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.ends.leave(x)


def causal_mask(tokens: int, prefix: int = 0) -> Tensor:
    """Return an additive mask: each token attends to earlier ones, those of the prefix to all of the prefix."""
    mask = torch.triu(torch.full((tokens, tokens), -1e9), 1)
    mask[:prefix, :prefix] = 0.0
    return mask


def block_flops(tokens: int, width: int) -> int:
    """Return the FLOPs of a block's products in one pass forward over a text; backward costs two more."""
    return tokens * (24 * width * width + 4 * tokens * width)


class Descent:
    """AdamW on some parameters, with a rate that rises over 5 % of the training and falls to a tenth."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float) -> None:
        self.rate, self.parameters, self.steps = rate, [one for one in parameters if one.requires_grad], 0
        self.optimizer = torch.optim.AdamW(self.parameters, lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    def step(self, logits: Tensor, targets: Tensor, progress: float) -> float:
        """Take a step on the mean cross-entropy, `progress` of the way through; return the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, 20.0 * progress + 0.01) * (1.0 - 0.9 * progress)
        loss = functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.steps += 1
        return loss.item()


def continued(forward: Callable[[Tensor], Tensor], texts: Tensor, answer: int) -> Tensor:
    """Return the texts with the greedy continuation of each prompt in place of the last `answer` tokens."""
    drawn = texts.clone()
    drawn[:, -answer:] = 0
    with torch.no_grad():
        for place in range(texts.shape[1] - answer, texts.shape[1]):
            drawn[:, place] = forward(drawn[:, :-1])[:, place - 1].argmax(-1)
    return drawn


def answered(forward: Callable[[Tensor], Tensor], texts: Tensor, answer: int) -> Tensor:
    """Return for each text whether the greedy continuation of its prompt is its last `answer` tokens."""
    return (continued(forward, texts, answer) == texts).all(1)


def sha256_of_weights(net: nn.Module) -> str:
    """Return the SHA-256 of all weights by sorted name."""
    return tensors_sha256({name: one.detach().numpy() for name, one in net.state_dict().items()})
