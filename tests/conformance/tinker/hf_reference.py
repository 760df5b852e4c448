"""Results of transformers and peft with the served weights: the oracle of the conformance suite."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray


class HfReference:
    """The served model in transformers, fp32."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def logprobs(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """log p(tokens[t] | tokens[..t-1]) for t >= 1, shape (len(tokens) - 1,)."""
        with torch.no_grad():
            return next_logprobs(self.model, tokens).numpy()


def next_logprobs(model: torch.nn.Module, tokens: Sequence[int]) -> torch.Tensor:
    """The same for any causal language model, with its graph."""
    ids = torch.tensor([list(tokens)])
    logits = model(input_ids=ids[:, :-1]).logits[0]
    return torch.log_softmax(logits.float(), dim=-1).gather(1, ids[0, 1:, None])[:, 0]
