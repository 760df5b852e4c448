"""A planted world of papers: which word a text carries decides how probable each label is, and nothing else does.

Four atoms, one to a paper, each with its known p(label | atom), so that the best score any model can have is known.
`disruptive` is the rarest label, and the likeliest of one atom only. Within a split the labels of an atom's papers
stand in exactly these shares, in a drawn order; every other word is noise. The field is the word again, so that the
metadata tell as much as the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from tinsmith.analysis.posteriors import Posteriors
from tinsmith.data.baselines import run_baselines
from tinsmith.data.labels import SEED_CUT, Disruption, Thresholds
from tinsmith.data.slice_card import (
    SIDECAR,
    SLICE,
    CorpusReference,
    SliceCard,
    SplitCard,
    split_file,
    write_slice_card,
)
from tinsmith.data.slice_reader import Slice
from tinsmith.data.slice_rows import PaperRow, encode_row
from tinsmith.data.slice_settings import SliceSettings, Task
from tinsmith.data.splits import Split, ids_sha256
from tinsmith.experiments.paper_base import PaperBaseRecipe
from tinsmith.experiments.worlds import Told
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.version import VERSION

LABELS: Final = ("disruptive", "consolidating", "neutral")
Atoms = Mapping[str, tuple[float, ...]]

ATOMS: Final[Atoms] = MappingProxyType(
    {
        "copper": (0.64, 0.18, 0.18),
        "marble": (0.25, 0.65, 0.10),
        "willow": (0.08, 0.72, 0.20),
        "saffron": (0.08, 0.17, 0.75),
    }
)
"""A word of the text, and p(label | it) in the order of LABELS; all words are equally frequent."""
_WORDS: Final = (
    "anchor basket candle daisy engine feather garden hammer island jacket kettle ladder mirror needle orchard "
    "pepper quarry ribbon saddle table umbrella valley window yarrow zipper barrel cabin dragon ember forest"
)
NOISE: Final = tuple(_WORDS.split())
PLANTED_BASE: Final = PaperBaseRecipe(num_layers=1, vocab_size=512, steps=160)
"""One layer is enough to read a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRecipe:
    """How many papers each split has, and the seed of what is drawn."""

    train: int = 4000
    validation: int = 120
    test: int = 400
    seed: int = 0

    def rows(self, split: Split) -> int:
        """Return the papers of a split."""
        return (self.train, self.validation, self.test)[tuple(Split).index(split)]


def posteriors(atoms: Atoms = ATOMS) -> Posteriors:
    """Return what can be known of a paper: one kind of paper an atom."""
    return Posteriors.of(LABELS, np.array(list(atoms.values())))


def kinds(count: int, seed: int, atoms: Atoms = ATOMS) -> list[tuple[int, str]]:
    """Return atom and label of `count` papers: the labels of each atom in its shares, rounded down and filled up."""
    each = count // len(atoms)
    found: list[tuple[int, str]] = []
    for atom, shares in enumerate(atoms.values()):
        exact = [share * each for share in shares]
        counts = [int(value + 1e-9) for value in exact]
        by_rest = sorted(range(len(LABELS)), key=lambda k: counts[k] - exact[k])
        for k in by_rest[: each - sum(counts)]:
            counts[k] += 1
        found += [(atom, LABELS[k]) for k in range(len(LABELS)) for _ in range(counts[k])]
    bits = random_bits(seed, len(found))
    return [found[place] for place in sorted(range(len(found)), key=lambda i: int(bits[i]))]


def planted_slice(recipe: PlantedRecipe, told: Told) -> Slice:
    """Return the slice of a planted world, with its baselines; built where it is not cached."""
    key = sha256_of({"version": VERSION, "planted": recipe, "atoms": ATOMS, "noise": NOISE})
    place = home() / "worlds" / key[:16]
    with one_writer(place):
        if not present(place).is_dir():
            told(f"building a planted world (seed {recipe.seed})")
            with staged(place) as folder:
                _write(recipe, folder)
                run_baselines(Slice.open(folder))
    return Slice.open(present(place))


def _write(recipe: PlantedRecipe, folder: Path) -> None:
    cards: dict[Split, SplitCard] = {}
    frames: list[pl.DataFrame] = []
    for split in Split:
        drawn = kinds(recipe.rows(split), derive(recipe.seed, split.value))
        rows = [
            _row(f"{split.value}-{place}", atom, label, recipe.seed)
            for place, (atom, label) in enumerate(drawn)
        ]
        file = folder / split_file(split)
        file.write_bytes(b"".join(encode_row(row) for row in rows))
        cards[split] = _split_card(rows, file)
        frames.append(_sidecar(rows, [list(ATOMS)[atom] for atom, _ in drawn], split))
    pl.concat(frames).write_parquet(folder / SIDECAR)
    write_slice_card(_card(recipe, cards), folder / SLICE)


def _row(name: str, atom: int, label: str, seed: int) -> PaperRow:
    """A short text that says its word again and again: the signal is weak, and reading it is not the hard part."""
    word = list(ATOMS)[atom]
    first, second = (int(bits) for bits in random_bits(derive(seed, "paper", name), 2))
    return PaperRow(
        openalex_id=name,
        title=f"{word} {NOISE[first % len(NOISE)]}",
        abstract=" ".join([word] * 6 + [NOISE[second % len(NOISE)]]),
        publication_year=None,
        cited_by_count=None,
        cd_index=None,
        novelty_score=None,
        conventionality_score=None,
        disruption_label=Disruption(label),
        novelty_label=None,
        primary_field=word,
        concepts=(),
    )


def _split_card(rows: Sequence[PaperRow], file: Path) -> SplitCard:
    counted = Counter(row.disruption_label for row in rows)
    return SplitCard(
        rows=len(rows),
        disruption={label: counted[Disruption(label)] for label in LABELS},
        novelty={},
        ids_sha256=ids_sha256([row.openalex_id for row in rows]),
        rows_sha256=file_sha256(file),
    )


def _sidecar(rows: Sequence[PaperRow], causes: Sequence[str], split: Split) -> pl.DataFrame:
    labels = [None if row.disruption_label is None else row.disruption_label.value for row in rows]
    return pl.DataFrame(
        {
            "id": [row.openalex_id for row in rows],
            "split": [split.value] * len(rows),
            "cause": list(causes),
            "disruption_label": labels,
            "novelty_label": pl.Series([None] * len(rows), dtype=pl.String),
        }
    )


def _card(recipe: PlantedRecipe, cards: Mapping[Split, SplitCard]) -> SliceCard:
    pool = {label: sum(card.disruption[label] for card in cards.values()) for label in LABELS}
    return SliceCard(
        settings=SliceSettings(
            task=Task.DISRUPTION, thresholds=Thresholds(cut=SEED_CUT), per_class=None
        ),
        disruption_rule="planted: drawn with the shares of the one word that a text repeats",
        novelty_rule="there are no labels of novelty",
        citations_from="source",
        corpus=CorpusReference(
            fingerprint=sha256_of({"recipe": recipe, "atoms": ATOMS}),
            source="planted",
            papers=sum(card.rows for card in cards.values()),
            edges=0,
            metrics={},
            metrics_fingerprint="",
        ),
        removed={},
        pool=pool,
        oversampled={},
        splits=dict(cards),
        legacy_sha256=None,
    ).sealed()
