"""Baselines: rules and linear models that say which of two papers is cited more, without a language model.

All are antisymmetric: they score each paper of a pair, or the difference of the two, so that the order in which a
pair is asked changes nothing. Where scores are equal, a draw by the papers' names decides, in both orders alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.studies.taste.pairs import Pair
from tinsmith.studies.taste.settings import Text
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
_FEATURES: Final = 50_000
_FEW: Final = 100
"""Below so many texts, words of one text count too."""


class Baseline(StrEnum):
    """The baselines, by the names that a page shows."""

    LONGER = "the longer one"
    METADATA = "metadata"
    TFIDF = "TF-IDF"


def favours_a(pairs: Sequence[Pair], scores: Floats) -> NDArray[np.bool_]:
    """Return, for scores of a minus b, whether a is named; equal scores are decided by the papers' names."""
    drawn = [
        derive(0, "equal", pair.a.id) < derive(0, "equal", pair.b.id) if score == 0 else score > 0
        for pair, score in zip(pairs, scores.tolist(), strict=True)
    ]
    return np.array(drawn, np.bool_)


class Fitted:
    """The baselines of one set of training pairs, each fitted when it is first asked."""

    def __init__(self, train: Callable[[], Sequence[Pair]], text: Text) -> None:
        self._train_of = train
        self._text = text

    def scores(self, baseline: Baseline, pairs: Sequence[Pair]) -> Floats:
        """Return (pairs,) scores: above 0 where a is taken to be cited more; the other order gives the negative."""
        match baseline:
            case Baseline.LONGER:
                first, second = (np.array([len(one) for one in texts], np.float64) for texts in self._texts(pairs))
                return first - second
            case Baseline.METADATA:
                model, scale = self._metadata_model
                return _known(pairs) / scale @ model.coef_[0]
            case Baseline.TFIDF:
                if self._tfidf_model is None:
                    return np.zeros(len(pairs))
                vectorizer, model = self._tfidf_model
                return self._difference(vectorizer, pairs) @ model.coef_[0]

    def right(self, baseline: Baseline, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Return (pairs,) whether it names the right paper; in both orders it names the same."""
        gold = np.array([pair.a_right for pair in pairs], np.bool_)
        return favours_a(pairs, self.scores(baseline, pairs)) == gold

    @cached_property
    def _train(self) -> Sequence[Pair]:
        return self._train_of()

    def _texts(self, pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
        return [pair.a.shown(self._text) for pair in pairs], [pair.b.shown(self._text) for pair in pairs]

    @cached_property
    def _metadata_model(self) -> tuple[LogisticRegression, Floats]:
        difference = _known(self._train)
        scale = np.sqrt((difference**2).mean(axis=0))
        scale[scale == 0] = 1.0
        return fit_difference(difference / scale, self._train), scale

    @cached_property
    def _tfidf_model(self) -> tuple[TfidfVectorizer, LogisticRegression] | None:
        """The words and their weights; None where the texts have no words in common."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = sum(self._texts(self._train), list[str]())
        vectorizer = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, 2),
            min_df=2 if len(texts) >= _FEW else 1,
            max_features=_FEATURES,
            dtype=np.float64,
        )
        try:
            vectorizer.fit(texts)
        except ValueError:  # no word of two letters, or none that two texts have
            return None
        return vectorizer, fit_difference(self._difference(vectorizer, self._train), self._train)

    def _difference(self, vectorizer: TfidfVectorizer, pairs: Sequence[Pair]) -> Floats:
        import scipy.sparse as sp

        first, second = (sp.csr_matrix(vectorizer.transform(texts)) for texts in self._texts(pairs))
        return first - second


def fit_difference(difference: Floats, pairs: Sequence[Pair], strength: float = 1.0) -> LogisticRegression:
    """Fit a logistic regression without intercept on (pairs, features) differences, each pair in both orders."""
    import scipy.sparse as sp
    from sklearn.linear_model import LogisticRegression

    gold = np.array([pair.a_right for pair in pairs], np.int64)
    both = (
        sp.vstack([difference, -difference]) if sp.issparse(difference) else np.concatenate([difference, -difference])
    )
    model = LogisticRegression(C=strength, fit_intercept=False, max_iter=2000, random_state=0)
    return model.fit(both, np.concatenate([gold, 1 - gold]))


def _known(pairs: Sequence[Pair]) -> Floats:
    return np.array([np.subtract(pair.a.known, pair.b.known) for pair in pairs], np.float64)
