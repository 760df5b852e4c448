"""Names of request fields in the clients of each protocol, for error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from tinsmith.types.errors import TinsmithError

E = TypeVar("E", bound=TinsmithError)

Names = Mapping[str, str]
"""Mapping from the engine's names to a client's."""

_OPENAI: Final = {"base_model": "model", "model_path": "model", "num_samples": "n"}
COMPLETION: Final[Names] = MappingProxyType(_OPENAI | {"topk_logprobs": "logprobs", "topk_prompt_logprobs": "logprobs"})
CHAT: Final[Names] = MappingProxyType(
    _OPENAI | {"topk_logprobs": "top_logprobs", "topk_prompt_logprobs": "prompt_logprobs", "prompt": "messages"}
)
TOKENS: Final[Names] = MappingProxyType(_OPENAI | {"topk_logprobs": "logprobs", "prompt": "token_ids"})
RESPONSE: Final[Names] = MappingProxyType(
    _OPENAI | {"prompt": "input", "messages": "input", "max_tokens": "max_output_tokens"}
)
MESSAGE: Final[Names] = MappingProxyType(_OPENAI | {"prompt": "messages", "stop": "stop_sequences"})

_FIELD = re.compile(r"(?:sampling_params\.)?(\w+)")


def as_sent(error: E, names: Names) -> E:
    """Rename an error's field to the one that a client of this protocol sent."""

    def renamed(text: str) -> str:
        found = _FIELD.match(text)
        return names[found[1]] + text[found.end() :] if found and found[1] in names else text

    if error.field is None or renamed(error.field) == error.field:
        return error
    return error.reworded(renamed)
