"""The adversarial pair's base: it reads debates, is asked for words of abstracts and quotations, and knows no label."""

import json
from dataclasses import replace

import pytest

from tinsmith.data.slices.splits import Split
from tinsmith.lab.labels.task import Item, Paper, make_task
from tinsmith.renderers.renderer import Role
from tinsmith.studies.debate.challenge import load_script, quoted_spans
from tinsmith.studies.debate.planted_debates import (
    LABELS,
    DebateBaseRecipe,
    DebatesRecipe,
    debate_conversations,
    demonstrations,
)
from tinsmith.types.seeds import derive

TASK = make_task("disruption", prompt="brief", contract="two_key")
SCRIPT = load_script("brief")
ITEMS = [
    Item(paper=Paper(id=row.openalex_id, title=row.title, abstract=row.abstract), golds=(LABELS[0],))
    for row in DebatesRecipe(train=240).rows(Split.TRAIN)
]
ASKS_FOR_WORDS = "\nReturn words."


def test_two_of_three_look_back_at_a_text() -> None:
    recipe = DebateBaseRecipe(seed=4)
    shown = demonstrations(ITEMS, TASK, SCRIPT, seed=derive(4, "demonstrations"))
    made = debate_conversations(recipe, TASK, SCRIPT, ITEMS)
    quotations = 0
    for i, (conversation, debate, item) in enumerate(zip(made, shown, ITEMS, strict=True)):
        *received, answered = conversation
        quoted = quoted_spans(debate[-2].content)
        if i % 3 == 0:
            text, before = item.paper.abstract, len(debate) - 3
        elif i % 3 == 1 and quoted:
            text, before = quoted[0], len(debate) - 1
            quotations += 1
        else:
            assert conversation == debate
            continue
        assert answered.role is Role.ASSISTANT
        words = json.loads(answered.content)
        assert len(words) == 3
        assert set(words) <= {word.strip(".,") for word in text.split()}
        assert len(received) == before
        assert tuple(received[:-1]) == debate[: before - 1]
        assert received[-1].content.endswith(ASKS_FOR_WORDS)
        assert text in received[-1].content
    assert quotations > 40, "three in four challenges quote"


@pytest.mark.parametrize("every", [0, 3])
def test_no_gold_label_is_told(every: int) -> None:
    recipe = DebateBaseRecipe(reading_every=every)
    others = [replace(one, golds=(LABELS[i % 3],)) for i, one in enumerate(ITEMS)]
    made = debate_conversations(recipe, TASK, SCRIPT, ITEMS)
    assert made == debate_conversations(recipe, TASK, SCRIPT, others)


def test_without_reading_all_are_debates() -> None:
    recipe = DebateBaseRecipe(reading_every=0)
    shown = demonstrations(ITEMS, TASK, SCRIPT, seed=derive(recipe.seed, "demonstrations"))
    assert debate_conversations(recipe, TASK, SCRIPT, ITEMS) == shown
