"""Fitted baselines: their input from each paper, and their model; single-threaded, with fixed seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tinsmith.data.slices.rows import PaperRow

if TYPE_CHECKING:  # scikit-learn takes a second to load, and most runs find their baselines fitted
    from sklearn.feature_extraction.text import TfidfVectorizer

_FEATURES = 50_000  # most frequent words and pairs of words
_BINS = 8  # steps in which a linear model sees a number
_FIELDS = 60  # most frequent fields told apart; the rest are one
_FEW = 100  # below so many rows, words of one paper count too
_BLOCK = 10_000  # test rows vectorised at once


@dataclass(frozen=True, slots=True, eq=False)
class Metadata:
    """Year, citations and field as numbers, as far as the training rows have them."""

    names: tuple[str, ...]
    """Names of the columns, in order."""
    left_out: dict[str, str]
    """Columns that the slice does not have, with reasons."""
    fields: tuple[str, ...]
    """Distinguished fields, most frequent first."""
    edges: tuple[NDArray[np.float64], ...]
    """Inner bounds of the bins of each column."""

    @classmethod
    def learn(cls, rows: Sequence[PaperRow]) -> Metadata:
        """Determine columns, fields and bins from the training rows."""
        counts = Counter(row.primary_field for row in rows if row.primary_field is not None)
        fields = tuple(sorted(counts, key=lambda name: (-counts[name], name))[:_FIELDS])
        table = _numbers(rows, fields)
        present, left_out = list[str](), dict[str, str]()
        for column, name in enumerate(_COLUMNS):
            if np.isnan(table[:, column]).all():
                left_out[name] = "no training row has it"
            else:
                present.append(name)
        edges = tuple(
            np.arange(0.5, len(fields))
            if name == "field"
            else np.unique(np.nanquantile(table[:, _COLUMNS.index(name)], _INNER))
            for name in present
        )
        return cls(tuple(present), left_out, fields, edges)

    def numbers(self, rows: Sequence[PaperRow]) -> NDArray[np.float64]:
        """Return (n, columns); a missing value is NaN, a rare field the last number."""
        table = _numbers(rows, self.fields)
        return table[:, [_COLUMNS.index(name) for name in self.names]]

    def steps(self, rows: Sequence[PaperRow]) -> sp.csr_matrix:
        """Return the same with each number as a one-hot step, for a linear model; (n, steps) sparse."""
        table = self.numbers(rows)
        blocks: list[sp.csr_matrix] = []
        for column, edges in zip(table.T, self.edges, strict=True):
            step = np.where(np.isnan(column), len(edges) + 1, np.digitize(column, edges))
            ones = np.ones(len(column))
            place = (np.arange(len(column)), step.astype(np.int64))
            blocks.append(sp.csr_matrix((ones, place), shape=(len(column), len(edges) + 2)))
        return sp.csr_matrix(sp.hstack(blocks))


_COLUMNS = ("year", "citations", "field")
_INNER = np.linspace(0, 1, _BINS + 1)[1:-1]


def _numbers(rows: Sequence[PaperRow], fields: Sequence[str]) -> NDArray[np.float64]:
    place = {name: number for number, name in enumerate(fields)}

    def number(value: int | None) -> float:
        return np.nan if value is None else float(value)

    return np.array(
        [
            (
                number(row.publication_year),
                number(row.cited_by_count),
                number(None) if row.primary_field is None else place.get(row.primary_field, len(fields)),
            )
            for row in rows
        ],
        np.float64,
    ).reshape(-1, len(_COLUMNS))


def boosted(
    metadata: Metadata, train: Sequence[PaperRow], gold: NDArray[np.int64], test: Sequence[PaperRow]
) -> NDArray[np.int64]:
    """Predict the test rows' classes (n,) by gradient boosting on the metadata alone."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    categorical = [name == "field" for name in metadata.names]
    # scikit-learn accepts more types than its docstrings declare.
    model = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=100,
        max_leaf_nodes=8,
        early_stopping=False,  # pyright: ignore[reportArgumentType]
        categorical_features=categorical,  # pyright: ignore[reportArgumentType]
        random_state=0,
    )
    model.fit(metadata.numbers(train), gold)
    return np.asarray(model.predict(metadata.numbers(test)), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Titles and abstracts as weighted words and pairs of words."""

    vectorizer: TfidfVectorizer
    train: sp.csr_matrix
    """(training rows, features)"""

    @classmethod
    def learn(cls, rows: Sequence[PaperRow]) -> Texts | None:
        """Learn the vocabulary of the training rows and vectorise them; None if they have none."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, 2),
            min_df=2 if len(rows) >= _FEW else 1,
            max_features=_FEATURES,
            dtype=np.float64,
        )
        try:
            return cls(vectorizer, sp.csr_matrix(vectorizer.fit_transform(_texts(rows))))
        except ValueError:  # no word of two letters, or none that two texts share
            return None


def linear(
    texts: Texts,
    metadata: Metadata | None,
    train: Sequence[PaperRow],
    gold: NDArray[np.int64],
    test: Sequence[PaperRow],
) -> NDArray[np.int64]:
    """Predict the test rows' classes (n,) by logistic regression on text, with metadata if given."""
    from sklearn.linear_model import LogisticRegression

    features = texts.train
    if metadata is not None:
        features = sp.csr_matrix(sp.hstack([features, metadata.steps(train)]))
    model = LogisticRegression(max_iter=1000, random_state=0)
    model.fit(features, gold)
    predicted = [np.zeros(0, np.int64)]
    for block in _blocks(test):
        features = sp.csr_matrix(texts.vectorizer.transform(_texts(block)))
        if metadata is not None:
            features = sp.csr_matrix(sp.hstack([features, metadata.steps(block)]))
        predicted.append(np.asarray(model.predict(features), np.int64))
    return np.concatenate(predicted)


def _blocks(rows: Sequence[PaperRow]) -> Iterator[Sequence[PaperRow]]:
    for start in range(0, len(rows), _BLOCK):
        yield rows[start : start + _BLOCK]


def _texts(rows: Sequence[PaperRow]) -> list[str]:
    return [f"{row.title}\n{row.abstract}" for row in rows]
