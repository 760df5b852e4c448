"""Display names of metrics, rewards, contracts, outcomes and losses, others as they are, and p-values in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_METRICS: Final = {
    "label_match": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "min_class_recall": "smallest recall",
    "parse_ok": "valid JSON",
    "format_strict_ok": "exact form",
    "invalid_rate": "invalid answers",
    "exact_match": "both labels right",
}
_REWARDS: Final = {
    "soft": "right label, mild",
    "strong": "right label",
    "exp5": "right label, the first class threefold",
    "macro_f1": "macro-F1",
    "prior_matching": "right label, known shares",
    "dual": "right label, every recall above a limit",
    "g_mean": "product of recalls",
    "inverse_share": "right label, rare ones more",
}
_CONTRACTS: Final = {
    "two_key": "JSON with two keys",
    "three_key": "JSON with three keys",
    "four_key": "JSON with four keys",
    "five_key": "JSON with five keys",
}
_OUTCOMES: Final = {
    "ok": "valid",
    "empty": "empty",
    "think": "thought in the answer",
    "fenced": "fenced text, not JSON",
    "not_json": "not JSON",
    "not_object": "JSON, but no object",
    "bad_keys": "wrong keys",
    "bad_label": "unknown label",
    "bad_confidence": "unknown confidence",
    "bad_value": "wrong kind of value",
}
_LOSSES: Final = {
    "cross_entropy": "cross-entropy",
    "importance_sampling": "importance sampling",
    "ppo": "PPO",
    "cispo": "CISPO",
    "dro": "DRO",
    "gspo": "GSPO",
}
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"loss_fn": _LOSSES, "contract": _CONTRACTS, "select_by": _METRICS}
)


def metric_name(name: str) -> str:
    """Return the name of a metric of metrics.jsonl.

    >>> metric_name("macro_f1"), metric_name("reward")
    ('macro-F1', 'reward')
    """
    return _METRICS.get(name, name)


def reward_name(name: str) -> str:
    """Return the name of a reward on labels."""
    return _REWARDS.get(name, name)


def contract_name(name: str) -> str:
    """Return the name of a contract, independent of its question.

    >>> contract_name("disruption/two_key")
    'JSON with two keys'
    """
    return _CONTRACTS.get(name.rpartition("/")[2], name)


def outcome_name(name: str) -> str:
    """Return the name of an answer's outcome."""
    return _OUTCOMES.get(name, name)


def setting_text(key: str, value: str) -> str:
    """Return a setting's value for a page: the name, followed by the code for commands.

    >>> setting_text("task.contract", "two_key"), setting_text("steps", "20")
    ('JSON with two keys (two_key)', '20')
    """
    name = _SETTINGS.get(key.rpartition(".")[2], {}).get(value.rpartition("/")[2], value)
    return value if name == value else f"{name} ({value})"


_NOISE: Final = 1e-9  # Nothing smaller is told from 0: it is what sums of floats leave.


def decimals(value: float, form: str = ".3f") -> str:
    """Return a figure with its decimals, and with its first digit where they would show it as 0.

    >>> decimals(0.5), decimals(0.0002), decimals(-0.0002, "+.3f"), decimals(-1e-12), decimals(0.0, "+.3f")
    ('0.500', '0.0002', '-0.0002', '0.000', '0.000')
    """
    shown = format(value, form)
    if float(shown) != 0.0:
        return shown
    return format(value, f"{'+' * form.startswith('+')}.1g") if abs(value) >= _NOISE else shown.lstrip("+-")


def p_words(p_value: float) -> str:
    """Return a p-value in words.

    >>> p_words(0.03125), p_words(1.0), p_words(3e-9)
    ('p = 0.031', 'p = 1.000', 'p < 0.0001')
    """
    if p_value < 1e-4:
        return "p < 0.0001"
    return f"p = {p_value:.4f}" if p_value < 0.001 else f"p = {p_value:.3f}"


def p_cell(p_value: float) -> str:
    """Return a p-value in a table's cell, as 0.031 or < 0.0001."""
    return p_words(p_value).removeprefix("p ").removeprefix("= ")
