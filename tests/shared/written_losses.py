"""Losses as users write them for `create_custom_loss`, in torch; each with the ranks of its parameters."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

Returned = tuple[torch.Tensor, dict[str, torch.Tensor]]
Written = Callable[..., Returned]


def importance_sampling(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = torch.exp(logprobs - old)
    loss = -(ratio * advantages).sum()
    return loss, {"custom/ratio:mean": ratio.mean(), "custom/tokens:sum": (advantages != 0).sum()}


def ppo(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = torch.exp(logprobs - old)
    clipped = torch.clamp(ratio, 0.8, 1.2)
    loss = -torch.min(ratio * advantages, clipped * advantages).sum()
    return loss, {"custom/clipped:sum": (ratio != clipped).sum()}


def cispo(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = torch.exp(logprobs - old).clamp(0.0, 4.0).detach()
    return -(ratio * logprobs * advantages).sum(), {}


def dro(logprobs: Any, old: Any, advantages: Any) -> Returned:
    loss = -(logprobs * advantages - 0.5 * 0.05 * (logprobs - old) ** 2).sum()
    return loss, {"custom/distance:mean": (logprobs - old).abs().mean()}


def gspo(logprobs: Any, old: Any, advantages: Any, mask: Any) -> Returned:
    inside = mask != 0
    log_ratio = (logprobs.detach() - old)[inside].mean()
    ratio = torch.exp(log_ratio + logprobs - logprobs.detach())
    bound = ratio.clamp(min=0.8, max=1.2)
    return -torch.minimum(ratio * advantages, bound * advantages).sum(), {"custom/s:mean": log_ratio}


def clip_higher(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = (logprobs - old).exp()
    surrogate = torch.where(advantages >= 0, ratio.clamp(max=1.28) * advantages, ratio.clamp(min=0.8) * advantages)
    tokens = (advantages != 0).float().sum().clamp(min=1.0)
    return -surrogate.sum() / tokens, {}


def topr(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = torch.exp((logprobs - old).sum())
    weight = torch.where(advantages > 0, torch.ones_like(advantages), ratio.clamp(0, 1)).detach()
    return -(weight * advantages * logprobs).sum(), {"custom/ratio:mean": ratio}


def preference(logprobs: Any, reference: Any, chosen: Any, beta: Any) -> Returned:
    difference = logprobs - reference
    margin = (difference * chosen).sum() - (difference * (1 - chosen)).sum()
    return -F.logsigmoid(beta * margin), {"custom/margin:mean": margin, "custom/correct:mean": (margin > 0).float()}


def label_smoothing(logprobs: Any, weights: Any) -> Returned:
    count = logprobs.shape[-1]
    smooth = 0.9 * weights + 0.1 / count
    return -(smooth * logprobs).sum(dim=-1).sum(), {}


def distillation(logprobs: Any, teacher: Any) -> Returned:
    """KL over K candidates, both renormalised."""
    student, target = F.log_softmax(logprobs, dim=-1), torch.log_softmax(teacher, -1)
    kl = (target.exp() * (target - student)).sum(-1)
    return kl.sum(), {"custom/kl:mean": kl.mean(), "custom/worst:mean": kl.max()}


def entropy_weighted(logprobs: Any, advantages: Any) -> Returned:
    probs = logprobs.exp()
    entropy = -(probs * logprobs)
    weight = entropy / (entropy.mean() + 1e-6)
    return -(weight.detach() * advantages * logprobs).sum() - 0.01 * entropy.sum(), {}


def kl_penalised(logprobs: Any, old: Any, reference: Any, advantages: Any) -> Returned:
    ratio = torch.exp(logprobs - old)
    away = reference - logprobs
    k3 = torch.expm1(away) - away
    mask = (advantages != 0).to(logprobs.dtype)
    loss = -(torch.min(ratio, ratio.clamp(0.8, 1.2)) * advantages - 0.1 * k3 * mask)
    return loss.sum(), {"custom/k3:sum": (k3 * mask).sum()}


def length_normalised(logprobs: Any, weights: Any) -> Returned:
    length = weights.sum().clamp_min(1.0)
    return -(logprobs * weights).sum() / length / math.sqrt(logprobs.shape[0]), {}


def focal(logprobs: Any, weights: Any, gamma: Any) -> Returned:
    return -(weights * (1 - logprobs.exp()).pow(gamma) * logprobs).sum(), {}


def unlikelihood(logprobs: Any, weights: Any) -> Returned:
    positive, negative = weights > 0, weights < 0
    unlikely = torch.log1p(-torch.exp(logprobs).clamp(max=1 - 1e-6))
    chosen = torch.where(positive, logprobs, torch.zeros_like(logprobs))
    return -(chosen + unlikely.masked_fill(~negative, 0.0)).sum(), {}


def best_of_candidates(logprobs: Any, rewards: Any, target_tokens: Any) -> Returned:
    best = rewards.max(dim=-1)
    place = best.indices.unsqueeze(-1)
    taken = logprobs.gather(1, place).squeeze(1)
    same = (target_tokens == target_tokens[:, :1]).all(dim=1)
    return -(taken * best.values)[~same].mean(), {"custom/reward:mean": best.values.mean()}


def sequence_level(logprobs: Any, old: Any, advantages: Any) -> Returned:
    later = (logprobs - old).flip(0).cumsum(0).flip(0)
    advantage = (advantages - advantages.mean()) / (advantages.std() + 1e-4)
    return -(torch.sigmoid(later) * advantage)[1:].sum() + F.softplus(later[-1]), {}


def smooth_clip(logprobs: Any, old: Any, advantages: Any) -> Returned:
    ratio = torch.exp(logprobs - old)
    gate = 1 + torch.tanh(ratio - 1) * 0.2
    penalty = F.relu(ratio - 2.0).square() + torch.sqrt(ratio + 0.01) * 0.001
    spread = torch.stack([gate, ratio], dim=-1).logsumexp(-1)
    return (penalty - gate * advantages + 0.1 * spread).sum(), {"custom/gate:mean": gate.mean()}


WRITTEN: Mapping[str, tuple[Written, Mapping[str, int]]] = {
    "importance_sampling": (importance_sampling, {"logprobs": 1, "old": 1, "advantages": 1}),
    "ppo": (ppo, {"logprobs": 1, "old": 1, "advantages": 1}),
    "cispo": (cispo, {"logprobs": 1, "old": 1, "advantages": 1}),
    "dro": (dro, {"logprobs": 1, "old": 1, "advantages": 1}),
    "gspo": (gspo, {"logprobs": 1, "old": 1, "advantages": 1, "mask": 1}),
    "clip_higher": (clip_higher, {"logprobs": 1, "old": 1, "advantages": 1}),
    "topr": (topr, {"logprobs": 1, "old": 1, "advantages": 1}),
    "preference": (preference, {"logprobs": 1, "reference": 1, "chosen": 1, "beta": 0}),
    "label_smoothing": (label_smoothing, {"logprobs": 2, "weights": 2}),
    "distillation": (distillation, {"logprobs": 2, "teacher": 2}),
    "entropy_weighted": (entropy_weighted, {"logprobs": 1, "advantages": 1}),
    "kl_penalised": (kl_penalised, {"logprobs": 1, "old": 1, "reference": 1, "advantages": 1}),
    "length_normalised": (length_normalised, {"logprobs": 1, "weights": 1}),
    "focal": (focal, {"logprobs": 1, "weights": 1, "gamma": 0}),
    "unlikelihood": (unlikelihood, {"logprobs": 1, "weights": 1}),
    "best_of_candidates": (best_of_candidates, {"logprobs": 2, "rewards": 2, "target_tokens": 2}),
    "sequence_level": (sequence_level, {"logprobs": 1, "old": 1, "advantages": 1}),
    "smooth_clip": (smooth_clip, {"logprobs": 1, "old": 1, "advantages": 1}),
}
