"""Chat to tokens and back (floor F1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.renderers.chat import ChatRenderer
from tinsmith.renderers.plain import PlainRenderer
from tinsmith.renderers.renderer import Message, ParsedResponse, Renderer, ResponseOutcome, Role
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "RENDERERS",
    "ChatRenderer",
    "Message",
    "ParsedResponse",
    "PlainRenderer",
    "Renderer",
    "ResponseOutcome",
    "Role",
    "make_renderer",
]

RENDERERS: Final[Mapping[str, Callable[[PreTrainedTokenizerBase], Renderer]]] = MappingProxyType(
    {"chat": ChatRenderer, "plain": PlainRenderer}
)
"""Renderers by name."""


def make_renderer(name: str, tokenizer: PreTrainedTokenizerBase) -> Renderer:
    """Return renderer `name` for `tokenizer`.

    Raises:
        ConfigError: for an unknown name, or an unsuitable tokenizer.
    """
    if name not in RENDERERS:
        raise ConfigError("there is no such renderer", field="renderer", value=name, allowed=RENDERERS)
    return RENDERERS[name](tokenizer)
