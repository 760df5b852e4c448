"""Forgetting: a model's likelihood of fixed general texts before and after training.

The texts are questions with good answers, on everyday things; they were written for this and are in no benchmark. A
model that learns one thing at the cost of others gives their answers less probability than its base does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import fmean
from typing import TypedDict, cast

import tinker
from tinker import types

from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.service.official_client import text_logprobs
from tinsmith.renderers.renderer import Message, Renderer, Role


class GeneralChange(TypedDict):
    """Mean log-probability of the tokens of a text's answer, in nats."""

    name: str
    tokens: int  # Of the answer, with the one that ends it.
    before: float  # By the base.
    after: float  # By the trained model.


@cache
def general_texts() -> Sequence[Mapping[str, str]]:
    """Return all texts in their fixed order: `name`, `prompt` and `answer`."""
    text = (resources.files("tinsmith.lab") / "general_texts.json").read_text("utf-8")
    return cast(list[dict[str, str]], json.loads(text))


def general_changes(
    base: tinker.SamplingClient, trained: tinker.SamplingClient, renderer: Renderer
) -> list[GeneralChange]:
    """Score every text with both models, with all requests in flight at once."""
    texts = general_texts()
    read = [_tokens(renderer, one["prompt"], one["answer"]) for one in texts]
    futures = [
        [client.compute_logprobs(types.ModelInput.from_ints(list(tokens))) for tokens, _ in read]
        for client in (base, trained)
    ]
    means = [
        [
            fmean(each for each in text_logprobs(one.result(WAIT_SECONDS), len(tokens))[start:] if each is not None)
            for one, (tokens, start) in zip(pending, read, strict=True)
        ]
        for pending in futures
    ]
    return [
        GeneralChange(name=one["name"], tokens=len(tokens) - start, before=before, after=after)
        for one, (tokens, start), before, after in zip(texts, read, *means, strict=True)
    ]


def general_metrics(changes: Sequence[GeneralChange]) -> Mapping[str, float]:
    """Return the mean over texts of the likelihood after training, and of its change."""
    count = len(changes)
    return {
        "eval/general/logprob": math.fsum(one["after"] for one in changes) / count,
        "eval/general/change": math.fsum(one["after"] - one["before"] for one in changes) / count,
    }


def _tokens(renderer: Renderer, prompt: str, answer: str) -> tuple[tuple[int, ...], int]:
    """Return a text's tokens, and the length of its prompt."""
    messages = (Message(role=Role.USER, content=prompt), Message(role=Role.ASSISTANT, content=answer))
    tokens, weights = renderer.build_supervised_example(messages)
    return tokens, sum(weight == 0.0 for weight in weights)
