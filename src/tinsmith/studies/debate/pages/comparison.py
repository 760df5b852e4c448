"""Runs with a challenger side by side: caving as a ratio, and the same conversations one by one.

Every run is held against one other, the reference: that of the seed's reward where there is one, trained under the
same seed if there are several, else the first that was challenged. First answers are held likewise against those of a
run that nobody challenged, where there is one. Experiments that have several seeds are held against each other too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.results.arms import alike_but_for_seeds
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.ratios import ShareRatio, share_ratio
from tinsmith.stats.seeded_shares import MeanDifference
from tinsmith.stats.significance import ALPHA, McNemar, holm, mcnemar
from tinsmith.studies.debate.pages.gathering import CONTROL, TEST, DebateRun, read_debate_run
from tinsmith.studies.debate.pages.over_seeds import OverSeeds, over_seeds
from tinsmith.studies.debate.pages.over_seeds_shown import seeded_story
from tinsmith.studies.debate.pages.story import revising_words, signed_words
from tinsmith.studies.debate.statistics import CAVING, compare, paired

SEED_REWARD: Final = "adversarial/seed"
"""The reward that others are held against."""
Runs = Mapping[str, DebateRun]
"""By a name that is unique among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One run against the reference, on the conversations that both had; `why` says what could not be compared."""

    name: str
    reference: str
    caving: ShareRatio | None
    """This run's caving over the reference's, each on its own right first answers."""
    no_ratio: str
    """Why there is no such ratio; empty where there is one."""
    shared: int
    """Papers that were challenged in the same way in both."""
    events: Mapping[str, McNemar]
    p_holm: Mapping[str, float]
    """Corrected for all tests of the page."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """A run's first answers less those of a run that nobody challenged, paper by paper."""

    name: str
    alone: str
    found: MeanDifference
    n: int
    test: McNemar


@dataclass(frozen=True, slots=True, kw_only=True)
class DebatesCompared:
    """All that the page and the terminal show."""

    runs: Runs
    seeded: OverSeeds
    references: tuple[str, ...]
    alone: tuple[str, ...]
    against: tuple[Against, ...]
    firsts: tuple[First, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, and what is left out."""
        read = [f"{name}: {note}" for name, one in self.runs.items() for note in one.notes]
        return (*read, *self.seeded.notes)


def compare_debates(folders: Sequence[Path]) -> DebatesCompared:
    """Read runs with a challenger and hold them against the reference.

    Raises:
        DataError: a folder holds no run.
    """
    short = [folder.resolve().name for folder in folders]
    runs = {
        name if short.count(name) == 1 else str(folder): read_debate_run(folder)
        for name, folder in zip(short, folders, strict=True)
    }
    alone = {name: one for name, one in runs.items() if one.alone}
    challenged = {name: one for name, one in runs.items() if not one.alone}
    references = _references(challenged)
    return DebatesCompared(
        runs=runs,
        seeded=over_seeds(list(runs.values()), SEED_REWARD),
        references=tuple(references),
        alone=tuple(alone),
        against=_against(challenged, references),
        firsts=_firsts(challenged, alone),
    )


def _references(challenged: Runs) -> Runs:
    """Return the runs that others are held against: of the seed's reward and alike but for the seed, else one.

    Seeds of one experiment are held against nothing: which of them came first says nothing.
    """
    experiments = alike_but_for_seeds(one.run for one in challenged.values())
    seeds = {one.run.config.seed for one in challenged.values()}
    if len(challenged) < 2 or (len(experiments) == 1 and len(seeds) > 1):
        return {}
    for _, alike in experiments:
        folders = {run.folder for run in alike}
        found = {name: one for name, one in challenged.items() if one.run.folder in folders}
        if alike[0].config.reward_name == SEED_REWARD and len(found) < len(challenged):
            return found
    return dict(list(challenged.items())[:1])


def _like(one: DebateRun, others: Runs) -> str:
    """Return that of the others which was trained under the same seed, else the first."""
    seed = one.run.config.seed
    return next((name for name in others if others[name].run.config.seed == seed), next(iter(others)))


def _against(challenged: Runs, references: Runs) -> tuple[Against, ...]:
    tried = [
        (name, reference, *_paired(references[reference], one))
        for name, one in challenged.items()
        if references and name not in references
        for reference in [_like(one, references)]
    ]
    corrected = iter(holm([test.p_value for *_, events, _, _ in tried for test in events.values()]))
    return tuple(
        Against(
            name=name,
            reference=reference,
            caving=caving,
            no_ratio=no_ratio,
            shared=shared,
            events=events,
            p_holm={name: next(corrected) for name in events},
            why=why,
        )
        for name, reference, events, shared, why in tried
        for caving, no_ratio in [_caving_ratio(challenged, name, reference)]
    )


def _paired(before: DebateRun, after: DebateRun) -> tuple[Mapping[str, McNemar], int, str]:
    if before.run.config.data.fingerprint != after.run.config.data.fingerprint:
        return {}, 0, "another slice"
    first, second = (
        {(talk.debated.item, talk.debated.arm, talk.debated.evidence): talk for talk in talks}
        for talks in (before.talks.get(TEST, ()), after.talks.get(TEST, ()))
    )
    shared = sorted(
        key for key in first.keys() & second.keys() if first[key].record.challenge == second[key].record.challenge
    )
    if not shared:
        return {}, 0, "no paper was challenged in the same way in both, as with another seed"
    found = compare([first[key].debated for key in shared], [second[key].debated for key in shared])
    return found, len(shared), ""


def _caving_ratio(runs: Runs, name: str, reference: str) -> tuple[ShareRatio | None, str]:
    one, other = (CAVING.counts(runs[each].debated(TEST)) for each in (name, reference))
    for each, counts in ((name, one), (reference, other)):
        if not counts.first_n:
            return None, f"{each} has no right first answer"
    ratio = share_ratio(one.first, one.first_n, other.first, other.first_n)
    return ratio, "" if ratio else f"{reference} never caved"


def _firsts(challenged: Runs, alone: Runs) -> tuple[First, ...]:
    found: list[First] = []
    for name, one in challenged.items() if alone else ():
        like = _like(one, alone)
        same = alone[like].run.config.data.fingerprint == one.run.config.data.fingerprint
        ours, theirs = ({each.item: each.first_right for each in run.debated(TEST)} for run in (one, alone[like]))
        pairs = [(ours[item], theirs[item]) for item in sorted(ours.keys() & theirs.keys())]
        difference = paired(pairs)
        if difference is not None and same:
            only, other = (sum(a > b for a, b in pairs), sum(b > a for a, b in pairs))
            test = mcnemar(only, other)
            found.append(First(name=name, alone=like, found=difference, n=len(pairs), test=test))
    return tuple(found)


def compared_story(compared: DebatesCompared) -> tuple[str, ...]:
    """Return the sentences at the top of the page, over seeds first."""
    seeded, firsts = compared.seeded, compared.firsts
    told = list(seeded_story(seeded))
    challenged = {name: one for name, one in compared.runs.items() if not one.alone}
    # What is said over seeds is not said again run by run: the tables have it.
    told_of, held = (seeded.folders(), seeded.folders([one.first for one in seeded.caving if one.found]))
    apart = [name for name, one in compared.runs.items() if one.run.folder not in told_of]
    single = [one for one in compared.against if compared.runs[one.name].run.folder not in held]
    told += [_against_words(one) for one in single]
    told += [_alone(name, one) for name, one in challenged.items() if name in apart]
    told += [_first_words(one) for one in firsts if not seeded.firsts or one.name in apart]
    if challenged and not firsts:
        told.append(
            "Whether a challenger costs or helps the first answer is not known: no run here answered alone on the same "
            "papers (adversarial/alone)."
        )
    if single:
        told.append(
            "A difference between two runs is one between trained models on these papers; whether it is one between "
            "rewards takes several seeds of each."
        )
    return tuple(told)


def _alone(name: str, one: DebateRun) -> str:
    groups, control = one.figures(TEST), one.figures(CONTROL)
    if not groups:
        return f"{name}: nothing can be told, as it has no test."
    told = f"{name}: {revising_words(groups)}"
    if control:
        bare = control["no_evidence"]
        told += f"; without evidence J = {signed_words(bare['discrimination'])}"
        if (within := bare["discrimination_within"]) is not None:
            told += f", where doubt is equal {signed_words(within)}"
        if (beyond := bare["discrimination_beyond"]) is not None:
            told += f", less J of the null arm {signed_words(beyond)}"
    return f"{told}."


def _against_words(one: Against) -> str:
    if one.why:
        return f"{one.name} and {one.reference} are not compared conversation by conversation: {one.why}."
    if one.caving is None:
        ratio = f"The caving of {one.name} cannot be held against that of {one.reference}: {one.no_ratio}"
    else:
        low, high = one.caving.interval.low, one.caving.interval.high
        ratio = f"{one.name} caves {one.caving.value:.2f} times as often as {one.reference} ({low:.2f} to {high:.2f})"
    caved, p = one.events["caved"], one.p_holm["caved"]
    return (
        f"{ratio}. In the same {counted(one.shared, 'conversation')}, {caved.only_second:,} right answers were given "
        f"up by it alone and {caved.only_first:,} by {one.reference} alone (Holm's {p_words(p)}: "
        f"{'told apart' if p <= ALPHA else 'not told apart'})."
    )


def _first_words(one: First) -> str:
    found, interval = one.found, one.found.interval
    told = f"{signed(interval.low)} to {signed(interval.high)}, " if interval else ""
    return (
        f"First answers of {one.name} against those of {one.alone}, which nobody challenged, on the same "
        f"{counted(one.n, 'paper')}: {signed(found.value)} ({told}standard error {found.standard_error:.3f}, "
        f"{p_words(one.test.p_value)}): {'not ' if found.not_below else ''}lower by more than one standard error."
    )
