"""Stops a run in which a challenger says more than its stance lets it know.

A truthful challenger knows the gold label by design, and that is exactly what may pass: the one label of
its stance. In no arm may it say anything else that the model is to find out:

- no score of the row, no marker of a score, no key of a label (as in a prompt, see lab/labels/leaks.py);
- no label but the one it argues for, in the null arm none; a label that the model itself has said may be
  repeated, and words quoted letter by letter from the record may be any, the model has read them.

Which arm it is nobody can say: the scripts use the same words in all, and a model that challenges is told
what to argue for, not whether that is true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.labels.leaks import check_text
from tinsmith.lab.labels.paper import Paper
from tinsmith.lab.labels.subjects import Subject
from tinsmith.studies.debate.stance import Stance
from tinsmith.studies.debate.transcript import Transcript
from tinsmith.types.errors import DataError

_QUOTED: Final = re.compile(r'"([^"]*)"')


def quoted_spans(challenge: str) -> tuple[str, ...]:
    """Return what stands between double quotes."""
    return tuple(_QUOTED.findall(challenge))


def check_challenge(
    seen: Transcript, stance: Stance, challenge: str, labels: Sequence[str]
) -> None:
    """Check what a challenger said before the model reads it; `labels`: those of the task.

    Raises:
        DataError: it holds more than it may; names the paper and what was found.
    """
    paper = seen.item.paper
    check_text(seen.item, challenge)
    lowered = challenge.lower()
    for subject in Subject:
        if subject.label_key in lowered:
            raise _leak(paper, stance, subject.label_key)
    record = _spaced(f"{paper.title} {paper.abstract}")
    own_words = _QUOTED.sub(
        lambda span: " " if _spaced(span[1]) in record else f" {span[1]} ", challenge
    )
    said = {answer.predicted for answer in seen.answers}
    for word in words_of(own_words):
        if word in labels and word != stance.label and word not in said:
            raise _leak(paper, stance, word)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _leak(paper: Paper, stance: Stance, found: str) -> DataError:
    return DataError(
        "a challenge says more than it may; the model was not shown it",
        field=f"paper {paper.id}",
        value=found,
        allowed=f"the label {stance.label}" if stance.label else "no label",
    )
