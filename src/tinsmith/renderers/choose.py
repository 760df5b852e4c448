"""Default renderer of a tokenizer: its own chat template, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinsmith.renderers.chat import ChatRenderer
from tinsmith.renderers.plain import PlainRenderer
from tinsmith.renderers.renderer import Renderer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def renderer_for(tokenizer: PreTrainedTokenizerBase) -> Renderer:
    """Return the renderer of the tokenizer's chat template, or the plain one if it has none.

    Raises:
        ConfigError: the template cannot be used, or the tokenizer has no end token.
    """
    return ChatRenderer(tokenizer) if tokenizer.chat_template else PlainRenderer(tokenizer)
