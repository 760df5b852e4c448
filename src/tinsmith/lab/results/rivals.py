"""Baselines of a slice beside arms: their names, their answers paper by paper, and where each arm stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from tinsmith.data.baselines.report import Baseline, BaselineScore
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.runs.records import Run
from tinsmith.pages.measures import Measure
from tinsmith.stats.confusion import encode
from tinsmith.stats.estimates import Bootstrap, difference
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.seeds import derive

BASELINE_WORDS: Final[Mapping[Baseline, tuple[str, str]]] = {
    Baseline.MAJORITY: ("Constant", "always the most frequent training class"),
    Baseline.PRIOR: ("Prior", "a guess by the training shares; expected values"),
    Baseline.METADATA: ("Metadata only", "gradient boosting on year, citations, field"),
    Baseline.TEXT: ("TF-IDF", "logistic regression on title and abstract"),
    Baseline.BOTH: ("TF-IDF + metadata", "logistic regression on both"),
    Baseline.ORACLE: ("Oracle", "knows the planted cause of every paper, and nothing else"),
}
"""Name of every baseline on a page, and what it is."""
RIVALS: Final = (Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT, Baseline.BOTH)
"""Baselines that a run is held against: the prior decides nothing, and the oracle knows what nobody does."""
_AGAINST: Final = RIVALS[:3]


def rival(score: BaselineScore, run: Run, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, from the folder of `run`.

    They are its own where the folder keeps one for each of these papers, so that the comparison is paired; a mixture
    of its own and dealt ones would be neither.
    """
    if not is_paired(score, run, other):
        return unpaired(score, other)
    kept = run.baseline_answers[score.baseline]
    codes = encode(other.labels, [kept[item] for item in other.items])
    return Runs(BASELINE_WORDS[score.baseline][0], other.labels, other.items, other.golds, codes[None])


def is_paired(score: BaselineScore, run: Run, other: Runs) -> bool:
    """Return true if the run's folder keeps a baseline's answer to every paper."""
    kept = run.baseline_answers.get(score.baseline, {})
    return all(kept.get(item) in other.labels for item in other.items)


def rival_named(baseline: Baseline | str, run: Run, other: Runs) -> Runs | None:
    """Return a baseline's answers; None where the slice has none."""
    scores = run.baselines.scores if run.baselines else []
    found = next((score for score in scores if score.baseline == baseline), None)
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
    return Runs(BASELINE_WORDS[score.baseline][0], other.labels, other.items, other.golds, codes[None])


def _apportioned(shares: np.ndarray, total: int) -> np.ndarray:
    """Return whole numbers that add up to `total`, as near as can be to `shares`; those themselves if they do."""
    if shares.sum() == 0:
        shares = np.ones_like(shares)
    exact = shares / shares.sum() * total
    whole = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def standing_rows(arms: Iterable[Arm], bootstrap: Bootstrap) -> list[list[Measure | str | None]]:
    """Return where arms stand against constant, metadata and TF-IDF: differences without any gate; no control does."""
    rows: list[list[Measure | str | None]] = []
    for arm in arms:
        answers = None if arm.shuffled else arm.answers()
        for score in arm.first.baselines.scores if answers and arm.first.baselines else ():
            if answers is None or score.baseline not in _AGAINST:
                continue
            apart = difference(answers, rival(score, arm.first, answers), Metric.MACRO_F1, bootstrap)
            ends = apart.interval
            even = ends is None or ends.low <= 0.0 <= ends.high
            finding = "indistinguishable" if even else "above" if apart.value > 0.0 else "below"
            gap = Measure(apart.value) if ends is None else Measure(apart.value, ends.low, ends.high)
            rows.append([arm.name, BASELINE_WORDS[score.baseline][0], gap, finding])
    return rows
