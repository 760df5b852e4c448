"""A planted world of papers: which word a text carries decides how probable each label is, and nothing else does.

Four atoms, one to a paper, each with its known p(label | atom), so that the best score any model can have is known.
`disruptive` is the rarest label, and the likeliest of one atom only. Within a split the labels of an atom's papers
stand in exactly these shares, in a drawn order; every other word is noise, and so are year and citations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.labels import SEED_CUT, Thresholds
from tinsmith.data.slices.card import (
    SIDECAR,
    SLICE,
    CorpusReference,
    SliceCard,
    SplitCard,
    split_file,
    write_slice_card,
)
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow, encode_row, planted_row
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split, ids_sha256
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.papers.worlds import PaperBaseRecipe
from tinsmith.lab.results.arms import LabelArm
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Shown
from tinsmith.lab.study.study import Finding, Listing
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.gate import Verdict
from tinsmith.stats.incentives import Policy, Posteriors, best_deterministic, best_policy
from tinsmith.stats.rates import Metric
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say

LABELS: Final = Subject.DISRUPTION.labels
Atoms = Mapping[str, tuple[float, ...]]

ATOMS: Final[Atoms] = {
    "copper": (0.64, 0.18, 0.18),
    "marble": (0.25, 0.65, 0.10),
    "willow": (0.08, 0.72, 0.20),
    "saffron": (0.08, 0.17, 0.75),
}
"""A word of the text, and p(label | it) in the order of LABELS; all words are equally frequent."""
_NOISE: Final = (
    "anchor basket candle daisy engine feather garden hammer island jacket kettle ladder mirror needle orchard "
    "pepper quarry ribbon saddle table umbrella valley window yarrow zipper barrel cabin dragon ember forest"
)
NOISE: Final = tuple(_NOISE.split())
PLANTED_BASE: Final = PaperBaseRecipe(num_layers=1, vocab_size=512, steps=160)  # One layer is enough to read a word.
PLANTED_TOKENS: Final = 26  # Of a paper's prompt with that base's tokenizer.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRecipe:
    """Number of papers in each split, and the seed of what is drawn."""

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


def planted_slice(recipe: PlantedRecipe, say: Say) -> Slice:
    """Return the slice of a planted world as if it had been cut from a corpus, with its baselines; cached."""
    rows: dict[Split, list[PaperRow]] = {}
    causes: dict[Split, list[str]] = {}
    for split in Split:
        drawn = kinds(recipe.rows(split), derive(recipe.seed, split.value))
        rows[split] = [
            _row(f"{split.value}-{place}", atom, label, recipe.seed) for place, (atom, label) in enumerate(drawn)
        ]
        causes[split] = [list(ATOMS)[atom] for atom, _ in drawn]
    written = [encode_row(row).decode() for split in Split for row in rows[split]]
    place = home() / "worlds" / sha256_of({"version": VERSION, "planted": written})[:16]
    with one_writer(place):
        if not present(place).is_dir():
            say("building a planted world")
            with staged(place) as folder:
                _write(rows, causes, sha256_of({"recipe": recipe, "atoms": ATOMS}), folder)
                run_baselines(Slice.open(folder))
    return Slice.open(present(place))


def _write(
    rows: Mapping[Split, Sequence[PaperRow]], causes: Mapping[Split, Sequence[str]], fingerprint: str, folder: Path
) -> None:
    cards: dict[Split, SplitCard] = {}
    frames: list[pl.DataFrame] = []
    for split, papers in rows.items():
        file = folder / split_file(split)
        file.write_bytes(b"".join(encode_row(row) for row in papers))
        labels = [None if row.disruption_label is None else row.disruption_label.value for row in papers]
        cards[split] = SplitCard(
            rows=len(papers),
            disruption={label: labels.count(label) for label in LABELS},
            novelty={},
            ids_sha256=ids_sha256([row.openalex_id for row in papers]),
            rows_sha256=file_sha256(file),
        )
        frames.append(
            pl.DataFrame(
                {
                    "id": [row.openalex_id for row in papers],
                    "split": [split.value] * len(papers),
                    "cause": list(causes[split]),
                    "disruption_label": labels,
                    "novelty_label": pl.Series([None] * len(papers), dtype=pl.String),
                }
            )
        )
    pl.concat(frames).write_parquet(folder / SIDECAR)
    card = SliceCard(
        settings=SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=SEED_CUT), per_class=None),
        disruption_rule="planted: drawn with the shares of the one word that a text repeats",
        novelty_rule="there are no labels of novelty",
        citations_from="source",
        corpus=CorpusReference(
            fingerprint=fingerprint,
            source="planted",
            papers=sum(card.rows for card in cards.values()),
            edges=0,
            metrics={},
            metrics_fingerprint="",
        ),
        removed={},
        pool={label: sum(card.disruption[label] for card in cards.values()) for label in LABELS},
        oversampled={},
        splits=dict(cards),
        legacy_sha256=None,
    )
    write_slice_card(card.sealed(), folder / SLICE)


def _row(name: str, atom: int, label: str, seed: int) -> PaperRow:
    """A short text that says its word again and again: the signal is weak, and reading it is not the hard part."""
    word = list(ATOMS)[atom]
    first, second, year, citations = map(int, random_bits(derive(seed, "paper", name), 4))
    title, abstract = f"{word} {NOISE[first % len(NOISE)]}", " ".join([word] * 6 + [NOISE[second % len(NOISE)]])
    return planted_row(name, title, abstract, label, year=1990 + year % 30, citations=citations % 100)


def known_policies() -> dict[str, Policy]:
    """Return what is known of policies in the planted world, from its posteriors alone.

    The best macro-F1 that any policy can have, what SFT goes to, sampled, and what it can become with offsets first.
    """
    planted = posteriors()
    rule = best_deterministic(planted, Metric.MACRO_F1)
    assert rule is not None, "there are few kinds of papers"
    drawn = Policy.of(planted, planted.probabilities)
    return {
        "the best macro-F1": best_policy(planted, Metric.MACRO_F1),
        "answers drawn with the true probabilities: what SFT goes to, sampled": drawn,
        "the best rule that always gives one label to one kind of paper": rule,
        "always the likeliest label: what SFT goes to, greedy": best_policy(planted, Metric.LABEL_MATCH),
        "the best product of the recalls": best_policy(planted, Metric.G_MEAN),
    }


CEILING: Final = "no macro-F1 lies above the best that is possible"


def below_the_best(results: Results) -> Finding:
    """Expect that no system's interval lies above the best possible score of a planted world."""
    best = best_policy(posteriors(), Metric.MACRO_F1).score(Metric.MACRO_F1)
    found = {arm.name: arm.scores["macro_f1"] for arm in results.arms.values() if isinstance(arm, LabelArm)}
    above = [label for label, one in found.items() if one.above(best)]
    highest = max(found, key=lambda label: found[label].value)
    return Finding(not above, f"best possible {best:.3f}, {highest} has {found[highest].value:.3f}")


def against_truth(results: Results, rl: str, sft: str, offset: str) -> list[list[Shown]]:
    """Return what the gate says of RL over SFT beside where both go with ever more training."""
    best, imitation, with_offset, *_ = known_policies().values()
    labels, rows = {name: arm.arm.label for name, arm in results.arms.items()}, list[list[Shown]]()
    for claim in results.beats:
        if claim.first == labels[rl] and claim.second in (labels[sft], labels[offset]):
            limit = with_offset if claim.second == labels[offset] else imitation
            score = Metric.MACRO_F1 if claim.metric == Metric.MACRO_F1 else Metric.MIN_CLASS_RECALL
            ours, theirs = best.score(score), limit.score(score)
            allowed, is_true = claim.verdict is Verdict.ALLOWED, ours - theirs > 0.005
            outcome = {
                (True, True): "allowed: is true",
                (True, False): "allowed: IS NOT TRUE",
                (False, True): "refused: not shown",
                (False, False): "refused: rightly",
            }[allowed, is_true]
            rows.append([f"{claim.first} beats {claim.second}|{claim.metric}", Figure(ours), Figure(theirs), outcome])
    return rows


def truth_tables(rl: str, sft: str, offset: str) -> list[Listing]:
    """Return what is true in the planted world, and the claims of RL over SFT beside it."""
    scores = (Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.MIN_CLASS_RECALL)
    policies: list[list[Shown]] = [
        [name, *(Figure(policy.score(one)) for one in scores)] for name, policy in known_policies().items()
    ]
    return [
        Listing(
            "Truth",
            "Computed from the posteriors that were planted, for ever more papers; no run is in it.",
            ("label_match", "macro-F1", "min recall"),
            lambda _: policies,
        ),
        Listing(
            "Claims beside the truth",
            "Where RL and what it is held against go with ever more training.",
            ("RL", "the other", "the gate"),
            lambda results: against_truth(results, rl, sft, offset),
        ),
    ]
