"""Accuracy of baselines on pairs of papers of a real corpus, on later years: titles, abstracts, matched in length.

    python bench/taste.py CORPUS      # a folder of `tinsmith data build`; docs/taste.md has the figures of cit-HepTh

All training pairs are fitted on (no validation part), all test pairs are asked. One thread.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tinsmith.data.corpus import Corpus
from tinsmith.studies.taste.pairs import Length, PairSettings, Side, Text, draw_pairs
from tinsmith.studies.taste.probe import accuracy
from tinsmith.studies.taste.task import Baseline, Fitted


def main(folder: Path) -> None:
    """Print a line for each baseline and kind of pairs."""
    corpus = Corpus.open(folder)
    for text in Text:
        for length in Length:
            sides = draw_pairs(corpus, PairSettings(text=text, length=length, validation_pairs=0))
            train, test = sides[Side.TRAIN], sides[Side.TEST]
            print(f"text={text} length={length}: {len(train):,} pairs, {len(test):,} of the test")
            fitted = Fitted(lambda train=train: train, text)
            for baseline in Baseline:
                one = accuracy(fitted.right(baseline, test))
                print(f"  {baseline}: {one['accuracy']:.4f} ({one['low']:.4f} to {one['high']:.4f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
