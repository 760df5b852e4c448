"""Assignment of papers to splits: by the hash of the id, or by the source notes' own shuffle.

The native scheme depends only on the id and the seed; a paper with the text of an earlier one takes that one's id. New
papers therefore never move an old one to another split, unless they are its earlier copies, and two slices of one
corpus never train on each other's test papers.
"""

from __future__ import annotations

import enum
import hashlib
import json
import random
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

SHARES = (0.8, 0.1, 0.1)


class Split(enum.StrEnum):
    """Part of a slice."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class SplitScheme(enum.StrEnum):
    """Scheme that assigns papers to splits."""

    NATIVE = "native"  # by the hash of the id
    LEGACY = "legacy"  # sorted ids, shuffled, cut by shares: the source notes' official split
    SHUFFLED = "shuffled"  # a file's lines in order, shuffled, cut by numbers: the source notes' training loader


def id_hashes(ids: Sequence[str], seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return two independent 64-bit hashes of each of n ids, each (n,): its share and its rank.

    blake2b over "tinsmith/split/<seed>/<id>". One hash assigns papers to splits, the other orders them; with a single
    one, the lowest would all be training papers.
    """
    salt = hashlib.blake2b(f"tinsmith/split/{seed}/".encode(), digest_size=16)
    digests = bytearray()
    for one in ids:
        keyed = salt.copy()
        keyed.update(one.encode())
        digests += keyed.digest()
    words = np.frombuffer(bytes(digests), "<u8").reshape(-1, 2).astype(np.uint64)
    return words[:, 0].copy(), words[:, 1].copy()


def native_codes(share_hash: NDArray[np.uint64]) -> NDArray[np.int8]:
    """Return each paper's split (n,), as positions in `tuple(Split)`, from its first hash."""
    unit = (share_hash >> np.uint64(11)).astype(np.float64) * 2.0**-53  # exact, in [0, 1)
    bounds = np.array([SHARES[0], SHARES[0] + SHARES[1]])
    return np.searchsorted(bounds, unit, side="right").astype(np.int8)


def legacy_order(ids: Sequence[str], seed: int) -> list[str]:
    """Return the ids in the source notes' order: sorted as strings, then shuffled by CPython's generator."""
    order = sorted(ids)
    random.Random(seed).shuffle(order)
    return order


def legacy_counts(total: int, shares: Sequence[float] = SHARES) -> tuple[int, ...]:
    """Return the number of papers of each share out of `total`, by the largest remainder.

    >>> legacy_counts(36)
    (29, 4, 3)
    """
    exact = [total * share for share in shares]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def legacy_splits(ids: Sequence[str], seed: int) -> dict[Split, list[str]]:
    """Return the source notes' official split of `ids`, each part in its shuffled order."""
    order = legacy_order(ids, seed)
    train, validation, _ = legacy_counts(len(order))
    return {
        Split.TRAIN: order[:train],
        Split.VALIDATION: order[train : train + validation],
        Split.TEST: order[train + validation :],
    }


def legacy_sha256(splits: Mapping[Split, Sequence[str]]) -> str:
    """Return the SHA-256 that the source notes recorded: compact JSON with sorted keys, "val" for validation."""
    named = {
        "train": list(splits[Split.TRAIN]),
        "val": list(splits[Split.VALIDATION]),
        "test": list(splits[Split.TEST]),
    }
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ids_sha256(ids: Sequence[str]) -> str:
    """Return the SHA-256 of a set of ids: sorted, one per line."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
