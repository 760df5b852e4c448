"""Four kinds of papers on which every reward's optimum can be worked out by hand.

The signal is as weak as the source notes': no posterior above 0.41, every label a third of the papers. For no
kind is `disruptive` the likeliest label, so accuracy never pays for saying it.
"""

from __future__ import annotations

import numpy as np

from tinsmith.data.labels import Disruption
from tinsmith.stats.incentives.posteriors import Posteriors

_KINDS = ((0.36, 0.38, 0.26), (0.36, 0.26, 0.38), (0.31, 0.40, 0.29))
"""Probabilities of disruptive, consolidating, neutral; the fourth kind makes all priors 1/3."""


def worked_example() -> Posteriors:
    """Return the four kinds, equally frequent."""
    kinds = np.array(_KINDS)
    last = 4.0 / 3.0 - kinds.sum(axis=0)
    labels = (Disruption.DISRUPTIVE, Disruption.CONSOLIDATING, Disruption.NEUTRAL)
    return Posteriors.of([label.value for label in labels], np.vstack([kinds, last]))
