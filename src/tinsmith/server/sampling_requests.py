"""Checks of sampling requests before they are accepted, and their encoded results."""

from __future__ import annotations

from tinsmith.engine.bases import Bases
from tinsmith.engine.sequences import Group
from tinsmith.server.access.turns import LARGE
from tinsmith.server.database.records import Finished
from tinsmith.server.wire.conversions import to_sample_request, to_targets
from tinsmith.server.wire.messages import CONTENT_TYPE
from tinsmith.server.wire.requests import Sample
from tinsmith.server.wire.results import encode_sample
from tinsmith.types.errors import InputError, TinsmithError


def size_of(request: Sample) -> int:
    """Estimate the work of checking a request, in bytes: compiling a grammar takes tens of megabytes."""
    settings = request.sampling_params
    grammar = settings.adjustments is not None and settings.adjustments.grammar is not None
    targets = 0 if request.target_prompt_logprobs is None else len(request.target_prompt_logprobs.data)
    num_tokens = sum(len(chunk.tokens) for chunk in request.prompt.chunks)
    return 256 + num_tokens + 8 * targets + (LARGE + 1 if grammar else 0)


def checked(engine: Bases, name: str, request: Sample) -> tuple[int, object]:
    """Return the most tokens of a sample, and the compiled grammar. On any thread.

    Raises:
        InputError: naming the invalid field.
    """
    sample_request = to_sample_request(request, seed=0, most=engine.config(name).max_positions)
    return engine.check(name, sample_request), engine.compiled(name, sample_request)


def outcome_of(request: Sample, group: Group) -> Finished | TinsmithError:
    """Return the encoded result of a finished group, or its error. On any thread."""
    if group.failure is not None or group.result is None:
        return group.failure or InputError("the request was dropped")
    last_n, targets = request.prompt_logprobs_last_n, to_targets(request)
    body = encode_sample(
        group.result, prompt_logprobs_last_n=last_n, targets=targets, cache_hit_tokens=group.num_cached
    )
    return Finished(body=body, media_type=CONTENT_TYPE)


def num_drawn(group: Group) -> int:
    """Return the number of tokens drawn so far, over all samples."""
    return sum(len(sample.tokens) for sample in group.samples)
