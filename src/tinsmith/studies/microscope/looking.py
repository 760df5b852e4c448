"""A look through the microscope: agreement both ways, interventions and the negative control, as a value on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.lab.rollouts import Sampling
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.scoring import Failed, score_group
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.studies.microscope.agreement import Agreement, Decoding, Pair, Writer, agreement
from tinsmith.studies.microscope.interventions import Corrected, Line, Rule, Writing, control_places, corrected
from tinsmith.types.seeds import derive

SHOWN: Final = 6
"""Conversations whose tokens are kept for the page."""


class LookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a look."""

    samples: int
    """Answers to each item where they are sampled."""
    max_tokens: int
    temperature: float
    threshold: float
    """Nats above which the first policy counts as uncertain."""
    seed: int
    data: str
    """Fingerprint of the items."""


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """Rewards of answers that the first policy wrote under correction."""

    rule: Rule
    decoding: Decoding
    earned: dict[str, tuple[float, ...]]
    """By item; failed ones are not among them."""
    tokens: int
    taken: int
    failures: int


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A look at two policies."""

    first: str
    second: str
    """Each is a hash of weights, or a path."""
    agreements: tuple[Agreement, ...]
    interventions: tuple[Intervention, ...]
    control: tuple[Agreement, ...]
    """The second against itself."""

    def agreement(self, writer: Writer, decoding: Decoding) -> Agreement:
        """Return the answers of one of them, written in one way."""
        return next(one for one in self.agreements if (one.writer, one.decoding) == (writer, decoding))

    def intervention(self, rule: Rule, decoding: Decoding) -> Intervention:
        """Return the answers under one rule."""
        return next(one for one in self.interventions if (one.rule, one.decoding) == (rule, decoding))


def look(
    pair: Pair, subject: UserSubject, items: Sequence[UserItem], settings: LookSettings, names: tuple[str, str]
) -> Looked:
    """Look at two policies.

    Raises:
        BackendError: the server does not tell whole distributions, or failed.
    """
    itself = Pair(pair.second, pair.second, pair.spelled)

    def seen(of: Pair, writer: Writer, decoding: Decoding, show: int) -> Agreement:
        return agreement(of, subject, items, writer, decoding, _sampling(settings, decoding), show=show)

    return Looked(
        first=names[0],
        second=names[1],
        agreements=tuple(seen(pair, writer, decoding, SHOWN) for writer in Writer for decoding in Decoding),
        interventions=tuple(
            one for decoding in Decoding for one in _interventions(pair, subject, items, settings, decoding)
        ),
        control=tuple(seen(itself, Writer.SECOND, decoding, 0) for decoding in Decoding),
    )


def saved(file: Path, names: tuple[str, str], settings: LookSettings) -> Looked | None:
    """Return an earlier look at these policies with these settings; None: there is none."""
    if not file.is_file():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Saved)
    except msgspec.DecodeError:
        return None
    same = (found.looked.first, found.looked.second) == names and found.settings == settings
    return found.looked if same else None


def save(file: Path, settings: LookSettings, looked: Looked) -> None:
    """Write a look; the file appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_bytes(msgspec.json.encode(_Saved(settings, looked)) + b"\n")


class _Saved(msgspec.Struct, frozen=True):
    settings: LookSettings
    looked: Looked


def _sampling(settings: LookSettings, decoding: Decoding) -> Sampling:
    greedy = decoding is Decoding.GREEDY
    return Sampling(
        samples=1 if greedy else settings.samples,
        max_tokens=settings.max_tokens,
        temperature=0.0 if greedy else settings.temperature,
        seed=derive(settings.seed, "agreement"),
    )


def _interventions(
    pair: Pair, subject: UserSubject, items: Sequence[UserItem], settings: LookSettings, decoding: Decoding
) -> list[Intervention]:
    samples = 1 if decoding is Decoding.GREEDY else settings.samples
    writing = Writing(
        decoding=decoding,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        stop=tuple(subject.renderer.stop_sequences()),
        threshold=settings.threshold,
    )
    owners = [one for one in items for _ in range(samples)]
    lines = [
        Line(
            prompt=subject.renderer.build_generation_prompt(one.messages),
            seed=derive(settings.seed, "intervention", one.prompt_id, sample),
        )
        for one in items
        for sample in range(samples)
    ]
    oracle = corrected(pair, lines, Rule.ORACLE, writing)
    control = [replace(line, places=control_places(line, one)) for line, one in zip(lines, oracle, strict=True)]
    found = {
        Rule.ORACLE: oracle,
        Rule.RANDOM: corrected(pair, control, Rule.RANDOM, writing),
        Rule.UNCERTAIN: corrected(pair, lines, Rule.UNCERTAIN, writing),
    }
    return [_earned(subject, owners, rule, decoding, ones) for rule, ones in found.items()]


def _earned(
    subject: UserSubject, owners: Sequence[UserItem], rule: Rule, decoding: Decoding, answers: Sequence[Corrected]
) -> Intervention:
    earned: dict[str, list[float]] = {}
    failures = 0
    for owner, answer in zip(owners, answers, strict=True):
        (found,) = score_group(subject.task, owner.item, [[subject.text(answer.tokens)]])
        if isinstance(found, Failed):
            failures += 1
        else:
            earned.setdefault(owner.prompt_id, []).append(found.total)
    return Intervention(
        rule=rule,
        decoding=decoding,
        earned={name: tuple(values) for name, values in earned.items()},
        tokens=sum(len(one.tokens) for one in answers),
        taken=sum(one.taken for one in answers),
        failures=failures,
    )
