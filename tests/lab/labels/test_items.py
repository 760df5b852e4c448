"""Rows become items: the paper without labels, the gold label, and the scores only to be looked for."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import pytest
from task_cases import paper, row

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers
from tinsmith.lab.labels.task import TASKS, Item, Paper, items_of
from tinsmith.lab.papers.worlds import labelled, unlabelled
from tinsmith.renderers.renderer import Message
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


class Letters:
    """Renders a prompt as the code points of its last message."""

    def build_generation_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(map(ord, messages[-1].content))


def test_two_papers_of_one_id_have_prompts_of_their_own() -> None:
    papers = [paper(title="A"), paper(title="B", concepts=cast("Any", ["gear"]))]
    both: list[Item] = unlabelled(papers, TASKS["novelty"])
    study = LabelledPapers(
        task=TASKS["novelty"],
        papers=Papers(train=both, validation=(), test=()),
        renderer=cast("Any", Letters()),
        tokenizer=cast("Any", None),
    )
    prompts = ["".join(map(chr, study.prompt(one))) for one in both]
    assert ["Title: A" in prompts[0], "Title: B" in prompts[1]] == [True, True]


def test_two_labelled_papers_of_one_id_are_refused() -> None:
    with pytest.raises(DataError, match=r"two papers have the same id\n *field: papers\[1\] = 'W1'"):
        labelled([paper(title="A"), paper(title="B")], ["novel", "novel"], TASKS["novelty"])
    with pytest.raises(DataError, match="two papers have the same id"):
        labelled([row(), row(title="B")], None, TASKS["novelty"])
    assert len(labelled([row(), row()], None, TASKS["novelty"])) == 2
