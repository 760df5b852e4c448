"""`tinsmith run taste data=CORPUS`: which of two papers is cited more, as a task; items, replies, page sections.

Baselines are rules and linear models, without a language model. All are antisymmetric: they score each paper of a pair,
or the difference of the two, so that the order in which a pair is asked changes nothing. Where scores are equal, a draw
by the papers' names decides, in both orders alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.experiment.experiment import words_of
from tinsmith.lab.experiment.key_text import OwnKey, one_of
from tinsmith.lab.user_task.calls import with_keys
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Answered, Section, Task, Value
from tinsmith.studies.taste.pairs import LETTERS, Answers, Pair, PairSettings, Side, Sides, Text, draw_pairs
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression


Floats = NDArray[np.float64]
_FEATURES: Final = 50_000
_FEW: Final = 100
"""Below so many texts, words of one text count too."""


class Baseline(StrEnum):
    """The baselines, by the names that a page shows."""

    LONGER = "the longer one"
    METADATA = "metadata"
    TFIDF = "TF-IDF"


def favours_a(pairs: Sequence[Pair], scores: Floats) -> NDArray[np.bool_]:
    """Return, for scores of a minus b, whether a is named; equal scores are decided by the papers' names."""
    drawn = [
        derive(0, "equal", pair.a.id) < derive(0, "equal", pair.b.id) if score == 0 else score > 0
        for pair, score in zip(pairs, scores.tolist(), strict=True)
    ]
    return np.array(drawn, np.bool_)


class Fitted:
    """The baselines of one set of training pairs, each fitted when it is first asked."""

    def __init__(self, train: Callable[[], Sequence[Pair]], text: Text) -> None:
        self._train_of = train
        self._text = text
        self._scorers: dict[Baseline, Callable[[Sequence[Pair]], Floats]] = {}

    def scores(self, baseline: Baseline, pairs: Sequence[Pair]) -> Floats:
        """Return (pairs,) scores: above 0 where a is taken to be cited more; the other order gives the negative."""
        if baseline not in self._scorers:
            self._scorers[baseline] = self._scorer(baseline)
        return self._scorers[baseline](pairs)

    def right(self, baseline: Baseline, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Return (pairs,) whether it names the right paper; in both orders it names the same."""
        gold = np.array([pair.a_right for pair in pairs], np.bool_)
        return favours_a(pairs, self.scores(baseline, pairs)) == gold

    def _scorer(self, baseline: Baseline) -> Callable[[Sequence[Pair]], Floats]:
        if baseline is Baseline.LONGER:
            return lambda pairs: np.array(
                [float(len(one) - len(other)) for one, other in zip(*self._texts(pairs), strict=True)], np.float64
            )
        train = self._train_of()
        if baseline is Baseline.METADATA:
            difference = _known(train)
            scale = np.sqrt((difference**2).mean(axis=0))
            scale[scale == 0] = 1.0
            linear = fit_difference(difference / scale, train).coef_[0]

            def by_metadata(pairs: Sequence[Pair]) -> Floats:
                return _known(pairs) / scale @ linear

            return by_metadata
        import scipy.sparse as sp
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = sum(self._texts(train), list[str]())
        words = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, 2),
            min_df=2 if len(texts) >= _FEW else 1,
            max_features=_FEATURES,
            dtype=np.float64,
        )
        try:
            words.fit(texts)
        except ValueError:  # no word of two letters, or none that two texts have
            return lambda pairs: np.zeros(len(pairs))

        def difference_of(pairs: Sequence[Pair]) -> Floats:
            first, second = (sp.csr_matrix(words.transform(texts)) for texts in self._texts(pairs))
            return first - second

        weights = fit_difference(difference_of(train), train).coef_[0]

        def by_words(pairs: Sequence[Pair]) -> Floats:
            return difference_of(pairs) @ weights

        return by_words

    def _texts(self, pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
        return [pair.a.shown(self._text) for pair in pairs], [pair.b.shown(self._text) for pair in pairs]


def fit_difference(difference: Floats, pairs: Sequence[Pair], strength: float = 1.0) -> LogisticRegression:
    """Fit a logistic regression without intercept on (pairs, features) differences, each pair in both orders."""
    import scipy.sparse as sp
    from sklearn.linear_model import LogisticRegression

    gold = np.array([pair.a_right for pair in pairs], np.int64)
    both = (
        sp.vstack([difference, -difference]) if sp.issparse(difference) else np.concatenate([difference, -difference])
    )
    model = LogisticRegression(C=strength, fit_intercept=False, max_iter=2000, random_state=0)
    return model.fit(both, np.concatenate([gold, 1 - gold]))


def _known(pairs: Sequence[Pair]) -> Floats:
    return np.array([np.subtract(pair.a.known, pair.b.known) for pair in pairs], np.float64)


JSON_KEY: Final = "more_cited"
_PAIR: Final = rf'"{JSON_KEY}"\s*:\s*"([AB])"'
_ASKED: Final = "Which of these two papers is cited more?"
_LETTER: Final = r"[\s\"'(*]*([AB])(?=\W*\Z|[.,:;!)*\"'\]]+\s|\s*\n)"  # A letter before other text is an article.
_READ: Final = {
    Answers.LETTER: (
        re.compile("([AB])"),
        re.compile(rf"(?s:.*)\b[Aa]nswer(?: is:?|:){_LETTER}"),
        re.compile(rf"\A(?!(?s:.*)\n\s*[AB]:){_LETTER}"),  # Where more lines begin so, it repeats the question.
    ),
    Answers.JSON: tuple(map(re.compile, (rf"\{{\s*{_PAIR}\s*\}}", _PAIR))),
}
"""A reply that is all in its form, and those with more around it: the last that it calls its answer, or its first."""

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """Which paper a reply names, and whether it is all that it says, in the form that was asked for."""

    letter: str
    in_form: bool


def items_of(pairs: Sequence[Pair], text: Text) -> Iterator[dict[str, Any]]:
    """Yield two items for each pair, one for each order, beside each other."""
    for pair in pairs:
        for order in ("ab", "ba"):
            first, second = (pair.a, pair.b) if order == "ab" else (pair.b, pair.a)
            yield {
                "id": f"{pair.id}-{order}",
                "pair": pair.id,
                "order": order,
                "first": first.shown(text),
                "second": second.shown(text),
                "answer": LETTERS[0] if pair.a_right == (order == "ab") else LETTERS[1],
                "gap": pair.gap,
                "year": pair.a.year,
                "field": pair.a.field if pair.a.field == pair.b.field else None,
            }


def prompt_of(item: Item, answers: Answers) -> str:
    """Return what is asked about an item."""
    form = " or ".join(written(letter, answers) for letter in LETTERS)
    return f"{_ASKED}\nA: {item['first']}\nB: {item['second']}\nAnswer {form}."


def written(letter: str, answers: Answers) -> str:
    """Return an answer in the form that is asked for."""
    return letter if answers is Answers.LETTER else json.dumps({JSON_KEY: letter})


def read_reply(text: str, answers: Answers) -> Reply | None:
    """Read a reply, in its form or with more around it; None: it names neither paper."""
    whole, *inside = _READ[answers]
    if (found := whole.fullmatch(text.strip())) is not None:
        return Reply(found[1], in_form=True)
    return next((Reply(found[1], in_form=False) for one in inside if (found := one.search(text)) is not None), None)


RIGHT: Final = "right"
FIRST: Final = "first"
VALID: Final = "valid"
_GAPS: Final = ((1, 4), (5, 9), (10, 19), (20, 49), (50, None))


def under_swapping(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
    """Count what became of the answers when the papers changed places, of the pairs asked in both orders.

    The first answer in one order stands beside the first in the other, and so on.
    """
    by_pair: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for one in answers:
        by_pair.setdefault(str(one.item["pair"]), {}).setdefault(str(one.item["order"]), []).append(one.metrics)
    both = [each for some in by_pair.values() if len(some) == 2 for each in zip(some["ab"], some["ba"], strict=False)]
    read = [each for each in both if each[0][VALID] and each[1][VALID]]
    if not both:
        return "No pair was asked in both orders."

    def count(name: str, value: float) -> int:
        return sum(one[name] == value == other[name] for one, other in read)

    counts = {
        "right in both orders": count(RIGHT, 1.0),
        "the same paper named in both": count(RIGHT, 1.0) + count(RIGHT, 0.0),
        "always the first": count(FIRST, 1.0),
        "always the second": count(FIRST, 0.0),
        "an answer that cannot be read": len(both) - len(read),
    }
    return [
        {"of pairs asked in both orders": name, "answers": found, "share": _share(found, len(both))}
        for name, found in counts.items()
    ]


def _share(count: float, of: int) -> str:
    return f"{count / of:.3f}"


def _by(name: str, value_of: Callable[[Mapping[str, Any]], tuple[int, str] | None]) -> Section:
    """Return a section: how many answers are right, by a value of their item; items without it are left out."""

    def section(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
        found: dict[tuple[int, str], list[float]] = {}
        for one in answers:
            value = value_of(one.item)
            if value is not None:
                found.setdefault(value, []).append(one.metrics[RIGHT])
        if not found:
            return f"No pair of this corpus has a {name}."
        return [
            {name: rows, "answers": len(each), "right": _share(sum(each), len(each))}
            for (_, rows), each in sorted(found.items())
        ]

    return section


def _gap(item: Mapping[str, Any]) -> tuple[int, str]:
    low, high = next(each for each in _GAPS if each[1] is None or item["gap"] <= each[1])
    return low, f"{low} or more" if high is None else f"{low} to {high}"


SECTIONS: Final[Mapping[str, Section]] = {
    "Under swapping": under_swapping,
    "By gap": _by("gap", _gap),
    "By year": _by("year", lambda item: (int(item["year"]), str(item["year"]))),
    "By field": _by("field", lambda item: None if item["field"] is None else (0, str(item["field"]))),
}
"""By title."""


NAME: Final = "taste"
QUESTION: Final = "Does the model learn which of two papers is cited more?"
CARD: Final = "card.json"


def require_corpus(data: str) -> Path:
    """Return the folder of a corpus; nothing heavy is imported for a mistake."""
    if not data or not (Path(data) / CARD).is_file():
        what, fix = (
            f"pairs are made of a corpus, a folder with {CARD}",
            "tinsmith data build --source ... --out DIR, then data=DIR",
        )
        raise ConfigError(what, field="data", value=data, fix=fix)
    return Path(data)


class DrawnPairs:
    """The pairs of a corpus, drawn when they are first asked for."""

    def __init__(self, data: str, settings: PairSettings) -> None:
        self._data = data
        self.settings = settings

    @cached_property
    def sides(self) -> Sides:
        """The pairs by side."""
        folder = require_corpus(self._data)
        from tinsmith.data.corpus import Corpus

        return draw_pairs(Corpus.open(folder), self.settings)

    @cached_property
    def by_id(self) -> Mapping[str, Pair]:
        """Every pair by its name."""
        return {pair.id: pair for side in self.sides.values() for pair in side}

    @cached_property
    def fitted(self) -> Fitted:
        """The baselines, fitted on the training pairs."""
        return Fitted(lambda: self.sides[Side.TRAIN], self.settings.text)

    def said(self, baseline: Baseline, form: Answers, item: Item) -> str:
        """Return what a baseline answers to an item."""
        pair = self.by_id[item["pair"]]
        a = bool(favours_a([pair], self.fitted.scores(baseline, [pair]))[0])
        return written(LETTERS[0] if a == (item["order"] == "ab") else LETTERS[1], form)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The items of one side, read when they are gone through."""

    drawn: DrawnPairs
    side: Side

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pairs = self.drawn.sides[self.side]
        if not pairs:
            what, fix = "there is no pair to evaluate on this side", "pairs above 0, or more years to train on"
            raise ConfigError(what, field="evaluate", value=self.side.value, fix=f"{self.side.value}_{fix}")
        return items_of(pairs, self.drawn.settings.text)


_USUAL: Final[Mapping[str, Any]] = asdict(PairSettings())
_CHOICES: Final = {key: type(value) for key, value in _USUAL.items() if isinstance(value, StrEnum)}


def _pair_keys(_: Mapping[str, str]) -> list[OwnKey]:
    """Return the settings of pairs as keys; choices are told as texts."""
    words = words_of(PairSettings)
    plain = {key: str(value) if key in _CHOICES else value for key, value in _USUAL.items()}
    return [OwnKey(name=key, kind=type(value), default=value, words=words[key]) for key, value in plain.items()]


@with_keys(_pair_keys)
def taste(
    data: str = "", answers: str = "letter", contract: float = 0.1, evaluate: str = "validation", **pairs: Value
) -> Task:
    """Return pairs of a corpus's papers: which of the two is cited more?

    data: The corpus: a folder of tinsmith data build.
    answers: The form of an answer: letter (A), or json ({"more_cited": "A"}).
    contract: What an answer earns that is in its form and says no more, right or wrong.
    evaluate: What is evaluated: validation (the last training years) or test. Neither is trained on.
    """
    chosen = {key: one_of(key, _CHOICES[key], str(value)) for key, value in pairs.items() if key in _CHOICES}
    settings = PairSettings(**cast("dict[str, Any]", {**pairs, **chosen}))
    form = one_of("answers", Answers, answers)
    evaluated = one_of("evaluate", Side, evaluate)
    if evaluated is Side.TRAIN:
        what, allowed = "what is trained on is not evaluated", f"{Side.VALIDATION.value}, {Side.TEST.value}"
        raise ConfigError(what, field="evaluate", value=evaluated.value, allowed=allowed)
    if not 0 <= contract < 1:
        what = "a form cannot earn as much as a right answer"
        raise ConfigError(what, field="contract", value=contract, allowed="0 to below 1")
    identity = {"scikit-learn": installed_version("scikit-learn")}
    if data:
        identity["corpus"] = file_sha256(require_corpus(data) / CARD)
    drawn = DrawnPairs(data, settings)
    return _task(drawn, form, contract, evaluated, identity)


def _task(drawn: DrawnPairs, form: Answers, contract: float, evaluated: Side, identity: Mapping[str, str]) -> Task:
    def right(item: Item, reply: Reply | None) -> bool:
        return reply is not None and reply.letter == item["answer"]

    most = drawn.settings.test_pairs if evaluated is Side.TEST else drawn.settings.validation_pairs
    return Task(
        name=NAME,
        question=QUESTION,
        identity=identity,
        items=_Asked(drawn, Side.TRAIN),
        held_out=_Asked(drawn, evaluated),
        prompt=lambda item: prompt_of(item, form),
        parse=lambda reply: read_reply(reply, form),
        reward={"right": right, "contract": lambda _, reply: contract if reply is not None and reply.in_form else 0.0},
        metrics={
            RIGHT: right,
            VALID: lambda _, reply: reply is not None,
            FIRST: lambda _, reply: reply is not None and reply.letter == LETTERS[0],
        },
        demonstrate=lambda _, random: written(random.choice(LETTERS), form),
        unit=lambda item: item["pair"],
        answer=lambda item: written(item["answer"], form),
        baselines={one.value: partial(drawn.said, one, form) for one in Baseline},
        sections=SECTIONS,
        keys={"max_tokens": 4 if form is Answers.LETTER else 24, "eval_items": max(1, 2 * most)},
    )
