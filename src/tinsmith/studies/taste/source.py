"""`tinsmith run taste data=CORPUS`: which of two papers is cited more, as a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tinsmith.lab.user_task.named import NamedTask, require_only, version_of
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.studies.taste.items import Item, Reply, items_of, prompt_of, read_reply, written
from tinsmith.studies.taste.sections import FIRST, RIGHT, SECTIONS, VALID
from tinsmith.studies.taste.settings import LETTERS, Answers, PairSettings, Side, one_of, pair_keys, pair_settings
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

if TYPE_CHECKING:
    from tinsmith.studies.taste.baselines import Baseline, Fitted
    from tinsmith.studies.taste.pairs import Pair, Sides

NAME: Final = "taste"
QUESTION: Final = "Does the model learn which of two papers is cited more?"
CARD: Final = "card.json"
_BASELINES: Final = ("the longer one", "metadata", "TF-IDF")

_KEYS: Final = (
    OwnKey(name="data", kind=str, default="", words="The corpus: a folder of tinsmith data build."),
    *pair_keys(),
    OwnKey(
        name="answers",
        kind=str,
        default=Answers.LETTER.value,
        words='The form of an answer: letter (A), or json ({"more_cited": "A"}).',
    ),
    OwnKey(
        name="contract",
        kind=float,
        default=0.1,
        words="What an answer earns that is in its form and says no more, right or wrong.",
    ),
    OwnKey(
        name="evaluate",
        kind=str,
        default=Side.VALIDATION.value,
        words="What is evaluated: validation (the last training years) or test. Neither is trained on.",
    ),
)


def taste_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task on the corpus that `data` names.

    Raises:
        ConfigError: there is no corpus in that folder.
    """
    require_only(NAME, rest, fix="data=CORPUS says on what")
    identity = {"scikit-learn": version_of("scikit-learn")}
    if "data" in given:
        identity["corpus"] = file_sha256(require_corpus(given["data"]) / CARD)
    return NamedTask(found_at=NAME, keys=_KEYS, sha256=identity, entry=_made)


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


def _made(values: Mapping[str, Value]) -> Task:
    settings = pair_settings(values)
    answers = one_of("answers", Answers, values)
    evaluated = one_of("evaluate", Side, values)
    if evaluated is Side.TRAIN:
        raise ConfigError(
            "what is trained on is not evaluated",
            field="evaluate",
            value=evaluated.value,
            allowed=f"{Side.VALIDATION.value}, {Side.TEST.value}",
        )
    contract = float(values["contract"])
    if not 0 <= contract < 1:
        raise ConfigError(
            "a form cannot earn as much as a right answer", field="contract", value=contract, allowed="0 to below 1"
        )
    drawn = DrawnPairs(str(values["data"]), settings)

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
        return written(random.choice(LETTERS), answers)

    most = settings.test_pairs if evaluated is Side.TEST else settings.validation_pairs
    return Task(
        name=NAME,
        question=QUESTION,
        items=_Asked(drawn, Side.TRAIN),
        held_out=_Asked(drawn, evaluated),
        prompt=lambda item: prompt_of(item, answers),
        parse=lambda text: read_reply(text, answers),
        reward={"right": right, "contract": in_form},
        metrics={RIGHT: right, VALID: valid, FIRST: first},
        demonstrate=shown,
        unit=lambda item: item["pair"],
        answer=lambda item: written(item["answer"], answers),
        baselines={name: _baseline(drawn, name, answers) for name in _BASELINES},
        sections=SECTIONS,
        keys={"max_tokens": 4 if answers is Answers.LETTER else 24, "eval_items": max(1, 2 * most)},
    )


def _baseline(drawn: DrawnPairs, name: str, answers: Answers) -> Callable[[Item], str]:
    """Return a baseline as a function of an item."""

    def said(item: Item) -> str:
        from tinsmith.studies.taste.baselines import Baseline

        return written(drawn.named(Baseline(name), item), answers)

    return said
