"""A planted world of papers: which word a text carries decides how probable each label is, and nothing else does.

Four atoms, one to a paper, each with its known p(label | atom). The signal is as weak as the source notes': the best
accuracy is 0.45, and `disruptive`, the rarest label, is never the likeliest one, as in section 3.1 of the methods
notes. Within a split the labels of an atom's papers stand in exactly these shares, in a drawn order; every other word
is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.task import Item, Paper
from tinsmith.stats.incentives import Policy, Posteriors
from tinsmith.stats.rates import FloatArray
from tinsmith.studies.planted_world import NOISE, kinds
from tinsmith.studies.planted_world import posteriors as known
from tinsmith.types.seeds import derive, random_bits

ATOMS = {
    "copper": (0.36, 0.46, 0.18),
    "marble": (0.36, 0.18, 0.46),
    "willow": (0.22, 0.44, 0.34),
    "saffron": (0.22, 0.34, 0.44),
}
"""A word of the text, and p(label | it) in the order of LABELS; all words are equally frequent."""
TRAIN, VALIDATION, TEST = 4000, 40, 400
"""Papers of each split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The papers, and the atom of each, by its id."""

    papers: Papers
    atom_of: dict[str, int]


def world(test: int = TEST, seed: int = 0) -> World:
    """Draw the papers of all splits."""
    atom_of: dict[str, int] = {}
    splits: dict[str, list[Item]] = {}
    for split, count in (("train", TRAIN), ("validation", VALIDATION), ("test", test)):
        splits[split] = []
        for atom, label in kinds(count, derive(seed, split), ATOMS):
            name = f"{split}-{len(splits[split])}"
            atom_of[name] = atom
            paper = _paper(name, list(ATOMS)[atom], derive(seed, name))
            splits[split].append(Item(paper=paper, golds=(label,)))
    return World(papers=Papers(**splits), atom_of=atom_of)


def posteriors() -> Posteriors:
    """Return what can be known of a paper: one kind of paper an atom."""
    return known(ATOMS)


def policy_of(world: World, items: Sequence[Item], pi_NK: FloatArray) -> Policy:
    """Return the policy that a model's label probabilities amount to: their mean over each atom's papers."""
    atoms = np.array([world.atom_of[item.paper.id] for item in items])
    means = [pi_NK[atoms == atom].mean(axis=0) for atom in range(len(ATOMS))]
    return Policy.of(posteriors(), np.array(means))


def _paper(name: str, word: str, seed: int) -> Paper:
    """A short text that says its word again and again: the signal is weak, and reading it is not the hard part."""
    first, second = (NOISE[int(bits % np.uint64(len(NOISE)))] for bits in random_bits(seed, 2))
    abstract = " ".join([word] * 6 + [second])
    return Paper(id=name, title=f"{word} {first}", abstract=abstract, field=word)
