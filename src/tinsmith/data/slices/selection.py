"""Selection of a slice's papers and their splits from the pool, by the lowest hashes.

The result depends only on the papers' ids, not on their order. Papers with the same title and abstract are in one
split, that of the first: otherwise a test would measure memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.slices.pool import Pool
from tinsmith.data.slices.settings import SliceSettings
from tinsmith.data.slices.splits import Split, SplitScheme, id_hashes, legacy_splits, native_codes
from tinsmith.types.errors import ConfigError

_TRAIN = tuple(Split).index(Split.TRAIN)


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Selected papers as positions in the pool, split by split in the order of their rows."""

    members: dict[Split, NDArray[np.int64]]
    oversampled: dict[str, int]
    """Repeated training rows by class."""
    moved: int
    """Papers in the split of an earlier one with the same title and abstract, instead of their own hash's."""
    shared: int
    """Validation and test papers whose title and abstract are in training, too; legacy splits move none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Dealt:
    """Selected rows, m of them: position in the pool, split, and sort key; each (m,)."""

    position: NDArray[np.int64]
    split: NDArray[np.int8]
    copy: NDArray[np.int64]
    rank: NDArray[np.uint64]

    def __getitem__(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> _Dealt:
        return _Dealt(self.position[index], self.split[index], self.copy[index], self.rank[index])

    def ordered(self) -> _Dealt:
        """Sort by copy, then hash: all first copies precede the first repeat."""
        return self[np.lexsort((self.position, self.rank, self.copy))]


def select(pool: Pool, settings: SliceSettings) -> Selection:
    """Select the papers of a slice.

    Raises:
        ConfigError: a class has fewer papers than requested, without oversampling; or a cap leaves a balanced split
            empty.
    """
    own, rank = id_hashes(pool.ids, settings.seed)
    share = own.copy()
    share[list(pool.copies)] = id_hashes(list(pool.copies.values()), settings.seed)[0]
    codes = pool.classes(settings.task)
    classes = settings.task.classes
    if settings.per_class is None:
        chosen = np.arange(len(pool.ids))
    else:
        if not settings.oversample:
            _check_numbers(codes, classes, settings.per_class)
        chosen = np.concatenate([_lowest(codes == code, rank)[: settings.per_class] for code in range(len(classes))])
    dealt = _deal(chosen, pool.ids, share, rank, settings)
    if settings.oversample and settings.per_class is not None:
        dealt = _oversampled(dealt, codes, classes, settings.per_class)
    balanced = len(classes) if settings.per_class is not None else None
    members = dict(_capped(dealt.ordered(), codes, settings, balanced))
    repeats = {name: _repeats(members[Split.TRAIN], codes, code) for code, name in enumerate(classes)}
    moved = np.unique(np.concatenate(list(members.values())))
    moved = moved[native_codes(own[moved]) != native_codes(share[moved])]
    return Selection(
        members,
        {name: count for name, count in repeats.items() if count},
        moved=len(moved) if settings.scheme is SplitScheme.NATIVE else 0,
        shared=_shared(members, pool),
    )


def _shared(members: Mapping[Split, NDArray[np.int64]], pool: Pool) -> int:
    if not pool.copies:
        return 0
    texts = {split: [pool.copies.get(i, pool.ids[i]) for i in rows.tolist()] for split, rows in members.items()}
    train = set(texts[Split.TRAIN])
    return sum(text in train for split in (Split.VALIDATION, Split.TEST) for text in texts[split])


def _repeats(train: NDArray[np.int64], codes: NDArray[np.int8], code: int) -> int:
    own = train[codes[train] == code]
    return len(own) - len(np.unique(own))


def _check_numbers(codes: NDArray[np.int8], classes: Sequence[str], wanted: int) -> None:
    counts = np.bincount(codes, minlength=len(classes))
    short = {name: int(n) for name, n in zip(classes, counts, strict=True) if n < wanted}
    if short:
        raise ConfigError(
            "too few papers: " + ", ".join(f"{n:,} {name}" for name, n in short.items()),
            field="per_class",
            value=wanted,
            allowed=f"at most {min(short.values()):,}",
            fix="ask for fewer, relax a filter, or repeat training papers with --oversample",
        )


def _lowest(which: NDArray[np.bool_], rank: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the positions of `which`, those with the lowest hashes first."""
    positions = np.flatnonzero(which)
    return positions[np.argsort(rank[positions], kind="stable")]


def _deal(
    chosen: NDArray[np.int64],
    ids: Sequence[str],
    share: NDArray[np.uint64],
    rank: NDArray[np.uint64],
    settings: SliceSettings,
) -> _Dealt:
    first = np.zeros(len(chosen), np.int64)
    if settings.scheme is SplitScheme.NATIVE:
        return _Dealt(chosen, native_codes(share[chosen]), first, rank[chosen])
    position = {ids[i]: i for i in map(int, chosen.tolist())}
    parts = legacy_splits(list(position), settings.seed)
    order = np.array([position[one] for split in Split for one in parts[split]], np.int64)
    codes = np.repeat(np.arange(len(parts)), [len(parts[split]) for split in Split])
    return _Dealt(order, codes.astype(np.int8), first, np.arange(len(order), dtype=np.uint64))


def _oversampled(dealt: _Dealt, codes: NDArray[np.int8], classes: Sequence[str], wanted: int) -> _Dealt:
    """Repeat the training papers of each class that is short, all of them once before any twice."""
    parts = [dealt]
    for code, name in enumerate(classes):
        own = dealt[codes[dealt.position] == code]
        missing = wanted - len(own.position)
        if missing <= 0:
            continue
        train = own[own.split == _TRAIN].ordered()
        size = len(train.position)
        if not size:
            raise ConfigError(
                f"no {name} paper is in the training split, so none can be repeated",
                field="oversample",
                value=True,
                fix="relax a filter, or use another --cut",
            )
        repeat = np.arange(missing)
        again = train[repeat % size]
        parts.append(_Dealt(again.position, again.split, 1 + repeat // size, again.rank))
    return _Dealt(
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.split for part in parts]),
        np.concatenate([part.copy for part in parts]),
        np.concatenate([part.rank for part in parts]),
    )


def _capped(
    dealt: _Dealt, codes: NDArray[np.int8], settings: SliceSettings, balanced: int | None
) -> Iterator[tuple[Split, NDArray[np.int64]]]:
    """Yield each split's positions in order; a cap that cuts a balanced split keeps it balanced."""
    for number, split in enumerate(Split):
        members = dealt.position[dealt.split == number]
        cap = settings.caps.of(split)
        if cap is None or len(members) <= cap:
            yield split, members
        elif balanced is None:
            yield split, members[:cap]
        else:
            # With few papers a class may be missing from a split; that does not exclude the others.
            every = (np.flatnonzero(codes[members] == code) for code in range(balanced))
            own = [one for one in every if len(one)]
            size = min(cap // len(own), *(len(one) for one in own))
            if not size:
                raise ConfigError(
                    "a balanced split needs a paper of each class",
                    field=split.value,
                    value=cap,
                    allowed=f"{len(own)} or more",
                )
            yield split, members[np.sort(np.concatenate([one[:size] for one in own]))]
