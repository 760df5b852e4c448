"""A look through the microscope: agreement both ways, interventions and the negative control, kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.replay import BASE, Reopened, plan_again, reopened
from tinsmith.lab.rollouts import Sampling
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.facts import model_identity, weights_sha256
from tinsmith.lab.study.files import made_once
from tinsmith.lab.user_task.dialogue import Failed, score_group
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.microscope.policies import (
    Agreement,
    Decoding,
    Line,
    Pair,
    Rule,
    Writer,
    Writing,
    agreement,
    control_places,
    corrected,
)
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say

SHOWN: Final = 6  # Conversations whose tokens are kept for the page.


class LookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a look: answers to each item where they are sampled, and the fingerprint of the items as `data`."""

    samples: int
    max_tokens: int
    temperature: float
    threshold: float  # Nats above which the first policy counts as uncertain.
    seed: int
    data: str


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
        """Return it as it was asked for."""
        return f"{self.folder}@{self.when}"


@dataclass(frozen=True, slots=True)
class Look:
    """Amounts of a look, and what returns plans of runs."""

    samples: int
    threshold: float
    plan_of: Callable[[str, Mapping[str, str]], Plan]


def looked_at(asked: Look, sides: tuple[Side, Side], file: Path, say: Say) -> Looked:
    """Look for the second policy in the first, or read an earlier look at the very same ones."""
    with ExitStack() as servers:
        opened: dict[Path, Reopened] = {}
        for side in sides:
            folder = side.folder.resolve()
            if folder not in opened:
                plan = plan_again(side.folder, (Kind.TASK, Kind.TASK_SFT), asked.plan_of)
                opened[folder] = servers.enter_context(reopened(plan, side.folder, say))
        first, second = (opened[side.folder.resolve()] for side in sides)
        plan, data = second.plan, data_of_task(second.plan)
        if data.task.talk is not None:
            what = "a conversation of several turns is not looked at: corrections are of one reply"
            raise ConfigError(what, field="task", value=plan.experiment.name)
        names = (_name(first, sides[0].when), _name(second, sides[1].when))
        settings = LookSettings(
            samples=asked.samples,
            max_tokens=plan.settings.max_tokens,
            temperature=plan.settings.temperature,
            threshold=asked.threshold,
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

    def seen(of: Pair, writer: Writer, decoding: Decoding, show: int) -> Agreement:
        greedy = decoding is Decoding.GREEDY
        sampling = Sampling(
            samples=1 if greedy else settings.samples,
            max_tokens=settings.max_tokens,
            temperature=0.0 if greedy else settings.temperature,
            seed=derive(settings.seed, "agreement"),
        )
        return agreement(of, subject, items, writer, decoding, sampling, show=show)

    return Looked(
        first=names[0],
        second=names[1],
        agreements=tuple(seen(pair, writer, decoding, SHOWN) for writer in Writer for decoding in Decoding),
        interventions=tuple(
            one for decoding in Decoding for one in _interventions(pair, subject, items, settings, decoding)
        ),
        control=tuple(seen(itself, Writer.SECOND, decoding, 0) for decoding in Decoding),
    )


def _interventions(
    pair: Pair, subject: UserSubject, items: Sequence[UserItem], settings: LookSettings, decoding: Decoding
) -> list[Intervention]:
    writing = Writing(
        decoding=decoding,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        stop=tuple(subject.renderer.stop_sequences()),
        threshold=settings.threshold,
    )
    samples = 1 if decoding is Decoding.GREEDY else settings.samples
    owners = [one for one in items for _ in range(samples)]
    lines = [
        Line(
            prompt=subject.renderer.build_generation_prompt(one.messages),
            seed=derive(settings.seed, "intervention", one.prompt_id, sample),
        )
        for one in items
        for sample in range(samples)
    ]
    found: list[Intervention] = []
    for rule in Rule:
        answers = corrected(pair, lines, rule, writing)
        if rule is Rule.ORACLE:
            both = zip(lines, answers, strict=True)
            lines = [replace(line, places=control_places(line, one)) for line, one in both]
        earned: dict[str, list[float]] = {}
        failures = 0
        for owner, answer in zip(owners, answers, strict=True):
            (scored,) = score_group(subject.task, owner.item, [[subject.text(answer.tokens)]])
            if isinstance(scored, Failed):
                failures += 1
            else:
                earned.setdefault(owner.prompt_id, []).append(scored.total)
        found.append(
            Intervention(
                rule=rule,
                decoding=decoding,
                earned={name: tuple(values) for name, values in earned.items()},
                tokens=sum(len(one.tokens) for one in answers),
                taken=sum(one.taken for one in answers),
                failures=failures,
            )
        )
    return found
