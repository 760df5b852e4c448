"""Cross-validation of a classifier of papers: one price, one base and one server for all folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, time_and_disk
from tinsmith.lab.papers.estimate import minutes
from tinsmith.lab.papers.labels import task_asked
from tinsmith.lab.papers.sets import AnyPaper, labelled
from tinsmith.stats.rates import Metric
from tinsmith.studies.disruption.estimators import PaperClassifier
from tinsmith.studies.disruption.shared_server import SharedServer
from tinsmith.types.errors import ConfigError


def cross_val_score(
    model: PaperClassifier,
    papers: Sequence[AnyPaper],
    y: Sequence[str] | None = None,
    *,
    cv: int = 5,
    metric: str = Metric.MACRO_F1.value,
) -> NDArray[np.float64]:
    """Return [cv] scores: each fold's papers, by a copy of the model that was fitted on all others.

    As scikit-learn's function of this name, which works too; this one says beforehand what all fits take, and starts
    one server for them. Folds have the labels' shares and are drawn by the model's seed. Without `y` the labels are
    those of the rows.

    Raises:
        ConfigError, DataError: a parameter or the papers are not allowed.
        LostError: the server was lost.
    """
    plan = model.plan()
    labels = [item.gold for item in labelled(papers, y, task_asked(plan))]
    smallest = min(Counter(labels).values(), default=0)
    if not 2 <= cv <= smallest:
        allowed = f"2 to {smallest}, the papers of the rarest label"
        raise ConfigError("so many folds cannot be made", field="cv", value=cv, allowed=allowed)
    taken = minutes(plan)
    each = "" if taken is None else f", each {taken:.1f}"
    model.tell(f"{cv} fits on one server: {time_and_disk(taken and cv * taken, cv * RUN_MEGABYTES)}{each}")
    folds = StratifiedKFold(cv, shuffle=True, random_state=plan.settings.seed % 2**32).split(labels, labels)
    server, scores, left = SharedServer(), list[float](), list[PaperClassifier]()
    try:
        for number, (train, test) in enumerate(folds, 1):
            fold = model.__sklearn_clone__()
            left.append(fold)
            fold.fit_through(server, [papers[i] for i in train], [labels[i] for i in train])
            scores.append(fold.score([papers[i] for i in test], [labels[i] for i in test], metric=metric))
            model.tell(f"fold {number} of {cv}: {metric} {scores[-1]:.3f}")
    finally:
        for fold in left:
            fold.close()
        server.close()
    return np.array(scores)
