"""B, who challenges a prediction: what it argues for, which words it quotes, in a prompt file's words; and its limits.

Arm and wrong label come from the seed and the paper's id; neither looks at whether the first answer is right. What they
give away all the same is `Arms.discrimination_for_nothing`; nothing with the defaults, so that what is left has to come
from the words that are quoted (docs/adversarial.md).

A text is cut into sentences and these into pieces of at most PIECE words, the first from the sentence's first word on.
A piece's support for a label is the weight of the label's cues in it, minus the largest of the other labels'. Whoever
argues for the gold label quotes the piece with the most support, if any has some. Everyone else quotes a piece without
support, from the same place in its sentence, so that neither place nor capital letter tells one from the other: words
that say nothing, or something else.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Final

import numpy as np

from tinsmith.data.labels import Disruption
from tinsmith.data.sources.world.cues import CUES
from tinsmith.data.sources.world.spec import Cause
from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.labels.prompt_files import read_sections
from tinsmith.lab.labels.task import Item, Paper, check_text
from tinsmith.lab.user_task.task import Ask
from tinsmith.ops.exact import Float64Array, log
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.seeds import derive, random_bits


class Arm(StrEnum):
    """Aim of a challenger, drawn before it is known whether the prediction is right: the gold label, a wrong one, none.

    In the null arm it asks whether the prediction is sure.
    """

    TRUTHFUL = "truthful"
    MISLEADING = "misleading"
    NULL = "null"


class WrongLabel(StrEnum):
    """Wrong label that a misleading challenger argues for: any, which may be the answered one, or one not answered."""

    ANY = "any"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stance:
    """Aim of one challenge: its label (None in the null arm), and whether it quotes words of the paper.

    `grounded` says if these words speak for the label; None where nothing is quoted or nobody knows.
    """

    arm: Arm
    label: str | None
    with_evidence: bool
    grounded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The shares of the arms, and of the challenges with a label those that quote words."""

    truthful: float = 0.25
    misleading: float = 0.5
    null: float = 0.25
    evidence: float = 1.0
    wrong: WrongLabel = WrongLabel.ANY

    def __post_init__(self) -> None:
        shares = (self.truthful, self.misleading, self.null)
        if not all(0.0 <= share <= 1.0 for share in (*shares, self.evidence)):
            raise ConfigError("a share must be from 0 to 1", field="arms", value=(*shares, self.evidence))
        if abs(math.fsum(shares) - 1.0) > 1e-9:
            raise ConfigError("the shares of the arms must sum to 1", field="truthful, misleading, null", value=shares)

    def discrimination_for_nothing(self, num_labels: int) -> float:
        """Return the J, where a label is named, of changing to it: P(changed | wrong) - P(changed | right).

        With truthful and misleading shares t and m and K labels (t - m / (K - 1)) / (t + m); t / (t + m) where B never
        names the answered label, as a B that agrees is then the truthful one.
        """
        named = self.truthful + self.misleading
        if named == 0.0:
            return 0.0
        if self.wrong is WrongLabel.OTHER and num_labels > 2:
            return self.truthful / named
        return (self.truthful - self.misleading / (num_labels - 1)) / named

    def draw(self, item: Item, labels: Sequence[str], answered: str | None, seed: int) -> Stance:
        """Return the stance about an item; `answered` (None: no valid answer) matters only with OTHER."""
        bits = [int(b) for b in random_bits(derive(seed, "stance", item.paper.id), 3)]
        where = _unit(bits[0])
        if where >= self.truthful + self.misleading:
            return Stance(arm=Arm.NULL, label=None, with_evidence=False)
        with_evidence = _unit(bits[1]) < self.evidence
        if where < self.truthful:
            return Stance(arm=Arm.TRUTHFUL, label=item.gold, with_evidence=with_evidence)
        wrong = [label for label in labels if label != item.gold]
        if self.wrong is WrongLabel.OTHER:
            wrong = [label for label in wrong if label != answered] or wrong
        label = wrong[bits[2] % len(wrong)]
        return Stance(arm=Arm.MISLEADING, label=label, with_evidence=with_evidence)


def _unit(bits: int) -> float:
    return (bits >> 11) * 2.0**-53


class Draws:
    """Draws from one seed, one after the other; at most 32."""

    def __init__(self, seed: int) -> None:
        self._bits = iter(random_bits(seed, 32))

    def below(self, share: float) -> bool:
        """Say yes with a probability."""
        return _unit(int(next(self._bits))) < share

    def one(self, choices: Sequence[str]) -> str:
        """Return one of them."""
        return choices[int(next(self._bits)) % len(choices)]

    def order(self, sentences: Sequence[str]) -> list[str]:
        """Return them in another order."""
        keys = [int(next(self._bits)) for _ in sentences]
        return [sentences[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]


PIECE: Final = 8  # Words of the longest quotation; no cue of the synthetic worlds is longer.
_SHORTEST: Final = 3  # A sentence's last piece of fewer words is not quoted.
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Cue:
    """Words that follow one another, in small letters, and how strongly they speak for their label."""

    words: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a paper, as they stand there."""

    text: str
    place: int  # The piece's place in its sentence, from 0 on.


@dataclass(frozen=True, slots=True)
class Cues:
    """The cues of every label."""

    by_label: Mapping[str, tuple[Cue, ...]]
    _by_first_word: Mapping[str, tuple[tuple[str, Cue], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, list[tuple[str, Cue]]] = {}
        for label, cues in self.by_label.items():
            for cue in cues:
                if not 1 <= len(cue.words) <= PIECE:
                    words, allowed = " ".join(cue.words), f"1 to {PIECE}"
                    raise ConfigError("a cue has words", field=f"cues.{label}", value=words, allowed=allowed)
                found.setdefault(cue.words[0], []).append((label, cue))
        index = {word: tuple(cues) for word, cues in found.items()}
        object.__setattr__(self, "_by_first_word", index)

    def support(self, piece: str) -> dict[str, float]:
        """Return each label's support in a piece: the weight of its cues minus the largest other one."""
        words = [plain_word(word) for word in piece.split()]
        weight = dict.fromkeys(self.by_label, 0.0)
        for i, word in enumerate(words):
            for label, cue in self._by_first_word.get(word, ()):
                if tuple(words[i : i + len(cue.words)]) == cue.words:
                    weight[label] += cue.weight
        return {
            label: own - max((other for name, other in weight.items() if name != label), default=0.0)
            for label, own in weight.items()
        }

    def speaking(self, pieces: Sequence[Quote], label: str) -> Quote | None:
        """Return the piece with the most support for a label, the first of several; None where none has any."""
        best, most = None, 0.0
        for piece in pieces:
            if (support := self.support(piece.text).get(label, 0.0)) > most:
                best, most = piece, support
        return best

    def speaks_for(self, pieces: Sequence[Quote]) -> int:
        """Return how many labels some piece speaks for."""
        supports = [self.support(piece.text) for piece in pieces]
        return sum(any(support[label] > 0.0 for support in supports) for label in self.by_label)

    def silent(self, pieces: Sequence[Quote], label: str, seed: int) -> Quote | None:
        """Return a piece without support for a label, from where a piece with support would stand."""
        candidates, places = list[Quote](), list[tuple[float, int]]()
        for i, piece in enumerate(pieces):
            support = self.support(piece.text)
            if support.get(label, 0.0) <= 0.0:
                candidates.append(piece)
            places.append((max(support.values(), default=0.0), -i))
        if not candidates:
            return None
        most, at = max(places)
        place = pieces[-at].place if most > 0.0 else 0
        alike = [piece for piece in candidates if piece.place == place] or candidates
        return alike[int(random_bits(seed, 1)[0]) % len(alike)]


def plain_word(word: str) -> str:
    """Return a word in small letters, without the marks around it."""
    return word.strip(string.punctuation).casefold()


def pieces_of(text: str) -> list[Quote]:
    """Return what can be quoted of a text; a piece with a double quote in it cannot."""
    quotes: list[Quote] = []
    for sentence in _SENTENCE.split(text.strip()):
        words = sentence.split()
        for place, start in enumerate(range(0, len(words), PIECE)):
            piece = words[start : start + PIECE]
            quoted = " ".join(piece).rstrip(".,;:!? ")
            if (len(piece) >= _SHORTEST or start == 0) and quoted and '"' not in quoted:
                quotes.append(Quote(quoted, place))
    return quotes


_CAUSES: Final = {
    Disruption.DISRUPTIVE: Cause.PIONEER,
    Disruption.CONSOLIDATING: Cause.DEVELOPER,
    Disruption.NEUTRAL: Cause.ROUTINE,
}
WORLD_CUES: Final = Cues({label.value: tuple(Cue(words) for words in CUES[cause]) for label, cause in _CAUSES.items()})
"""Those that are planted in the synthetic worlds' abstracts."""
_LETTERS: Final = 4  # Shorter words are not counted: they are mostly grammar.


def learned_cues(items: Sequence[Item], labels: Sequence[str], *, per_label: int = 60, least: int = 5) -> Cues:
    """Return the `per_label` words that papers of each label use more often than the others, with a positive weight.

    A word's weight for a label is the difference of its smoothed log-odds, log((d + 1/2) / (n - d + 1/2)), between
    the papers of that label and the rest; d of n papers use it. It speaks of association, not of causes.
    Source: Monroe, Colaresi, Quinn, Political Analysis 16 (2008), sec. 3.3, with a flat prior.

    The items are training papers only: what it learns from a test paper's label it would quote back. A label has at
    most `per_label` words; those of fewer than `least` papers are left out.
    """
    used: dict[str, Counter[str]] = {label: Counter() for label in labels}
    papers = Counter(item.gold for item in items)
    for item in items:
        words = {plain_word(word) for word in item.paper.abstract.split()}
        used[item.gold].update(word for word in words if len(word) >= _LETTERS and word.isalpha())
    total = sum(used.values(), Counter[str]())
    vocabulary = sorted(word for word, count in total.items() if count >= least)
    cues: dict[str, tuple[Cue, ...]] = {}
    for label in labels:
        n, rest = papers[label], len(items) - papers[label]
        if n == 0 or rest == 0:
            raise DataError("cues need papers of every label", field="gold", value=label)
        inside = np.array([used[label][word] for word in vocabulary], dtype=np.float64)
        outside = np.array([total[word] for word in vocabulary], dtype=np.float64) - inside
        weights: list[float] = (_log_odds(inside, n) - _log_odds(outside, rest)).tolist()
        ranked = sorted(zip(weights, vocabulary, strict=True), key=lambda one: (-one[0], one[1]))
        cues[label] = tuple(Cue((word,), weight) for weight, word in ranked[:per_label] if weight > 0)
    return Cues(cues)


def _log_odds(count: Float64Array, n: int) -> Float64Array:
    return log((count + 0.5) / (n - count + 0.5))


SCRIPTS: Final = ("brief", "plain")
"""Every script by its name: a few words for a model from scratch, whole sentences for a large one."""
_ASKED: Final = frozenset({"argue", "assert", "doubt"})
_RECORD: Final = frozenset({"title", "abstract", "answer", "label"})
_SECTIONS: Final[Mapping[str, frozenset[str]]] = {
    "quoted": frozenset({"label", "quote"}),
    "named": frozenset({"label"}),
    "null": frozenset(),
    "again": frozenset(),
    "argue": _RECORD,
    "assert": _RECORD,
    "doubt": _RECORD - {"label"},
}
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
            what = "this script has no words to ask a model with"
            raise ConfigError(what, field="script", value=self.name, allowed="plain")
        said = {"title": paper.title, "abstract": paper.abstract, "answer": answer, "label": stance.label or ""}
        return Message(role=Role.USER, content=self.sections[section].format_map(said))


@cache
def load_script(name: str) -> Script:
    """Read a script."""
    if name not in SCRIPTS:
        raise ConfigError("there is no such script", field="script", value=name, allowed=SCRIPTS)
    sections, sha256 = read_sections(f"{name}.md", _SECTIONS, "tinsmith.studies.debate")
    return Script(name, sections, sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenger:
    """Someone who challenges, never trained. Equal papers, first answers and seeds give equal challenges.

    It quotes by the rule of tinsmith.studies.debate.challenge, or has a frozen model write what it is to argue for.
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


def quotes(paper: Paper, challenge: str) -> bool:
    """Return True if words of a paper stand between double quotes."""
    record = _record(paper)
    return any((words := " ".join(span.split())) and words in record for span in quoted_spans(challenge))


def _record(paper: Paper) -> str:
    return " ".join(f"{paper.title} {paper.abstract}".split())


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
    record = _record(item.paper)
    own_words = _QUOTED.sub(lambda span: " " if " ".join(span[1].split()) in record else f" {span[1]} ", challenge)
    labelled = (word for word in words_of(own_words) if word in labels and word not in (stance.label, answered))
    for found in (*(key for key in keys if key in challenge.lower()), *labelled):
        what = "a challenge says more than it may; the model was not shown it"
        allowed = f"the label {stance.label}" if stance.label else "no label"
        raise DataError(what, field=f"paper {item.paper.id}", value=found, allowed=allowed)
