"""What a person sees when the metrics of a corpus are computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Thresholds
from tinsmith.data.metrics_card import MetricsCard


def summary(corpus: Corpus, card: MetricsCard, seconds: float) -> Mapping[str, str]:
    """Return name -> text in the order to show it; labels at the corpus's own cut, or else at the source notes'."""
    cut = corpus.card.thresholds or SEED_CUT
    columns = corpus.metrics("cd", "cd_status")
    cd = columns["cd"].fill_null(np.nan).to_numpy()
    codes = Thresholds(cut=cut).disruption_codes(cd, columns["cd_status"])
    labelled = max(1, int((codes != UNDEFINED).sum()))
    rows = {"papers": f"{card.papers:,}", "edges": f"{card.edges:,}"}
    rows |= {f"cd: {name.replace('_', ' ')}": f"{count:,}" for name, count in card.status.items()}
    rows["with a full window"] = f"{card.full_window:,}"
    for code, label in enumerate(Disruption):
        if label is not Disruption.NEUTRAL:
            share = int((codes == code).sum()) / labelled
            rows[f"{label} at |cd| >= {cut:g}"] = f"{share:.1%}"
    rows["with journal pairs"] = f"{card.scored:,}"
    if card.undefined_pair_cells:
        rows["pairs without spread"] = f"{card.undefined_pair_cells:,} of {card.pair_cells:,}"
    return rows | {"seconds": f"{seconds:.1f}", "fingerprint": card.fingerprint}
