"""Arms on labels: runs of one experiment that differ by the seed alone, and the answers of all their seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinsmith.lab.results.gathering import Gathered, gather
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Config, Run, Split
from tinsmith.pages.tables import shown
from tinsmith.stats.evaluation import combine
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.runs import Runs

SHUFFLED = frozenset({"control/shuffled_labels", "joint/shuffled_labels"})
EXACT = "control/exact_gradient"
"""Names of the controls."""
OFFSETS = " with offsets"
"""Ends the name of an arm whose decisions have logit offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One run of an arm, and the answers in its rollouts."""

    run: Run
    gathered: Gathered
    two_labels: bool = False
    """True if the run answers for another label too, of which nothing is said here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An experiment with all its seeds."""

    name: str
    """Unique on the page."""
    members: tuple[Member, ...]

    @property
    def first(self) -> Run:
        """The run with the smallest seed."""
        return self.members[0].run

    @property
    def experiment(self) -> str:
        """The experiment's name, without version."""
        return self.first.config.name

    @property
    def parent(self) -> str | None:
        """The parent's name, without version."""
        parent = self.first.config.parent
        return parent.partition("@")[0] if parent else None

    @property
    def kind(self) -> Kind:
        """The loop its runs learn by."""
        return self.first.config.kind

    @property
    def shuffled(self) -> bool:
        """True of a control on shuffled labels."""
        return self.experiment in SHUFFLED

    @property
    def two_labels(self) -> bool:
        """True if its runs answer for another label too."""
        return self.members[0].two_labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the task's order."""
        return self.first.labels

    def seeds(self, split: Split | None = None) -> str:
        """Return its seeds in words; with a split, those whose answers count there."""
        seeds = [m.run.config.seed for m in (self.counted(split) if split else self.members)]
        return ", ".join("unknown" if seed is None else str(seed) for seed in seeds)

    def counted(self, split: Split) -> tuple[Member, ...]:
        """Return the members whose answers count: those that have any, one a seed, as a seed again says nothing new."""
        found: dict[int | str, Member] = {}
        for place, member in enumerate(self.members):
            seed = member.run.config.seed
            if member.gathered.last(split) is not None:
                found.setdefault(f"unknown {place}" if seed is None else seed, member)
        return tuple(found.values())

    def answers(self, split: Split = Split.TEST) -> Runs | None:
        """Return the last answers on a split, a row a seed, to the papers that all seeds answered; None without any."""
        found = [one for m in self.counted(split) if (one := m.gathered.last(split)) is not None]
        by_run = [{answer.item for answer in one.answers} for one in found]
        return combine(self.name, found) if found and set[str].intersection(*by_run) else None

    def parity(self) -> ParityRecord | None:
        """Return sampler against trainer over all training steps of all seeds; None where never compared."""
        rows = [row for member in self.members for row in member.run.metrics.values()]
        seen = [value for row in rows if (value := row.get("optim/unequal_logprob_bits")) is not None]
        return ParityRecord(steps=len(seen), unequal_bits=int(sum(seen))) if seen else None


def arms_of(runs: Iterable[Run]) -> tuple[Arm, ...]:
    """Put runs that differ by their seed alone together; arms in the order they first occur, seeds ascending."""
    return arms_of_members([Member(run=run, gathered=gather(run)) for run in runs])


def arms_of_members(members: Sequence[Member]) -> tuple[Arm, ...]:
    """Put runs that were read already together in the same way."""
    by_folder = {member.run.folder: member for member in members}
    return tuple(
        Arm(name=name, members=tuple(by_folder[run.folder] for run in group))
        for name, group in alike_but_for_seeds(member.run for member in members)
    )


def alike_but_for_seeds(runs: Iterable[Run]) -> tuple[tuple[str, tuple[Run, ...]], ...]:
    """Return a name and its runs, seeds ascending, for each group that differs by the seed alone."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    return tuple(
        (name, tuple(sorted(group, key=lambda one: (one.config.seed or 0, str(one.folder)))))
        for name, group in zip(_names(list(groups.values())), groups.values(), strict=True)
    )


def seedless(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings but for the seed, in which runs of one arm differ."""
    return {key: value for key, value in settings.items() if key != "seed"}


def by_descent(arms: Sequence[Arm]) -> tuple[tuple[int, Arm], ...]:
    """Return arms, each experiment below its parent, with the number of its forebears among them."""
    placed: list[tuple[int, Arm]] = []
    names = {arm.experiment for arm in arms}

    def place(arm: Arm, depth: int) -> None:
        if any(arm is other for _, other in placed):
            return
        placed.append((depth, arm))
        for child in arms:
            if child.parent == arm.experiment and child.experiment != arm.experiment:
                place(child, depth + 1)

    for arm in arms:
        if arm.parent is None or arm.parent not in names:
            place(arm, 0)
    for arm in arms:  # what is left has a parent that is its own descendant
        place(arm, 0)
    return tuple(placed)


def _key(run: Run) -> str:
    """Return all that was asked for of a run but the seed."""
    config = run.config
    asked = (config.title, config.kind, seedless(config.overrides), seedless(config.settings))
    return json.dumps((*asked, config.task.name, config.model_name, config.data.fingerprint), sort_keys=True)


def _names(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Return a name for each arm: its title, with what it differs in from others of that title."""
    firsts = [group[0].config for group in groups]
    named: list[str] = []
    for config in firsts:
        alike = [_distinguishing(other) for other in firsts if other.title == config.title]
        own = _distinguishing(config)
        keys = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        listed = ", ".join(f"{key}={shown(own[key])}" for key in keys)
        named.append(f"{config.title} ({listed})" if listed else config.title)
    # Whatever is still alike gets a number.
    places = [named[: place + 1].count(name) for place, name in enumerate(named)]
    return [f"{name} [{place}]" if named.count(name) > 1 else name for name, place in zip(named, places, strict=True)]


def _distinguishing(config: Config) -> dict[str, object]:
    own = {"kind": config.kind.value, "model": config.model_name, "papers": config.data.name}
    return {**seedless(config.settings), **seedless(config.overrides), **own, "slice": config.data.fingerprint[:8]}
