"""`tinsmith run taste data=CORPUS`: which of two papers is cited more, as a task; items, replies, page sections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from tinsmith.lab.experiment.key_text import one_of
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Answered, Section, Task
from tinsmith.studies.taste.pairs import Pair
from tinsmith.studies.taste.settings import LETTERS, Answers, PairSettings, Side, Text, pair_settings
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

if TYPE_CHECKING:
    from tinsmith.studies.taste.baselines import Baseline, Fitted
    from tinsmith.studies.taste.pairs import Pair, Sides


JSON_KEY: Final = "more_cited"
_ASKED: Final = "Which of these two papers is cited more?"
_LETTER: Final = re.compile(r"[\s\"'(*]*([AB])\b")
_IN_JSON: Final = re.compile(rf'"{JSON_KEY}"\s*:\s*"([AB])"')

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
    bare = text.strip()
    if answers is Answers.LETTER:
        if bare in LETTERS:
            return Reply(bare, in_form=True)
        found = _LETTER.match(text)
        return None if found is None else Reply(found[1], in_form=False)
    try:
        whole: object = json.loads(bare)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        said = cast(dict[str, object], whole)
        if list(said) == [JSON_KEY] and said[JSON_KEY] in LETTERS:
            return Reply(str(said[JSON_KEY]), in_form=True)
    found = _IN_JSON.search(text)
    return None if found is None else Reply(found[1], in_form=False)


RIGHT: Final = "right"
FIRST: Final = "first"
VALID: Final = "valid"
_GAPS: Final = ((1, 4), (5, 9), (10, 19), (20, 49), (50, None))


def under_swapping(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
    """Count what became of the answers when the papers changed places, of the pairs asked in both orders."""
    by_pair: dict[str, dict[str, Mapping[str, float]]] = {}
    for one in answers:
        by_pair.setdefault(str(one.item["pair"]), {})[str(one.item["order"])] = one.metrics
    both = [(each["ab"], each["ba"]) for each in by_pair.values() if len(each) == 2]
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
        {"of pairs asked in both orders": name, "pairs": found, "share": _share(found, len(both))}
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
            {name: told, "answers": len(each), "right": _share(sum(each), len(each))}
            for (_, told), each in sorted(found.items())
        ]

    return section


def _gap(item: Mapping[str, Any]) -> tuple[int, str]:
    low, high = next(each for each in _GAPS if each[1] is None or item["gap"] <= each[1])
    return low, f"{low} or more" if high is None else f"{low} to {high}"


def _year(item: Mapping[str, Any]) -> tuple[int, str]:
    return int(item["year"]), str(item["year"])


def _field(item: Mapping[str, Any]) -> tuple[int, str] | None:
    return None if item["field"] is None else (0, str(item["field"]))


SECTIONS: Final[Mapping[str, Section]] = {
    "Under swapping": under_swapping,
    "By gap": _by("gap", _gap),
    "By year": _by("year", _year),
    "By field": _by("field", _field),
}
"""By title."""


NAME: Final = "taste"
QUESTION: Final = "Does the model learn which of two papers is cited more?"
CARD: Final = "card.json"
_BASELINES: Final = ("the longer one", "metadata", "TF-IDF")


def require_corpus(data: str) -> Path:
    """Return the folder of a corpus; nothing heavy is imported for a mistake."""
    if not data or not (Path(data) / CARD).is_file():
        raise ConfigError(
            f"pairs are made of a corpus, a folder with {CARD}",
            field="data",
            value=data,
            fix="tinsmith data build --source ... --out DIR, then data=DIR",
        )
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
        from tinsmith.studies.taste.pairs import draw_pairs

        return draw_pairs(Corpus.open(folder), self.settings)

    @cached_property
    def by_id(self) -> Mapping[str, Pair]:
        """Every pair by its name."""
        return {pair.id: pair for side in self.sides.values() for pair in side}

    @cached_property
    def fitted(self) -> Fitted:
        """The baselines, fitted on the training pairs."""
        from tinsmith.studies.taste.baselines import Fitted

        return Fitted(lambda: self.sides[Side.TRAIN], self.settings.text)

    def named(self, baseline: Baseline, item: Item) -> str:
        """Return the letter that a baseline says of an item."""
        from tinsmith.studies.taste.baselines import favours_a

        pair = self.by_id[item["pair"]]
        a = bool(favours_a([pair], self.fitted.scores(baseline, [pair]))[0])
        return LETTERS[0] if a == (item["order"] == "ab") else LETTERS[1]


class _Asked:
    """The items of one side, read when they are gone through."""

    def __init__(self, drawn: DrawnPairs, side: Side) -> None:
        self._drawn = drawn
        self._side = side

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pairs = self._drawn.sides[self._side]
        if not pairs:
            raise ConfigError(
                "there is no pair to evaluate on this side",
                field="evaluate",
                value=self._side.value,
                fix=f"{self._side.value}_pairs above 0, or more years to train on",
            )
        return items_of(pairs, self._drawn.settings.text)


def taste(
    data: str = "",
    match: str = "month",
    window: int = 3,
    thirds: bool = True,
    gap: int = 3,
    text: str = "title",
    train_before: int = 0,
    test_from: int = 0,
    test_before: int = 0,
    pairs: int = 10_000,
    validation_pairs: int = 200,
    test_pairs: int = 2_000,
    draw_seed: int = 0,
    length: str = "any",
    preference: str = "cited",
    answers: str = "letter",
    contract: float = 0.1,
    evaluate: str = "validation",
) -> Task:
    """Return pairs of a corpus's papers: which of the two is cited more?

    data: The corpus: a folder of tinsmith data build.
    match: What a pair has in common: month, or year_field.
    window: Calendar years after publication whose citations count.
    thirds: The upper against the lower third of a matched group.
    gap: Least difference of citations.
    text: What is shown: title, or abstract (title and abstract).
    train_before: Training ends before this year; 0: test_from.
    test_from: The test begins; 0: two years before its end.
    test_before: The test ends; 0: where windows are still closed.
    pairs: Most pairs to train on; each is asked in both orders.
    validation_pairs: Most of the last stretch of training.
    test_pairs: Most pairs of the later years.
    draw_seed: Who meets whom, and which comes first, is drawn from it.
    length: matched: both texts of a pair are equally long; or any.
    preference: shuffled: the right answer is drawn; or cited.
    answers: The form of an answer: letter (A), or json ({"more_cited": "A"}).
    contract: What an answer earns that is in its form and says no more, right or wrong.
    evaluate: What is evaluated: validation (the last training years) or test. Neither is trained on.

    Raises:
        ConfigError: there is no corpus in that folder, or a value is not allowed.
    """
    settings = pair_settings(
        match=match, window=window, thirds=thirds, gap=gap, text=text, length=length, preference=preference,
        train_before=train_before, test_from=test_from, test_before=test_before, draw_seed=draw_seed,
        pairs=pairs, validation_pairs=validation_pairs, test_pairs=test_pairs,
    )  # fmt: skip
    form = one_of("answers", Answers, answers)
    evaluated = one_of("evaluate", Side, evaluate)
    if evaluated is Side.TRAIN:
        raise ConfigError(
            "what is trained on is not evaluated",
            field="evaluate",
            value=evaluated.value,
            allowed=f"{Side.VALIDATION.value}, {Side.TEST.value}",
        )
    if not 0 <= contract < 1:
        raise ConfigError(
            "a form cannot earn as much as a right answer", field="contract", value=contract, allowed="0 to below 1"
        )
    identity = {"scikit-learn": installed_version("scikit-learn")}
    if data:
        identity["corpus"] = file_sha256(require_corpus(data) / CARD)
    drawn = DrawnPairs(data, settings)
    return _task(drawn, form, contract, evaluated, identity)


def _task(drawn: DrawnPairs, form: Answers, contract: float, evaluated: Side, identity: Mapping[str, str]) -> Task:
    def right(item: Item, reply: Reply | None) -> bool:
        return reply is not None and reply.letter == item["answer"]

    def in_form(item: Item, reply: Reply | None) -> float:
        del item
        return contract if reply is not None and reply.in_form else 0.0

    def first(item: Item, reply: Reply | None) -> bool:
        del item
        return reply is not None and reply.letter == LETTERS[0]

    def valid(item: Item, reply: Reply | None) -> bool:
        del item
        return reply is not None

    def shown(item: Item, random: Random) -> str:
        del item
        return written(random.choice(LETTERS), form)

    most = drawn.settings.test_pairs if evaluated is Side.TEST else drawn.settings.validation_pairs
    return Task(
        name=NAME,
        question=QUESTION,
        identity=identity,
        items=_Asked(drawn, Side.TRAIN),
        held_out=_Asked(drawn, evaluated),
        prompt=lambda item: prompt_of(item, form),
        parse=lambda reply: read_reply(reply, form),
        reward={"right": right, "contract": in_form},
        metrics={RIGHT: right, VALID: valid, FIRST: first},
        demonstrate=shown,
        unit=lambda item: item["pair"],
        answer=lambda item: written(item["answer"], form),
        baselines={name: _baseline(drawn, name, form) for name in _BASELINES},
        sections=SECTIONS,
        keys={"max_tokens": 4 if form is Answers.LETTER else 24, "eval_items": max(1, 2 * most)},
    )


def _baseline(drawn: DrawnPairs, name: str, answers: Answers) -> Callable[[Item], str]:
    """Return a baseline as a function of an item."""

    def said(item: Item) -> str:
        from tinsmith.studies.taste.baselines import Baseline

        return written(drawn.named(Baseline(name), item), answers)

    return said
