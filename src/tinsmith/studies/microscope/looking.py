"""A look through the microscope: two policies' agreement both ways, interventions and the negative control, in a file.

At each token that one of them wrote, the second's choice and its rank in the first are asked. Under correction the
first policy writes, and takes the second's token at the places that a rule chooses. The oracle corrects wherever the
two would take different tokens; the control as many places of the same answer, drawn whatever stands there. Source,
with its taxonomy of tokens: arXiv:2605.06241.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.replay import BASE, Reopened, plan_again, reopened
from tinsmith.lab.rollouts import Rollout, Sampling, sample_groups
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.facts import model_identity, weights_sha256
from tinsmith.lab.service.served_policy import Draw, ServedPolicy, Spread
from tinsmith.lab.study.files import made_once
from tinsmith.lab.user_task.dialogue import Failed, score_group
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.subject import UserRollout, UserSubject
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.errors import BackendError, ConfigError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say

N = TypeVar("N", int, float)
PlanOf = Callable[[str, Mapping[str, str]], Plan]  # Returns the plan of a run by its name and keys.

CANDIDATES: Final = 5  # Ranks that count as the first few.


class Fate(StrEnum):
    """Fate of a token: both would take it, the second's is among the first's few most probable ones, or it is not."""

    UNSHIFTED = "unshifted"
    RERANKED = "reranked"
    SHIFTED = "shifted"


class Writer(StrEnum):
    """Writer of the text that is read: the prefixes on which both policies answer."""

    FIRST = "first"
    SECOND = "second"


class Decoding(StrEnum):
    """Ways to write a text."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


class Rule(StrEnum):
    """Places at which the second's token is taken: where they part, as many drawn ones, or where the first is unsure.

    The last needs no look at the second: the first's entropy is above a threshold.
    """

    ORACLE = "oracle"
    RANDOM = "random"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on one tokenizer, which spells tokens: what the second would do is looked for in the first."""

    first: ServedPolicy
    second: ServedPolicy
    spelled: Callable[[int], str]


class Place(msgspec.Struct, frozen=True):
    """One token of an answer: of the first its entropy in nats, and the rank of the second's most probable token."""

    token: int
    text: str
    rank: int
    entropy: float
    instead: str  # The second's most probable token.

    @property
    def fate(self) -> Fate:
        """Its fate."""
        if self.rank == 1:
            return Fate.UNSHIFTED
        return Fate.RERANKED if self.rank <= CANDIDATES else Fate.SHIFTED


class ItemLook(msgspec.Struct, frozen=True, kw_only=True):
    """All answers to one item, added up; ranks are of the tokens that are not unshifted, entropies of the first."""

    item: str
    tokens: int
    reranked: int
    shifted: int
    ranks: int
    entropy_changed: float
    entropy_same: float

    @property
    def changed(self) -> int:
        """Tokens that are not unshifted."""
        return self.reranked + self.shifted


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one policy, written in one way; `shown` has the first answer to the first few items."""

    writer: Writer
    decoding: Decoding
    items: tuple[ItemLook, ...]
    earned: dict[str, tuple[float, ...]]  # The reward of every answer, by item; failed ones are not among them.
    failures: int
    shown: dict[str, tuple[Place, ...]]


class LookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a look: answers to each item where they are sampled, and the fingerprint of the items as `data`."""

    samples: int
    max_tokens: int
    temperature: float
    threshold: float  # Nats above which the first policy counts as uncertain.
    seed: int
    data: str

    def answers(self, decoding: Decoding) -> int:
        """Return the number of answers to an item."""
        return 1 if decoding is Decoding.GREEDY else self.samples

    def heat(self, decoding: Decoding) -> float:
        """Return the temperature of an answer."""
        return 0.0 if decoding is Decoding.GREEDY else self.temperature


def agreement(
    pair: Pair,
    subject: UserSubject,
    items: Sequence[UserItem],
    writer: Writer,
    decoding: Decoding,
    settings: LookSettings,
    *,
    show: int = 0,
) -> Agreement:
    """Let one policy write answers, and ask both at each of their tokens."""
    sampling = Sampling(
        samples=settings.answers(decoding),
        max_tokens=settings.max_tokens,
        temperature=settings.heat(decoding),
        seed=derive(settings.seed, "agreement"),
    )
    client = (pair.first if writer is Writer.FIRST else pair.second).client
    groups = sample_groups(client, subject, items, sampling)
    rollouts = [one for group in groups for one in group if isinstance(one, Rollout)]
    by_item: dict[str, list[tuple[UserRollout, tuple[Place, ...]]]] = {}
    for one, places in zip(rollouts, _places(pair, rollouts), strict=True):
        by_item.setdefault(one.item.prompt_id, []).append((one, places))
    return Agreement(
        writer=writer,
        decoding=decoding,
        items=tuple(_look(name, [one for _, places in some for one in places]) for name, some in by_item.items()),
        earned={name: tuple(one.answer.total for one, _ in some) for name, some in by_item.items()},
        failures=sum(map(len, groups)) - len(rollouts),
        shown={name: some[0][1] for name, some in list(by_item.items())[:show]},
    )


def _places(pair: Pair, rollouts: Sequence[UserRollout]) -> list[tuple[Place, ...]]:
    texts = [one.sequence() for one in rollouts]
    begins = [one.written().index(True) for one in rollouts]
    second = pair.second.spreads(texts, begins=begins)
    wished = [[token or 0 for token in each.argmax[1:]] for each in second]  # 0: not asked about
    first = pair.first.spreads(texts, wished, begins)
    return [
        tuple(
            Place(
                token=token,
                text=pair.spelled(token),
                rank=known(found.rank[at]),
                entropy=known(found.entropy[at]),
                instead=pair.spelled(wish[at - 1]),
            )
            for at, (token, mine) in enumerate(zip(text, one.written(), strict=True))
            if mine
        )
        for one, text, wish, found in zip(rollouts, texts, wished, first, strict=True)
    ]


def known(value: N | None) -> N:
    """Return a figure that the server has to know."""
    if value is None:
        raise BackendError("the server left out a figure of a distribution")
    return value


def _look(name: str, places: Sequence[Place]) -> ItemLook:
    fates = [one.fate for one in places]
    changed = [one for one in places if one.fate is not Fate.UNSHIFTED]
    return ItemLook(
        item=name,
        tokens=len(places),
        reranked=fates.count(Fate.RERANKED),
        shifted=fates.count(Fate.SHIFTED),
        ranks=sum(one.rank for one in changed),
        entropy_changed=fsum(one.entropy for one in changed),
        entropy_same=fsum(one.entropy for one in places if one.fate is Fate.UNSHIFTED),
    )


@dataclass(slots=True, kw_only=True)
class Line:
    """An answer in the making, under correction; `places` are those of its tokens that the control corrects."""

    prompt: tuple[int, ...]
    seed: int
    places: frozenset[int] = frozenset()
    answer: list[int] = field(default_factory=list[int])
    taken: int = 0  # Tokens that are the second's.
    over: bool = False

    def control_places(self) -> frozenset[int]:
        """Return as many places as were corrected, drawn from the answer's length alone."""
        drawn = sorted(range(len(self.answer)), key=lambda place: derive(self.seed, "control", place))
        return frozenset(drawn[: self.taken])


def write_corrected(
    pair: Pair, rule: Rule, decoding: Decoding, settings: LookSettings, stop: tuple[int, ...], lines: Sequence[Line]
) -> None:
    """Let the first policy write every answer, corrected by the second where the rule says so.

    Each round lets the first go on to the end, and cuts at the first place that is to be corrected; so an answer takes
    one round more than it has corrections.
    """

    def drawn(policy: ServedPolicy, some: Sequence[Line], what: str, most: Sequence[int]) -> list[tuple[int, ...]]:
        draws = [
            Draw(prompt=(*one.prompt, *one.answer), seed=derive(one.seed, what, turn), max_tokens=tokens)
            for one, tokens in zip(some, most, strict=True)
        ]
        return policy.drawn(draws, temperature=settings.heat(decoding), stop=stop)

    def applies(one: Line, at: int, mine: Spread, theirs: Spread) -> bool:
        match rule:
            case Rule.ORACLE:
                return mine.argmax[at] != theirs.argmax[at]
            case Rule.RANDOM:
                return at - len(one.prompt) in one.places
            case Rule.UNCERTAIN:
                return known(mine.entropy[at]) > settings.threshold

    turn = -1
    while going := [one for one in lines if not one.over]:
        turn += 1
        more = drawn(pair.first, going, "go on", [settings.max_tokens - len(one.answer) for one in going])
        texts = [(*one.prompt, *one.answer, *added) for one, added in zip(going, more, strict=True)]
        begins = [len(one.prompt) + len(one.answer) for one in going]
        spreads = [policy.spreads(texts, begins=begins) for policy in (pair.first, pair.second)]
        cut: list[tuple[Line, int]] = []  # Answers that are corrected, and the second's most probable token there.
        for one, begin, text, mine, theirs in zip(going, begins, texts, *spreads, strict=True):
            end = next((at for at in range(begin, len(text)) if applies(one, at, mine, theirs)), None)
            one.answer, one.over = list(text[len(one.prompt) : end]), end is None
            if end is not None:
                cut.append((one, known(theirs.argmax[end])))
        if decoding is Decoding.SAMPLED and cut:
            some = [one for one, _ in cut]
            instead = drawn(pair.second, some, "instead", [1] * len(cut))
            cut = [(one, new[0]) for one, new in zip(some, instead, strict=True)]
        for one, token in cut:
            one.answer.append(token)
            one.taken += 1
            one.over = token in stop or len(one.answer) >= settings.max_tokens


SHOWN: Final = 6  # Conversations whose tokens are kept for the page.


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """Rewards by item of answers that the first policy wrote under correction, without those that failed."""

    rule: Rule
    decoding: Decoding
    earned: dict[str, tuple[float, ...]]
    tokens: int
    taken: int
    failures: int


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A look at two policies."""

    first: str
    second: str  # Each is a hash of weights, or a path.
    agreements: tuple[Agreement, ...]
    interventions: tuple[Intervention, ...]
    control: tuple[Agreement, ...]  # The second against itself.

    def agreement(self, writer: Writer, decoding: Decoding) -> Agreement:
        """Return the answers of one of them, written in one way."""
        return next(one for one in self.agreements if (one.writer, one.decoding) == (writer, decoding))

    def intervention(self, rule: Rule, decoding: Decoding) -> Intervention:
        """Return the answers under one rule."""
        return next(one for one in self.interventions if (one.rule, one.decoding) == (rule, decoding))


@dataclass(frozen=True, slots=True)
class Side:
    """A policy of a run that is there."""

    folder: Path
    when: str  # `base`, a step, or `final`.

    @classmethod
    def of(cls, key: str, text: str) -> Side:
        """Read DIR@WHEN."""
        folder, _, when = text.rpartition("@")
        if not folder:
            raise ConfigError("name a run and when", field=key, value=text, allowed="DIR@base, DIR@STEP or DIR@final")
        if not Path(folder).is_dir():
            raise ConfigError("there is no such folder", field=key, value=folder)
        return cls(Path(folder), when)

    def __str__(self) -> str:
        return f"{self.folder}@{self.when}"


def looked_at(
    sides: tuple[Side, Side], samples: int, threshold: float, plan_of: PlanOf, file: Path, say: Say
) -> Looked:
    """Look for the second policy in the first, or read an earlier look at the very same ones."""
    with ExitStack() as servers:
        opened: dict[Path, Reopened] = {}
        for side in sides:
            folder = side.folder.resolve()
            if folder not in opened:
                plan = plan_again(side.folder, (Kind.TASK, Kind.TASK_SFT), plan_of)
                opened[folder] = servers.enter_context(reopened(plan, side.folder, say))
        first, second = (opened[side.folder.resolve()] for side in sides)
        plan = second.materials.plan
        data = data_of_task(plan)
        if data.task.talk is not None:
            what = "a conversation of several turns is not looked at: corrections are of one reply"
            raise ConfigError(what, field="task", value=plan.experiment.name)
        names = (_name(first, sides[0].when), _name(second, sides[1].when))
        settings = LookSettings(
            samples=samples,
            max_tokens=plan.settings.max_tokens,
            temperature=plan.settings.temperature,
            threshold=threshold,
            seed=plan.settings.seed,
            data=data.split.sha256,
        )

        def make() -> Looked:
            tokenizers = [one.tokenizer() for one in (first, second)]
            if tokenizers[0].get_vocab() != tokenizers[1].get_vocab():
                raise ConfigError("the two do not have the same tokens", field="first", value=names[0])
            subject = UserSubject(task=data.task, split=data.split, renderer=renderer_for(tokenizers[1]))
            items = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
            policies = first.policy(sides[0].when), second.policy(sides[1].when)
            pair = Pair(*policies, spelled=lambda token: str(tokenizers[1].decode([token])))
            return look(pair, subject, items, settings, names)

        return made_once(file, (names, settings), Looked, make)


def _name(one: Reopened, when: str) -> str:
    """Return the name of a policy, whatever folder it lies in: its base's fingerprint, or its weights' hash."""
    if when == BASE:
        known = model_identity(one.connection, one.materials.model_name) or {}
        return f"base {known.get('fingerprint', one.materials.model_name)}"
    path = one.policy(when).model
    return weights_sha256(one.connection, path) or path


def look(
    pair: Pair, subject: UserSubject, items: Sequence[UserItem], settings: LookSettings, names: tuple[str, str]
) -> Looked:
    """Look at two policies."""
    itself = Pair(pair.second, pair.second, pair.spelled)
    return Looked(
        first=names[0],
        second=names[1],
        agreements=tuple(
            agreement(pair, subject, items, writer, decoding, settings, show=SHOWN)
            for writer in Writer
            for decoding in Decoding
        ),
        interventions=tuple(
            one for decoding in Decoding for one in interventions(pair, subject, items, settings, decoding)
        ),
        control=tuple(agreement(itself, subject, items, Writer.SECOND, decoding, settings) for decoding in Decoding),
    )


def interventions(
    pair: Pair, subject: UserSubject, items: Sequence[UserItem], settings: LookSettings, decoding: Decoding
) -> list[Intervention]:
    """Let the first policy write under every rule, and score its answers."""
    stop = tuple(subject.renderer.stop_sequences())
    requests = [(item, sample) for item in items for sample in range(settings.answers(decoding))]
    places = [frozenset[int]()] * len(requests)
    found: list[Intervention] = []
    for rule in Rule:
        lines = [
            Line(
                prompt=subject.renderer.build_generation_prompt(item.messages),
                seed=derive(settings.seed, "intervention", item.prompt_id, sample),
                places=some,
            )
            for (item, sample), some in zip(requests, places, strict=True)
        ]
        write_corrected(pair, rule, decoding, settings, stop, lines)
        if rule is Rule.ORACLE:
            places = [line.control_places() for line in lines]
        earned: dict[str, list[float]] = {}
        for (item, _), line in zip(requests, lines, strict=True):
            (scored,) = score_group(subject.task, item.item, [[subject.text(line.answer)]])
            if not isinstance(scored, Failed):
                earned.setdefault(item.prompt_id, []).append(scored.total)
        found.append(
            Intervention(
                rule=rule,
                decoding=decoding,
                earned={name: tuple(values) for name, values in earned.items()},
                tokens=sum(len(line.answer) for line in lines),
                taken=sum(line.taken for line in lines),
                failures=len(lines) - sum(map(len, earned.values())),
            )
        )
    return found
