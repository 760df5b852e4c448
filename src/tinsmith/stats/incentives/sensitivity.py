"""How sharply the optimum turns on one class weight: exact, without trying any weight.

Weighting the examples of one label by w pays w r[y, k] for them. The weight from which paper x is
answered with that label is a number; its spread over the papers is how wide the window is between
"never" and "always". With a weak signal it is narrow: a knife-edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinsmith.stats.incentives.posteriors import Posteriors
from tinsmith.stats.rates import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """Per kind of paper, in ascending order, the weight on `label` above which it is answered so.

    `turns` (N,) has inf for papers that no weight turns; `weights` (N,) are the papers' shares.
    """

    label: str
    turns: FloatArray
    weights: FloatArray

    def share_at(self, weight: float) -> float:
        """Return the predicted share of the label at a class weight.

        >>> Sensitivity("d", np.array([1.0, 2.0]), np.array([0.5, 0.5])).share_at(1.5)
        0.5
        """
        return float(self.weights[self.turns < weight].sum())

    def weight_for(self, share: float) -> float:
        """Return the smallest weight at or just above which the label has `share` of the answers; inf for none."""
        reached = np.cumsum(self.weights) >= share - 1e-12
        return float(self.turns[reached.argmax()]) if reached.any() else math.inf

    @property
    def window(self) -> tuple[float, float]:
        """The weights between which the label's share goes from a tenth to nine tenths."""
        return self.weight_for(0.1), self.weight_for(0.9)

    @property
    def width(self) -> float:
        """How many times larger the upper end of the window is; close to 1 is a knife-edge."""
        low, high = self.window
        return high / low if low > 0.0 and math.isfinite(high) else math.inf


def sensitivity(posteriors: Posteriors, matrix: FloatArray, label: str) -> Sensitivity | None:
    """Return at which weights on `label` its share of the optimum's answers turns.

    Paper x turns at w(x) = max over k != d of sum_{y != d} p_y (r[y, k] - r[y, d]) / (p_d (r[d, d] - r[d, k])).
    For r = a + g [y = k] that is max p_k / p_d, whatever a and g > 0.

    Args:
        posteriors: what can be known.
        matrix: rewards r (K, K), truth in rows.
        label: d.

    Returns:
        None where the reward does not pay more for d than for another answer when d is true, so that
        no weight on d brings it out.
    """
    d = posteriors.labels.index(label)
    p = posteriors.probabilities
    others = [k for k in range(len(posteriors.labels)) if k != d]
    turns = np.full(posteriors.num_kinds, -math.inf)
    for k in others:
        gain = float(matrix[d, d] - matrix[d, k])
        if gain <= 0.0:
            return None
        lost = np.zeros(posteriors.num_kinds)
        for y in others:
            lost += p[:, y] * (matrix[y, k] - matrix[y, d])
        paid = p[:, d] * gain
        # Where d is impossible, a weight changes nothing: it is never or always answered.
        turn = np.where(lost < 0.0, 0.0, math.inf)
        np.divide(lost, paid, out=turn, where=paid > 0.0)
        turns = np.maximum(turns, turn)
    order = np.argsort(turns, kind="stable")
    return Sensitivity(label, np.maximum(turns[order], 0.0), posteriors.weights[order])
