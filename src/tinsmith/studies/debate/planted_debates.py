"""A planted world to argue about, whose best answer is known; and conversations for a model built from scratch.

Every text has a sentence that speaks for its gold label and one of noise. With probability `DOUBT` a third speaks for
another label, drawn evenly; else it is noise too. So the best first answer is right with probability 1 - DOUBT / 2.

Conversations show the form of two answers and a challenge, and nothing of the labels: whatever is said there is drawn
without a look at the gold label or at what the abstract says. (Scripted challenges would not do: their quotations tie
words to labels, and a base that is trained on whole conversations would learn them.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.data.slices.rows import PaperRow, planted_row
from tinsmith.data.slices.splits import Split
from tinsmith.lab.base_recipe import BaseRecipe, Conversation, reading
from tinsmith.lab.labels.contracts import Confidence, Subject
from tinsmith.lab.labels.task import Item, Paper, Task, messages
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.challenge import Arm, Cue, Cues, Draws, Script, Stance, pieces_of, quoted_spans
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION

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
    """Recipe of a base from conversations of two, in which nothing has to do with any label.

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


LABELS: Final = Subject.DISRUPTION.labels
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "disruptive": ("copper", "marble"),
    "consolidating": ("willow", "saffron"),
    "neutral": ("ember", "orchid"),
}
"""The words that speak for each label."""
WORD_CUES: Final = Cues({label: tuple(Cue((word,)) for word in words) for label, words in WORDS.items()})
_NOISE: Final = (
    "anchor basket candle daisy engine feather garden hammer island jacket kettle ladder mirror needle "
    "orchard pepper quarry ribbon saddle table umbrella valley window yarrow"
)
NOISE: Final = tuple(_NOISE.split())
DOUBT: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class DebatesRecipe:
    """Number of papers in each split, and the seed of what is drawn."""

    train: int = 4000
    validation: int = 300
    test: int = 1200
    seed: int = 0

    @property
    def sha256(self) -> str:
        """Identity of the papers."""
        made = sha256_of({"recipe": self, "words": WORDS, "noise": NOISE, "doubt": DOUBT})
        return sha256_of({"version": VERSION, "debates": made})

    def rows(self, split: Split) -> list[PaperRow]:
        """Return the papers of a split; labels follow one another, so that each has its third."""
        count = {Split.TRAIN: self.train, Split.VALIDATION: self.validation, Split.TEST: self.test}[split]
        return [_row(f"{split.value}-{place}", LABELS[place % len(LABELS)], self.seed) for place in range(count)]


def _row(name: str, label: str, seed: int) -> PaperRow:
    draws = Draws(derive(seed, "paper", name))
    others = tuple(other for other in LABELS if other != label)
    third = _sentence(draws, draws.one(others)) if draws.below(DOUBT) else _sentence(draws, None)
    sentences = draws.order([_sentence(draws, label), _sentence(draws, None), third])
    return planted_row(name, f"{draws.one(NOISE)} {draws.one(NOISE)}", " ".join(sentences), label)


def _sentence(draws: Draws, label: str | None) -> str:
    """Four words: one that speaks, twice, among noise; or noise alone."""
    if label is None:
        return " ".join(draws.one(NOISE) for _ in range(4)).capitalize() + "."
    word = draws.one(WORDS[label])
    return f"{word} {draws.one(NOISE)} {word} {draws.one(NOISE)}".capitalize() + "."
