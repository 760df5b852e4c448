"""Conversations for a model built from scratch: the form of two answers and a challenge, and nothing of the labels.

Whatever is said here is drawn without a look at the gold label or at what the abstract says: both labels,
the challenge's label, the words it quotes, reasons and signals. (A challenge by ScriptedOpponent would not
do: its quotations tie words to labels, and a base that is trained on whole conversations would learn them.)
What can be learnt: the JSON, that signals are words of the abstract, that a second answer often has the
first one's label or the challenge's, equally often for right and wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.lab.base_recipe import BaseRecipe, Conversation, reading
from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.labels.leaks import messages
from tinsmith.lab.labels.paper import Item, Paper
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.challenge import quoted_spans
from tinsmith.studies.debate.cues import pieces_of
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import Arm, Draws, Stance
from tinsmith.types.seeds import derive

MEANINGS = ("It replaces.", "It builds on.", "It is narrow.")
"""Justifications: what the labels of disruption mean, as short as can be, under any label whatever."""
_SIGNAL = 2  # Words of a signal.
_KEEPING, _FOLLOWING, _NULL = 0.4, 0.3, 0.25
"""Shares of second answers with the first one's label, or the challenge's; and of challenges that name no label."""


def demonstrations(items: Sequence[Item], task: Task, script: Script, *, seed: int) -> list[tuple[Message, ...]]:
    """Return one conversation a paper: prompt, answer, challenge, answer.

    Conversation i depends on the seed, i and paper i only; never on a gold label.
    """
    return [_conversation(item.paper, task, script, derive(seed, "debate", i)) for i, item in enumerate(items)]


def _conversation(paper: Paper, task: Task, script: Script, seed: int) -> tuple[Message, ...]:
    draws, labels = Draws(derive(seed, "draws")), task.labels
    first, claimed, last = draws.one(labels), draws.one(labels), draws.one(labels)
    pieces = [piece.text for piece in pieces_of(paper.abstract)] or [paper.title or "nothing"]
    stance = Stance(arm=Arm.NULL, label=None, with_evidence=False)
    quote = None
    if not draws.below(_NULL):
        quote = draws.one(pieces)
        draws.below(1.0)  # all that claim something quote words
        stance = Stance(arm=Arm.MISLEADING, label=claimed, with_evidence=True)
    if draws.below(_KEEPING):
        last = first
    elif stance.label is not None and draws.below(_FOLLOWING / (1.0 - _KEEPING)):
        last = stance.label

    def answer(label: str, claimed: str | None) -> Message:
        """An answer; half of those to a claim take it up by its name."""
        reason = draws.one(MEANINGS)
        if draws.below(0.5) and claimed is not None:
            reason = f"{reason} Not {claimed}."
        signals = [" ".join(draws.one(pieces).split()[:_SIGNAL]) for _ in range(2)]
        confidence = Confidence(draws.one(tuple(Confidence)))
        text = task.contract.answer_text(label, confidence, justification=reason, signals=signals)
        return Message(role=Role.ASSISTANT, content=text)

    challenge = script.message(script.line(stance, quote, derive(seed, "wording")))
    return (*messages(task, paper), answer(first, None), challenge, answer(last, stance.label))


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateBaseRecipe(BaseRecipe):
    """How a base is built from conversations of two, in which nothing has to do with any label.

    A model that never had to look back at a quotation learns to stand firm long before it finds anything there, and
    then has nothing left to learn from; so some conversations ask for words of what is quoted.
    """

    vocab_size: int = 512
    steps: int = 1000
    batch_size: int = 24
    reading_every: int = 3
    """Of so many papers, one is asked for words of its abstract instead of a label, and one for words of a quotation
    instead of a second label; 0: none."""


def debate_conversations(
    recipe: DebateBaseRecipe, task: Task, script: Script, items: Sequence[Item]
) -> list[Conversation]:
    """Make one conversation a paper."""
    every = recipe.reading_every
    debates = demonstrations(items, task, script, seed=derive(recipe.seed, "demonstrations"))
    conversations: list[Conversation] = []
    for i, (item, debate) in enumerate(zip(items, debates, strict=True)):
        heard, text = debate[:-1], ""
        if every and i % every == 0:
            heard, text = messages(task, item.paper), item.paper.abstract
        elif every and i % every == 1:
            text = next(iter(quoted_spans(heard[-1].content)), "")
        if heard != debate[:-1] or text:
            asked, answer = reading(heard, text, derive(recipe.seed, "words", i))
            debate = (*asked, Message(role=Role.ASSISTANT, content=answer))
        conversations.append(debate)
    return conversations
