"""Rows become items: the paper without labels, the gold label, and the scores only to be looked for."""

from dataclasses import fields

import pytest
from task_cases import row

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.labels.task import TASKS, Paper, items_of
from tinsmith.types.errors import DataError


def test_a_row_becomes_an_item() -> None:
    [one] = items_of([row()], TASKS["disruption"])
    assert one.paper == Paper(
        id="W1",
        title="Gears",
        abstract="We measure gears.",
        year=1999,
        citations=17,
        field="Engineering",
        concepts=("gear",),
    )
    assert (one.gold, one.hidden) == ("neutral", (0.25, 0.5))
    [other] = items_of([row()], TASKS["novelty"])
    assert (other.gold, other.paper) == ("novel", one.paper)


def test_a_paper_has_no_field_for_a_label_or_a_score() -> None:
    secret = {"cd_index", "novelty_score", "conventionality_score", *(s.label_key for s in Subject)}
    assert secret < set(PaperRow.__struct_fields__)
    assert len(fields(Paper)) == len(PaperRow.__struct_fields__) - len(secret)
    assert not any("label" in f.name or "score" in f.name for f in fields(Paper))


def test_a_row_without_the_label_is_refused() -> None:
    rows = [row(), row(openalex_id="W2", novelty_label=None)]
    assert len(items_of(rows, TASKS["disruption"])) == 2
    with pytest.raises(DataError, match="field: novelty_label = None"):
        items_of(rows, TASKS["novelty"])


def test_labels_stand_in_one_order() -> None:
    assert Subject.DISRUPTION.labels == ("disruptive", "consolidating", "neutral")
    assert Subject.NOVELTY.labels == ("novel", "balanced", "conventional")
