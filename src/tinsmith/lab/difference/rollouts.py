"""First difference of two runs: values and tensors by name, rollouts by sample, answer and reward."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import msgspec

from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE
from tinsmith.types.sketches import distance

ABSENT = "absent"  # Placeholder for a value that one of the records lacks.


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A value that is another in the second record."""

    name: str
    first: object
    second: object


def unequal_fields(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[FieldDifference, ...]:
    """Return the unequal values by name, sorted; of two lists only the elements missing in the other."""
    one, two = dict(_flat(first, "")), dict(_flat(second, ""))
    found: list[FieldDifference] = []
    for name in sorted({*one, *two}):
        a, b = one.get(name, ABSENT), two.get(name, ABSENT)
        if not same(a, b):
            if isinstance(a, list) and isinstance(b, list):
                a, b = _without(a, b), _without(b, a)
            found.append(FieldDifference(name=name, first=a, second=b))
    return tuple(found)


def same(a: object, b: object) -> bool:
    """True if two values of JSON are written alike: 1 is not 1.0, and 0.0 is not -0.0."""
    return type(a) is type(b) and repr(a) == repr(b)


def _flat(record: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(cast(Mapping[str, object], value), f"{above}{key}.")
        else:
            yield above + key, value


def _without(values: list[object], others: list[object]) -> list[object]:
    """Return the values missing in the other list; all values if only the order differs."""
    return [value for value in values if value not in others] or values


_ROUNDED: Final = 1e-6  # Norms of equal values may be summed in another order, where the arithmetic is fast.

Marks = Mapping[str, object]  # By tensor: `sha256`, `norm` and `sketch`, as a line of the trace has them.


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDifference:
    """First unequal tensor by name, with the size of the difference.

    A size is ||a - b|| / ||a||, estimated from sketches (by about a quarter either way); None where a value is not
    finite, where one run does not have the tensor, or where a is all zeros.
    """

    substep: int  # Which of the step's optimizer steps.
    tensor: str
    size: float | None
    largest: str  # The tensor with the largest size.
    largest_size: float | None
    all_size: float | None  # Of all tensors as one vector.
    tensors: int  # Unequal ones.
    of_tensors: int


def unequal_tensors(substep: int, first: Marks, second: Marks) -> TensorDifference | None:
    """Compare the gradient or weight hashes of one optimizer step; None if all are equal."""
    names = sorted({*first, *second})
    unequal = [name for name in names if _is_unequal(*(_mark(each, name) for each in (first, second)))]
    if not unequal:
        return None
    apart = {name: _apart(first, second, name) for name in names}
    sizes = {name: _size(*each) if (each := apart[name]) else None for name in unequal}
    largest = max(unequal, key=lambda name: sizes[name] or 0.0)
    known = [each for each in apart.values() if each is not None]
    whole = _size(math.hypot(*(distance for distance, _ in known)), math.hypot(*(norm for _, norm in known)))
    return TensorDifference(
        substep=substep,
        tensor=unequal[0],
        size=sizes[unequal[0]],
        largest=largest,
        largest_size=sizes[largest],
        all_size=whole if len(known) == len(names) else None,
        tensors=len(unequal),
        of_tensors=len(names),
    )


def _mark(marks: Marks, name: str) -> Mapping[str, object]:
    return cast(Mapping[str, object], marks.get(name) or {})


def _is_unequal(one: Mapping[str, object], two: Mapping[str, object]) -> bool:
    """Return True if two marks are of other values, or one of them has a norm or a sketch that is not of its own."""
    norms = [each for each in (one.get("norm"), two.get("norm")) if isinstance(each, int | float)]
    is_other = any(one.get(name) != two.get(name) for name in ("sha256", "sketch"))
    return is_other or not math.isclose(norms[0], norms[-1], rel_tol=_ROUNDED) if norms else is_other


def _size(distance: float, norm: float) -> float | None:
    return distance / norm if norm > 0.0 else None


def _apart(first: Marks, second: Marks, name: str) -> tuple[float, float] | None:
    a, b = (_mark(marks, name) for marks in (first, second))
    one, two = (cast(list[float] | None, mark.get("sketch")) for mark in (a, b))
    norm = a.get("norm")
    if one is None or two is None or len(one) != len(two) or not isinstance(norm, int | float):
        return None
    return distance(one, two), float(norm)


Timeline = Mapping[int, list[bytes]]  # Whole lines by step, ascending, each step's in the file's order.

Line = Mapping[str, object]


class _Dated(msgspec.Struct, frozen=True):
    step: int


_DATED = msgspec.json.Decoder(_Dated)
_WHOLE = msgspec.json.Decoder(dict[str, object])


def timeline(file: Path, steps: int | None) -> Timeline:
    """Read a file's lines by step, up to `steps` (None: all); a missing file is empty.

    The test of an earlier checkpoint is written at the end of a run, under that checkpoint's step: a line belongs to
    the latest step that stands in it or before it.
    """
    if not file.is_file():
        return {}
    lines: dict[int, list[bytes]] = {}
    now = 0
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                now = max(now, _DATED.decode(line).step)
            except UNREADABLE as error:
                raise DataError(f"{file}: line {number} is damaged: {error}") from None
            if steps is not None and now >= steps:
                break
            lines.setdefault(now, []).append(line)
    return lines


def decode(line: bytes) -> Line:
    """Decode a line."""
    return _WHOLE.decode(line)


_PLACE: Final = ("step", "split", "prompt_id", "sample")
_SAMPLED: Final = ("tokens", "logprobs", "turns", "text", "failure")
"""Rollout fields determined by sampling; the other fields are derived from them."""
_JUDGE: Final = "judge"
"""Failure location of a sampled response without verdicts; its line does not contain the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDifference:
    """First unequal rollout of a step, in the first run's order, with the size of the difference."""

    split: str  # `train`, or the evaluation.
    prompt_id: str
    sample: int
    field: str  # `tokens`, `logprobs`, `terms.task`, ...; `rollout` where only one run has it.
    token: int | None = None  # The place in the answer, where the field has one.
    turn: int | None = None  # The turn, where there are several.
    first: object
    second: object  # The values there.
    rollouts: int = 0  # Unequal ones in this step.
    of_rollouts: int = 0
    tokens: int = 0  # Places with another token, or other bits of its log-probability.
    of_tokens: int = 0
    max_logprob: float | None = None
    """Largest |difference| of a token's log-probabilities after equal tokens, in nats."""
    max_reward: float | None = None  # Largest |difference| of total rewards.


_Pair = tuple[Line | None, Line | None]
_Find = Callable[[_Pair], RolloutDifference | None]


def unequal_lines(first: Sequence[Line], second: Sequence[Line]) -> tuple[RolloutDifference | None, bool]:
    """Return the first difference of a step's rollouts, and True if it is in sampling or in their order.

    Fields derived from the samples are compared where these are equal. Lines are paired by split, prompt, sample and
    occurrence.
    """
    ones, twos = dict(_keyed(first)), dict(_keyed(second))
    pairs = [(ones.get(key), twos.get(key)) for key in {**ones, **twos}]
    if (found := _first(pairs, _sampled)) is not None:
        return found, True
    for one, two in zip(first, second, strict=False):
        a, b = ([line.get(name) for name in _PLACE] for line in (one, two))
        if a != b:
            return _difference((one, two), "order", a, b), True
    return _first(pairs, _rewarded), False


def _keyed(lines: Sequence[Line]) -> Iterator[tuple[tuple[object, ...], Line]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for line in lines:
        key = tuple(line.get(name) for name in _PLACE)
        yield (*key, counts[key]), line
        counts[key] += 1


def _first(pairs: Sequence[_Pair], find: _Find) -> RolloutDifference | None:
    found = [each for pair in pairs if (each := find(pair)) is not None]
    if not found:
        return None
    changes = [_changes(one, two) for one, two in pairs if one and two and not _unjudged((one, two))]
    tokens, of_tokens, logprobs, rewards = zip(*changes, strict=True) if changes else ((), (), (), ())
    return replace(
        found[0],
        rollouts=len(found),
        of_rollouts=len(pairs),
        tokens=sum(tokens),
        of_tokens=sum(of_tokens),
        max_logprob=max((each for each in logprobs if each is not None), default=None),
        max_reward=max((each for each in rewards if each is not None), default=None),
    )


def _sampled(pair: _Pair) -> RolloutDifference | None:
    first, second = pair
    if first is None or second is None:
        shown = [ABSENT if each is None else "there" for each in pair]
        return _difference(pair, "rollout", shown[0], shown[1])
    if _unjudged(pair):
        return None
    for turn, (a, b) in enumerate(zip(_turns(first), _turns(second), strict=False)):
        for token in range(max(len(a[0]), len(b[0]))):
            for name, x, y in (("tokens", a[0], b[0]), ("logprobs", a[1], b[1])):
                values = [each[token] if token < len(each) else ABSENT for each in (x, y)]
                if not same(*values):
                    difference = _difference(pair, name, values[0], values[1])
                    return replace(difference, token=token, turn=turn if "turns" in first else None)
    return _other(pair, lambda name: name in _SAMPLED)


def _rewarded(pair: _Pair) -> RolloutDifference | None:
    if _unjudged(pair):
        return _other(pair, lambda name: name == "failure")
    return _other(pair, lambda name: name not in _SAMPLED)


def _unjudged(pair: _Pair) -> bool:
    """Return True if a judge failed on either rollout, so that only their rewards differ."""
    failures = [(line or {}).get("failure") for line in pair]
    return any(isinstance(each, Mapping) and each.get("where") == _JUDGE for each in failures)


def _other(pair: _Pair, wanted: Callable[[str], bool]) -> RolloutDifference | None:
    one, two = ({k: v for k, v in (each or {}).items() if wanted(k)} for each in pair)
    found = unequal_fields(one, two)
    return _difference(pair, found[0].name, found[0].first, found[0].second) if found else None


def _difference(pair: _Pair, field: str, first: object, second: object) -> RolloutDifference:
    line = pair[0] or pair[1] or {}
    return RolloutDifference(
        split=str(line.get("split")),
        prompt_id=str(line.get("prompt_id")),
        sample=cast(int, line.get("sample", 0)),
        field=field,
        first=first,
        second=second,
    )


def _turns(line: Line) -> list[tuple[list[object], list[object]]]:
    """Return (tokens, log-probabilities) of each turn; a rollout of one turn has them at its top level."""
    turns = cast(Sequence[Mapping[str, object]], line.get("turns") or [line])
    return [
        (cast(list[object], turn.get("tokens") or []), cast(list[object], turn.get("logprobs") or [])) for turn in turns
    ]


def _changes(first: Line, second: Line) -> tuple[int, int, float | None, float | None]:
    """Return one rollout's numbers of changed and of all tokens, and the gaps of log-probability and reward."""
    changed = total = 0
    largest: float | None = None
    alike = True  # after another token the next ones are of another text, and cannot be set against each other
    for a, b in zip(_turns(first), _turns(second), strict=False):
        total += max(len(a[0]), len(b[0]))
        changed += abs(len(a[0]) - len(b[0]))
        for token, (x, y) in enumerate(zip(a[0], b[0], strict=False)):
            p, q = (each[token] if token < len(each) else None for each in (a[1], b[1]))
            alike = alike and x == y
            changed += x != y or not same(p, q)
            if alike and isinstance(p, float) and isinstance(q, float):
                largest = max(largest or 0.0, abs(p - q))
    reward = [float(each) for each in (first.get("total"), second.get("total")) if isinstance(each, int | float)]
    return changed, total, largest, abs(reward[0] - reward[1]) if len(reward) == 2 else None
