"""Tokens of a tokenizer and rows of a model's embedding, either of which may be more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids of one model: those below both numbers are known tokens."""

    num_rows: int
    """Number of ids with logits in the model; a row without a token has no text."""
    num_tokens: int
    """Number of ids with text in the tokenizer; a token without a row can be neither read nor sampled."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, num_rows: int) -> Vocabulary:
        """Return the ids of a tokenizer and of a model with this many rows."""
        ids = tokenizer.get_vocab().values()
        return cls(num_rows, 1 + max(ids, default=-1))


def within_rows(backend: Tokenizer, vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer without tokens that lack a row in the model: other tokens spell their texts."""
    from tokenizers import Tokenizer

    values = json.loads(backend.to_str())
    values["added_tokens"] = [added for added in values["added_tokens"] if added["id"] < vocabulary.num_rows]
    values["post_processor"] = None  # it may refer to removed tokens
    model = values["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {piece: token for piece, token in model["vocab"].items() if token < vocabulary.num_rows}
    else:
        model["vocab"] = model["vocab"][: vocabulary.num_rows]
    if "merges" in model:
        known = model["vocab"]
        pairs = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
        model["merges"] = [pair for pair in pairs if all(part in known for part in (*pair, "".join(pair)))]
    return Tokenizer.from_str(json.dumps(values))
