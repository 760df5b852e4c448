"""The conversation of two: A predicts, B challenges, A revises or defends in the same form. Used once."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Final, Self

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.labels.leaks import check_text, prompt_messages
from tinsmith.lab.labels.paper import Item, Paper
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.exchange import Exchange, reasons_of
from tinsmith.studies.debate.opponent import Opponent, Pending
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import Stance
from tinsmith.studies.debate.transcript import Awaited, Transcript
from tinsmith.types.errors import DataError, InputError

_TURNS = 2


class Debate:
    """Call `first`, then `reply` until it returns None. B's words come from `opponent`, by the seed.

    After the first `reply` the challenge is on its way; its `message()` is what A hears. From there
    `fork` gives further conversations with the same past.
    """

    def __init__(self, task: Task, item: Item, *, opponent: Opponent, script: Script, seed: int) -> None:
        self._task = task
        self._opponent = opponent
        self._script = script
        self._seed = seed
        self._transcript = Transcript(item=item)
        self._pending: Pending | None = None
        self._challenge: str | None = None

    @property
    def transcript(self) -> Transcript:
        """What was said so far."""
        return self._transcript

    @property
    def stance(self) -> Stance | None:
        """What B argues for; None before it was asked."""
        return None if self._pending is None else self._pending.stance

    def first(self) -> tuple[Message, ...]:
        """Return the messages before the model's first reply.

        Raises:
            DataError: the prompt leaks; the run must stop.
            InputError: the conversation was used before.
        """
        if self._transcript.turns:
            raise InputError("a conversation can be used only once", fix="make a new one for each rollout")
        prompt = prompt_messages(self._task, self._transcript.item)
        for message in prompt:
            self._transcript = self._transcript.with_turn(message)
        return prompt

    def reply(self, text: str) -> Awaited | None:
        """Take an answer. After the first, B is asked; after the second it is over.

        Never raises for what stands in the text.

        Raises:
            InputError: no reply is due.
        """
        given = len(self._transcript.answers)
        due = self._challenge is not None if given else bool(self._transcript.turns)
        if not due or given == _TURNS:
            raise InputError("no reply is due", fix="call first(), reply(), message() of what it returns, reply()")
        # What a tokenizer decodes is text; a text made by hand may hold what no message can.
        said = text.encode(errors="replace").decode()
        message = Message(role=Role.ASSISTANT, content=said)
        self._transcript = self._transcript.with_turn(message, self._task.contract.parse(text))
        if given:
            return None
        self._pending = self._opponent.challenge(self._transcript, self._seed)
        return _Heard(self, self._pending)

    def hear(self, pending: Pending) -> Message:
        """Wait for B's words and enter them, once. For what `reply` returns; nobody else calls it."""
        if self._challenge is None:
            challenge = pending.text()
            labels = self._task.labels
            check_challenge(self._transcript, pending.stance, challenge, labels)
            self._challenge = challenge
            self._transcript = self._transcript.with_turn(self._script.message(challenge))
        return self._script.message(self._challenge)

    def fork(self) -> Self:
        """Return another conversation with the same past, in which the second answer is still to come.

        Raises:
            InputError: B was not heard yet, or the second answer is there.
        """
        if self._challenge is None or len(self._transcript.answers) == _TURNS:
            raise InputError("a conversation forks between the challenge and the second answer")
        return copy.copy(self)

    def exchange(self) -> Exchange:
        """Return the conversation as it is scored.

        Raises:
            InputError: it is not over.
        """
        answers = self._transcript.answers
        if len(answers) != _TURNS or self._pending is None or self._challenge is None:
            raise InputError("the conversation is not over")
        text = self._transcript.turns[-1].message.content
        return Exchange(
            item=self._transcript.item,
            first=answers[0],
            last=answers[1],
            stance=self._pending.stance,
            challenge=self._challenge,
            reasons=reasons_of(self._task.contract, text),
        )


class _Heard:
    """See Awaited."""

    def __init__(self, debate: Debate, pending: Pending) -> None:
        self._debate = debate
        self._pending = pending

    def message(self) -> Message:
        """See Awaited."""
        return self._debate.hear(self._pending)


SCORE_KEYS: Final = ("cd_index", "novelty_score", "conventionality_score")
"""Keys of a slice's scores: a challenger has no reason to name one, whatever number stands behind it."""
_QUOTED: Final = re.compile(r'"([^"]*)"')


def quoted_spans(challenge: str) -> tuple[str, ...]:
    """Return what stands between double quotes."""
    return tuple(_QUOTED.findall(challenge))


def check_challenge(seen: Transcript, stance: Stance, challenge: str, labels: Sequence[str]) -> None:
    """Check what a challenger said before the model reads it; `labels`: those of the task.

    A truthful challenger knows the gold label by design, and the one label of its stance may pass. In no arm may it
    say anything else that the model is to find out: no score of the row, no marker of a score, no key of a label; no
    other label, in the null arm none; a label that the model itself has said may be repeated, and words quoted letter
    by letter from the record may be any. Which arm it is nobody can say: scripts use the same words in all, and a
    model that challenges is told what to argue for, not whether that is true.

    Raises:
        DataError: it holds more than it may; names the paper and what was found.
    """
    paper = seen.item.paper
    check_text(seen.item, challenge)
    lowered = challenge.lower()
    for key in (*(subject.label_key for subject in Subject), *SCORE_KEYS):
        if key in lowered:
            raise _leak(paper, stance, key)
    record = _spaced(f"{paper.title} {paper.abstract}")
    own_words = _QUOTED.sub(lambda span: " " if _spaced(span[1]) in record else f" {span[1]} ", challenge)
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
