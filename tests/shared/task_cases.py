"""Papers, rows and answers that several suites of the tasks use."""

from typing import Any

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.contracts import TWO_KEY, Answer, Confidence
from tinsmith.lab.labels.task import Item, Paper

D, C, N = TWO_KEY.labels


def paper(**changed: Any) -> Paper:
    values: dict[str, Any] = {
        "id": "W1",
        "title": "Gears of {tin}",
        "abstract": "We measure 12 gears with p < 0.001 and a slope of 0.5.",
        "year": 1999,
        "citations": 17,
        "field": "Engineering",
        "concepts": ("gear", "tin"),
    }
    return Paper(**values | changed)


def item(**changed: Any) -> Item:
    return Item(paper=paper(**changed), golds=(N,), hidden=(0.0213471, 0.5, -0.001))


def row(**changed: Any) -> PaperRow:
    values: dict[str, Any] = {
        "openalex_id": "W1",
        "title": "Gears",
        "abstract": "We measure gears.",
        "publication_year": 1999,
        "cited_by_count": 17,
        "cd_index": 0.25,
        "novelty_score": 0.5,
        "conventionality_score": None,
        "disruption_label": Disruption.NEUTRAL,
        "novelty_label": Novelty.NOVEL,
        "primary_field": "Engineering",
        "concepts": ("gear",),
    }
    return PaperRow(**values | changed)


def said(label: str) -> Answer:
    return TWO_KEY.parse(TWO_KEY.answer_text(label, Confidence.LOW))


INVALID = TWO_KEY.parse("{}")
UNPARSED = TWO_KEY.parse("I cannot say.")
THOUGHT = TWO_KEY.parse("<think>hm</think>" + TWO_KEY.answer_text(D, Confidence.LOW))
