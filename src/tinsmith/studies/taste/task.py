"""`tinsmith run taste data=CORPUS`: which of two papers is cited more, as a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.taste.items import Item, Reply, items_of, prompt_of, read_reply, written
from tinsmith.studies.taste.sections import FIRST, RIGHT, SECTIONS, VALID
from tinsmith.studies.taste.settings import LETTERS, Answers, PairSettings, Side, one_of, pair_settings
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

if TYPE_CHECKING:
    from tinsmith.studies.taste.baselines import Baseline, Fitted
    from tinsmith.studies.taste.pairs import Pair, Sides

NAME: Final = "taste"
QUESTION: Final = "Does the model learn which of two papers is cited more?"
CARD: Final = "card.json"
_BASELINES: Final = ("the longer one", "metadata", "TF-IDF")


def require_corpus(data: str) -> Path:
    """Return the folder of a corpus; nothing heavy is imported for a mistake.

    Raises:
        ConfigError: there is none.
    """
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
