"""What a slice's baselines answered to the papers of a run: paper by paper where that was kept, else dealt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinsmith.data.baselines.report import Baseline, BaselineScore
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.runs.records import Run
from tinsmith.stats.confusion import encode
from tinsmith.stats.runs import Runs
from tinsmith.types.seeds import derive

RIVALS = (Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT, Baseline.BOTH)
"""Those that a run is held against: the prior decides nothing, and the oracle knows what nobody does."""


def rival(score: BaselineScore, run: Run, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, from the folder of `run`.

    They are its own where the folder keeps one for each of these papers, so that the comparison is paired; a mixture
    of its own and dealt ones would be neither.
    """
    kept = run.baseline_answers.get(score.baseline)
    if kept is None or not _all_kept(kept, other):
        return unpaired(score, other)
    codes = encode(other.labels, [kept[item] for item in other.items])
    return Runs(_name(score), other.labels, other.items, other.golds, codes[None])


def metadata_of(run: Run, other: Runs) -> Runs | None:
    """Return what the baseline that looks at year and citations alone answered; None where the slice has none."""
    scores = run.baselines.scores if run.baselines else []
    found = next((score for score in scores if score.baseline is Baseline.METADATA), None)
    return rival(found, run, other) if found else None


def unpaired(score: BaselineScore, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, from its confusion matrix alone.

    Which papers it got right is not known then, so its answers are dealt out at random within each true label. A
    difference is as uncertain as between two systems that err independently: more than it truly is, as both find the
    same papers hard.
    """
    codes = np.empty(other.num_items, np.int64)
    for place, label in enumerate(other.labels):
        papers = np.flatnonzero(other.golds == place)
        row = score.confusion.get(label, {})
        shares = np.array([row.get(answer, 0.0) for answer in other.labels])
        dealt = np.repeat(np.arange(len(other.labels)), _apportioned(shares, len(papers)))
        random = np.random.Generator(np.random.PCG64(derive(0, "unpaired", score.baseline.value, label)))
        codes[papers] = random.permutation(dealt)
    return Runs(_name(score), other.labels, other.items, other.golds, codes[None])


def pairing_words(pairs: Sequence[tuple[Run, Runs]]) -> str:
    """Say how runs, with their answers, are compared with their slices' baselines; empty where none is."""
    judged = [
        all(
            score.baseline in run.baseline_answers and _all_kept(run.baseline_answers[score.baseline], answers)
            for score in run.baselines.scores
            if score.baseline in RIVALS
        )
        for run, answers in pairs
        if run.baselines is not None
    ]
    if not judged:
        return ""
    if all(judged):
        return "Baselines are compared paper by paper."
    if any(judged):
        return (
            "Baselines are compared paper by paper where their answers were kept, and else unpaired, which widens "
            "the interval."
        )
    return (
        "The answers of the baselines to these papers were not kept, so that they are compared unpaired, which widens "
        "the interval."
    )


def _all_kept(kept: Mapping[str, str], other: Runs) -> bool:
    return all(kept.get(item) in other.labels for item in other.items)


def _name(score: BaselineScore) -> str:
    return BASELINE_WORDS[score.baseline][0]


def _apportioned(shares: np.ndarray, total: int) -> np.ndarray:
    """Return whole numbers that add up to `total`, as near as can be to `shares`; those themselves if they do."""
    if shares.sum() == 0:
        shares = np.ones_like(shares)
    exact = shares / shares.sum() * total
    whole = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole
