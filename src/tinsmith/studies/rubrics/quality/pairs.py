"""Preference pairs: files that hold some, foreign rubrics for the control, and pairs under every condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Final

from tinsmith.studies.rubrics.quality.statistics import Condition
from tinsmith.studies.rubrics.record_files import checked_file, decode, gathered, read_records
from tinsmith.studies.rubrics.task import RubricTask, is_text, task_of
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

BUILTIN: Final = "builtin_pairs.jsonl"
ENDINGS: Final = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePair:
    """Two responses to one instruction, of which the first is known to be better, and the instruction's rubric."""

    pair_id: str
    task: RubricTask
    """The instruction and its rubrics; its `task_id` is the pair's."""
    chosen: str
    rejected: str

    @property
    def prompt(self) -> str:
        """The instruction."""
        return self.task.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSet:
    """Preference pairs in the order of their ids, and how many were left out because they have no rubric."""

    pairs: tuple[PreferencePair, ...]
    without_rubrics: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """A pair under one condition: whose rubric is shown, and which response comes first."""

    pair: PreferencePair
    condition: Condition
    rubric: PreferencePair | None
    chosen_first: bool

    def responses(self, *, turned: bool = False) -> tuple[str, str]:
        """The two responses in the order they are shown."""
        both = (self.pair.chosen, self.pair.rejected)
        return both if self.chosen_first != turned else (both[1], both[0])


def pair_of(record: Mapping[str, object]) -> PreferencePair | None:
    """Return the pair of one record; None where it has no rubric at all.

    The rubrics stand in any form that a rubric task may have. A record without `pair_id` is named by a
    hash of its content.
    """
    chosen, rejected = (_response(record, name) for name in ("chosen", "rejected"))
    if chosen == rejected:
        raise DataError("the two responses are the same", field="rejected", value=rejected)
    pair_id = record.get("pair_id")
    task = task_of({**record, "task_id": pair_id})
    if task is None:
        return None
    if pair_id is None or pair_id == "":
        task = replace(task, task_id=sha256_of((task.prompt, chosen, rejected, task.rubrics))[:16])
    return PreferencePair(pair_id=task.task_id, task=task, chosen=chosen, rejected=rejected)


def read_pairs(path: Path) -> PairSet:
    """Read a file of preference pairs: JSON Lines, or one JSON array."""
    checked_file(path, ENDINGS)
    return read_pairs_text(path.read_bytes(), path.name)


def builtin_pairs() -> PairSet:
    """Return the pairs that need no download: a worked answer against one that breaks one or two of its rules.

    There is one for each built-in instruction, so that no two pairs hang together. In half of every kind the worse
    answer is the tempting one: who does not look at the rules is right about half the time.
    """
    folder = resources.files("tinsmith.studies.rubrics.quality")
    return read_pairs_text(folder.joinpath(BUILTIN).read_bytes(), BUILTIN)


def read_pairs_text(data: bytes, name: str) -> PairSet:
    """Read the bytes of a file of pairs; `name` is how errors call it."""

    def read(record: dict[str, object]) -> tuple[str, PreferencePair] | None:
        pair = pair_of(record)
        return None if pair is None else (pair.pair_id, pair)

    fix = "give each record prompt, chosen, rejected, and rubrics or 'rubric - 1. criterion'"
    records = read_records(decode(data, name), name).records
    pairs, without = gathered(records, read, name=name, what="pair", fix=fix)
    return PairSet(pairs=tuple(pair for _, pair in sorted(pairs.items())), without_rubrics=without)


def drawn_pairs(pairs: Sequence[PreferencePair], limit: int | None, *, seed: int) -> tuple[PreferencePair, ...]:
    """Return at most so many pairs, drawn by id and seed, in the order of their ids."""
    drawn = sorted(pairs, key=lambda pair: (derive(seed, "pairs", pair.pair_id), pair.pair_id))
    return tuple(sorted(drawn[:limit], key=lambda pair: pair.pair_id))


def foreign_rubrics(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[PreferencePair | None, ...]:
    """Return, for each pair, the pair whose rubric is shown instead of its own: the negative control.

    The pairs stand in a circle in the order of the seed; each gets the rubric of the next one that has
    another instruction and other criteria. None where there is no such pair.
    """
    circle = sorted(pairs, key=lambda pair: (derive(seed, "control", pair.pair_id), pair.pair_id))
    found: dict[str, PreferencePair | None] = {}
    for place, pair in enumerate(circle):
        others = (*circle[place + 1 :], *circle[:place])
        is_foreign = (one.prompt != pair.prompt and {*one.task.criteria} != {*pair.task.criteria} for one in others)
        found[pair.pair_id] = next((one for one, fits in zip(others, is_foreign, strict=True) if fits), None)
    return tuple(found[pair.pair_id] for pair in pairs)


def showings(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[Showing, ...]:
    """Return every pair under every condition; the order of the responses is the pair's, drawn by the seed.

    Where one pair has no other's rubric, the control is left out for all.
    """
    foreign = foreign_rubrics(pairs, seed=seed)
    return tuple(
        Showing(
            pair=pair, condition=condition, rubric=rubric, chosen_first=derive(seed, "order", pair.pair_id) % 2 == 0
        )
        for pair, other in zip(pairs, foreign, strict=True)
        for condition, rubric in zip(Condition, (None, pair, other), strict=True)
        if condition is not Condition.OTHER or None not in foreign
    )


def _response(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not is_text(value):
        raise DataError("a pair needs both responses as texts", field=name, value=value)
    return value
