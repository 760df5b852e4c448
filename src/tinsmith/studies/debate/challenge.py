"""B, who challenges a prediction: what it argues for, in the words of a prompt file, and what it may not say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Final

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.labels.prompt_files import read_sections
from tinsmith.lab.labels.task import Item, Paper, check_text
from tinsmith.lab.user_task.task import Ask
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.cues import WORLD_CUES, Cues, Quote, pieces_of
from tinsmith.studies.debate.stance import Arm, Arms, Stance
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.seeds import derive, random_bits

SCRIPTS: Final = ("brief", "plain")
"""Every script by its name: a few words for a model from scratch, whole sentences for a large one."""
_ASKED: Final = frozenset({"argue", "assert", "doubt"})
_RECORD: Final = frozenset({"title", "abstract", "answer", "label"})
_SECTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "quoted": frozenset({"label", "quote"}),
        "named": frozenset({"label"}),
        "null": frozenset(),
        "again": frozenset(),
        "argue": _RECORD,
        "assert": _RECORD,
        "doubt": _RECORD - {"label"},
    }
)
"""Said by a scripted challenger, one wording a line: quoted, named, null. Said after any challenge: again.
What a model is asked that is to challenge: argue, assert, doubt; a file may leave these out."""


@dataclass(frozen=True, slots=True)
class Script:
    """One prompt file; `sha256` is its identity."""

    name: str
    sections: Mapping[str, str]
    sha256: str

    @property
    def asks_models(self) -> bool:
        """True if a model can be asked to challenge by it."""
        return self.sections.keys() >= _ASKED

    def line(self, stance: Stance, quote: str | None, seed: int) -> str:
        """Return the challenge: one of the wordings, by the seed alone."""
        section = "null" if stance.label is None else "named" if quote is None else "quoted"
        said = {"label": stance.label or "", "quote": quote or ""}
        wordings = self.sections[section].format_map(said).split("\n")
        return wordings[int(random_bits(seed, 1)[0]) % len(wordings)]

    def message(self, challenge: str) -> Message:
        """Return what the model hears: the challenge, and the request to answer again."""
        return Message(role=Role.USER, content=f"{challenge}\n{self.sections['again'].format_map({})}")

    def request(self, stance: Stance, paper: Paper, answer: str) -> Message:
        """Return what a model is asked that is to challenge an answer.

        It is told what to argue for and not whether that is true: the same words stand in the
        truthful and the misleading arm.
        """
        section = "doubt" if stance.label is None else "argue" if stance.with_evidence else "assert"
        if section not in self.sections:
            raise ConfigError(
                "this script has no words to ask a model with", field="script", value=self.name, allowed="plain"
            )
        said = {"title": paper.title, "abstract": paper.abstract, "answer": answer, "label": stance.label or ""}
        return Message(role=Role.USER, content=self.sections[section].format_map(said))


@cache
def load_script(name: str) -> Script:
    """Read a script."""
    if name not in SCRIPTS:
        raise ConfigError("there is no such script", field="script", value=name, allowed=", ".join(SCRIPTS))
    sections, sha256 = read_sections(f"{name}.md", _SECTIONS, "tinsmith.studies.debate")
    return Script(name, MappingProxyType(sections), sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenger:
    """Someone who challenges, never trained. Equal papers, first answers and seeds give equal challenges.

    It quotes by the rule of tinsmith.studies.debate.cues, or has a frozen model write what it is to argue for.
    """

    labels: tuple[str, ...]
    script: Script
    arms: Arms = field(default_factory=Arms)
    cues: Cues = WORLD_CUES
    is_model: bool = False

    def stance(self, item: Item, answered: str | None, seed: int) -> tuple[Stance, Quote | None]:
        """Return what it argues for, with which words of the paper; whether a model's speak for it nobody knows."""
        stance = self.arms.draw(item, self.labels, answered, seed)
        if self.is_model or stance.label is None or not stance.with_evidence:
            return stance, None
        here = derive(derive(seed, "words", item.paper.id), "quote")
        abstract, title = pieces_of(item.paper.abstract), pieces_of(item.paper.title)
        # Only who argues for the gold label may have words for it; others quote what does not speak for it.
        if stance.arm is Arm.TRUTHFUL and (speaking := self.cues.speaking(abstract, stance.label)) is not None:
            return replace(stance, grounded=True), speaking
        quote = self.cues.silent(abstract, stance.label, here) or self.cues.silent(title, stance.label, here)
        return replace(stance, with_evidence=quote is not None, grounded=None if quote is None else False), quote

    def challenge(self, item: Item, answered: str | None, answer: str, seed: int) -> str | Ask:
        """Return what A hears after its first answer, `answer`, which has the label `answered`; or who is asked."""
        stance, quote = self.stance(item, answered, seed)

        def heard(challenge: str) -> str:
            check_challenge(item, answered, stance, challenge.strip(), self.labels)
            return self.script.message(challenge.strip()).content

        if self.is_model:
            return Ask(self.script.request(stance, item.paper, answer).content, heard)
        here = derive(seed, "words", item.paper.id)
        return heard(self.script.line(stance, None if quote is None else quote.text, derive(here, "wording")))

    def words(self, heard: str) -> str:
        """Return a challenge without the request to answer again."""
        return heard.removesuffix(self.script.message("").content)


def arguable(items: Iterable[Item], cues: Cues = WORLD_CUES) -> list[Item]:
    """Return the papers whose abstract has words for their gold label, so that a truthful challenger has evidence.

    In the synthetic worlds these are two in three. Choosing them makes every task about them easier, with
    and without a challenger: compare only what was measured on the same papers.
    """
    return [item for item in items if cues.speaking(pieces_of(item.paper.abstract), item.gold) is not None]


SCORE_KEYS: Final = ("cd_index", "novelty_score", "conventionality_score")
"""Keys of a slice's scores: a challenger has no reason to name one, whatever number stands behind it."""
_QUOTED: Final = re.compile(r'"([^"]*)"')


def quoted_spans(challenge: str) -> tuple[str, ...]:
    """Return what stands between double quotes."""
    return tuple(_QUOTED.findall(challenge))


def check_challenge(item: Item, answered: str | None, stance: Stance, challenge: str, labels: Sequence[str]) -> None:
    """Check what a challenger said before the model reads it; `labels`: those of the task.

    A truthful challenger knows the gold label by design, and the one label of its stance may pass. In no arm may it
    say anything else that the model is to find out: no score of the row, no marker of a score, no key of a label; no
    other label, in the null arm none; a label that the model itself has said may be repeated, and words quoted letter
    by letter from the record may be any. Which arm it is nobody can say: scripts use the same words in all, and a
    model that challenges is told what to argue for, not whether that is true.
    """
    check_text(item, challenge)
    keys = (*(subject.label_key for subject in Subject), *SCORE_KEYS)
    record = " ".join(f"{item.paper.title} {item.paper.abstract}".split())
    own_words = _QUOTED.sub(lambda span: " " if " ".join(span[1].split()) in record else f" {span[1]} ", challenge)
    labelled = (word for word in words_of(own_words) if word in labels and word not in (stance.label, answered))
    for found in (*(key for key in keys if key in challenge.lower()), *labelled):
        what = "a challenge says more than it may; the model was not shown it"
        allowed = f"the label {stance.label}" if stance.label else "no label"
        raise DataError(what, field=f"paper {item.paper.id}", value=found, allowed=allowed)
