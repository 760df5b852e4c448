"""A comparison of two runs in at most fifteen lines for a person, and as plain values for a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from tinsmith.lab.difference.fields import FieldDifference
from tinsmith.lab.difference.rollouts import RolloutDifference
from tinsmith.lab.difference.runs import Comparison, Difference, Phase
from tinsmith.lab.difference.tensors import TensorDifference
from tinsmith.pages.wording import counted

_FIELDS: Final = 4
"""Lines for the fields of the identity, or of the circumstances."""
_NOTES: Final = 3
_WIDTH: Final = 40
"""Characters of a value that are shown."""

_WHAT: Final = {
    Phase.SAMPLE: "what was sampled",
    Phase.REWARD: "how it was read and rewarded",
    Phase.GRADIENT: "the gradient",
    Phase.OPTIMIZER: "the weights after the optimizer's step",
    Phase.METRICS: "metrics alone, computed beside the training",
    Phase.WEIGHTS: "the hash of the final weights alone",
    Phase.LENGTH: "only one of them goes on from here",
}


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return what was found, the most important first."""
    first = comparison.first
    steps = counted(comparison.steps, "step")
    if first is None:
        lines = [f"equal: {steps}, bit for bit"]
    else:
        told = f"phase {first.phase}: {_WHAT[first.phase]}"
        lines = [f"different: first at step {first.step}, {told}", *_details(first)]
    lines += comparison.notes[:_NOTES]
    lines += _fields("identity", comparison.identity)
    return lines + _fields("circumstances", comparison.circumstances)


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """Return everything that was found, as values of JSON."""
    found = dataclasses.asdict(comparison)
    folders = [str(folder) for folder in comparison.folders]
    return {"equal": comparison.equal, **found, "folders": folders}


def _details(first: Difference) -> Iterator[str]:
    if first.rollout is not None:
        yield from _rollout(first.rollout)
    if first.tensor is not None:
        yield from _tensor(first.tensor)
    if first.metrics:
        yield from _fields("metrics", first.metrics[:2])


def _rollout(found: RolloutDifference) -> Iterator[str]:
    place = f"{found.split}, prompt {found.prompt_id}, sample {found.sample}"
    turn = "" if found.turn is None else f", turn {found.turn}"
    token = "" if found.token is None else f", token {found.token}"
    yield f"  {place}{turn}{token}: {found.field} {_short(found.first)} | {_short(found.second)}"
    extent = f"  in this step: {found.rollouts} of {counted(found.of_rollouts, 'rollout')}"
    yield f"{extent}, {found.tokens} of {counted(found.of_tokens, 'token')}"
    sizes = (("logprob", found.max_logprob), ("reward", found.max_reward))
    told = [f"max |d {name}| {size:.3g}" for name, size in sizes if size is not None]
    if told:
        yield f"  {', '.join(told)}"


def _tensor(found: TensorDifference) -> Iterator[str]:
    substep = f", substep {found.substep}" if found.substep else ""
    yield f"  tensor {found.tensor}{substep}: |a - b| / |a| {_size(found.size)}"
    yield f"  largest: {found.largest}: {_size(found.largest_size)}"
    extent = f"{found.tensors} of {counted(found.of_tensors, 'tensor')}"
    yield f"  in this step: {extent}; all as one vector: {_size(found.all_size)}"


def _size(value: float | None) -> str:
    if value is None:
        return "not known"
    return f"about {value:.2g}" if value > 0.0 else "too small for the sketches"


def _fields(name: str, fields: Sequence[FieldDifference]) -> list[str]:
    shown = fields if len(fields) <= _FIELDS else fields[: _FIELDS - 1]
    lines = [f"{name} {each.name}: {_short(each.first)} | {_short(each.second)}" for each in shown]
    left = len(fields) - len(shown)
    return [*lines, f"{name}: {left} more, see --json"] if left else lines


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = text.replace("\n", " ")
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
